"""Signatures that share packed weights answer as those that do not, in less memory."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from export.conversion import convert
from export.conversion.convert import Conversion
from export.model import signature
from tfdistill import models
from tfdistill.tflite import TfliteModel

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "benchmarks" / "cold_start.py"


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("quantize", ["float32", "dynamic_wi8_afp32"])
def test_a_file_with_shared_weights_answers_as_without(isolated, quantize, exported, toy):
    path = exported(quantize).path
    expected = TfliteModel(path)
    with TfliteModel(path, share_weights=True, isolated=isolated) as received:
        for length in (8, 16, 8):
            for row in range(3):
                ids = toy.encoded.row(row)[:length]
                # The same kernels on the same weights.
                answers = [model.predict(ids, length=length) for model in (received, expected)]
                np.testing.assert_allclose(*answers, rtol=0, atol=1e-6)


def test_inputs_and_outputs_of_shared_weights_are_bound_by_name(exported):
    """The file lists them in another order than the CompiledModel."""
    features = {
        "input_ids": np.arange(5, 13, dtype=np.int32)[None],
        "attention_mask": np.array([[1] * 5 + [0] * 3], np.int32),
        "token_type_ids": np.array([[0, 0, 1, 1, 1, 0, 0, 0]], np.int32),
    }
    path = exported("float32").path
    answers = [
        TfliteModel(path, share_weights=share)(signature="len8", **features)
        for share in (False, True)
    ]
    assert [*answers[0]] == [*answers[1]] == ["logits"]
    np.testing.assert_allclose(answers[0]["logits"], answers[1]["logits"], rtol=0, atol=1e-6)


def peak_bytes(path, lengths, *options):
    command = [sys.executable, str(SCRIPT), str(path), ",".join(map(str, lengths)), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["peak_bytes"]


@pytest.mark.slow
def test_three_lengths_take_hardly_more_memory_than_one(tmp_path):
    """The shape of TinyBERT4 with a small vocabulary: 19 MB of float32 weights to pack."""
    config = models.preset("tinybert_4l_312d").replace(vocab_size=1000, max_positions=64)
    model = models.build_classifier(config, 2)
    shared, copies = {}, {}
    for lengths in ((64,), (16, 32, 64)):
        saved, path = tmp_path / f"saved{len(lengths)}", tmp_path / f"{len(lengths)}.tflite"
        signature.save(model, saved, lengths=lengths)
        keys = [f"len{length}" for length in lengths]
        convert.run(Conversion(str(saved), str(path), "float32", keys))
        shared[len(lengths)] = peak_bytes(path, lengths, "--share-weights")
        copies[len(lengths)] = peak_bytes(path, lengths)
    assert shared[3] < 1.5 * shared[1]  # measured: 1.06
    # Each signature has its own copy of the weights where none is shared: the measurement sees it.
    assert copies[3] - copies[1] > 30e6
    assert shared[3] - shared[1] < 5e6
