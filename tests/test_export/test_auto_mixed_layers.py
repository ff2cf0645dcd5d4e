"""auto on a model that collapses in int8: the layers of the outlier are found and left in float."""

import dataclasses

import numpy as np
import pytest

import export
from export.checking.outputs import model_logits
from tfdistill import manifest, models
from tfdistill.tasks import TaskSpec
from tfdistill.tasks.encoded import EncodedExamples

OUTLIER = 600.0  # the other activations there are of size 1


@pytest.fixture(scope="module")
def collapsing(lively, toy):
    """A classifier with one huge activation, which the next layer takes out again."""
    model = lively(models.build_classifier(toy.config, 3))
    before, after = model.get_layer("layer_0_intermediate"), model.get_layer("layer_0_output")
    kernel, bias = before.get_weights()
    bias[0] += OUTLIER
    before.set_weights([kernel, bias])
    kernel, bias = after.get_weights()
    kernel[0] *= 0.02
    after.set_weights([kernel, bias - kernel[0] * OUTLIER])
    return model


@pytest.fixture(scope="module")
def arguments(collapsing, toy):
    random = np.random.default_rng(5)
    sizes = random.integers(3, 16, 160)
    rows = [np.r_[2, random.integers(5, toy.config.vocab_size, n - 2), 3] for n in sizes]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    ids = np.concatenate(rows).astype(np.int32)
    encoded = EncodedExamples(ids, offsets, np.zeros(len(ids), np.uint8))
    labels = model_logits(collapsing, encoded).argmax(axis=1).astype(np.int32)
    encoded = dataclasses.replace(encoded, labels=labels)
    return {
        "lengths": (16,),
        "check_on": encoded.select(range(100)),
        "calibrate_on": encoded.select(range(100, 160)),
        "num_calibration": 60,
        "task": TaskSpec("toy", "text", "label", labels=("no", "yes", "maybe")),
    }


@pytest.mark.thorough
def test_the_layers_of_an_outlier_are_left_in_float_and_the_rest_stays_int8(
    collapsing, arguments, tmp_path
):
    told = []
    path = tmp_path / "model.tflite"
    names = ["static_wi8_ai8"]
    card = export.auto(collapsing, path, names=names, report=told.append, **arguments)

    alone, reference, mixed = told
    assert (alone.verdict, reference.name, mixed.verdict) == ("beyond bounds", "float32", "good")
    assert alone.sqnr_db < 8 < 15 < mixed.sqnr_db
    assert {"layer_0_intermediate", "layer_0_output"} <= set(card.quantized_layers)
    assert len(card.quantized_layers) <= 6
    assert card.quantization == "static_wi8_ai8"
    assert alone.size_bytes < mixed.size_bytes < 0.7 * reference.size_bytes
    assert card == manifest.read_manifest(path)
