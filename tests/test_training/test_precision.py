"""bfloat16 is taken where the processor has it and is faster with it, and the weights come back."""

import numpy as np
import pytest
import toys

from tfdistill import models
from tfdistill.training import precision

WIDE = toys.STUDENT.replace(hidden_size=256, num_heads=4)
FASTER = {precision.FLOAT32: 0.012, precision.MIXED: 0.010}
SLOWER = {precision.FLOAT32: 0.012, precision.MIXED: 0.0115}  # by less than a tenth


@pytest.fixture(scope="module")
def model():
    return models.build_classifier(WIDE, 2)


@pytest.fixture
def processor(monkeypatch):
    """Sets the flags of the processor."""

    def flags(*names):
        class Device:
            cpu_flags = names

        monkeypatch.setattr(precision.environment, "device", Device)

    return flags


@pytest.fixture
def timed(monkeypatch):
    """Sets the seconds of a step, and lists the shapes that are timed."""
    shapes = []

    def sets(seconds):
        def step_seconds(shape):
            shapes.append(shape)
            return seconds

        monkeypatch.setattr(precision, "step_seconds", step_seconds)
        return shapes

    return sets


@pytest.mark.parametrize("seconds, expected", [(FASTER, precision.MIXED),
                                               (SLOWER, precision.FLOAT32)])  # fmt: skip
def test_steps_that_are_faster_by_a_tenth_decide(
    seconds, expected, model, processor, timed, tmp_path
):
    processor("avx2", "amx_bf16")
    shapes = timed(seconds)
    assert precision.resolve("auto", model, tmp_path) == expected
    [shape] = shapes
    assert (shape.num_layers, shape.hidden_size) == (1, WIDE.hidden_size)


@pytest.mark.slow
def test_nothing_is_timed_without_instructions_or_width(model, processor, timed, tmp_path):
    processor("avx2", "avx512f")
    shapes = timed(FASTER)
    assert precision.resolve("auto", model, tmp_path) == precision.FLOAT32
    assert not shapes
    processor("amx_bf16")
    shapes = timed(FASTER)
    narrow = models.build_classifier(toys.STUDENT, 2)
    assert precision.resolve("auto", narrow, tmp_path) == precision.FLOAT32
    assert precision.gain(toys.STUDENT) == 1.0
    assert not shapes


def test_a_training_that_is_resumed_keeps_its_precision(model, processor, timed, tmp_path):
    folder = tmp_path / "stage"
    processor("bf16")
    shapes = timed(FASTER)
    first = precision.resolve("auto", model, folder)
    processor("sse2")  # another machine
    assert precision.resolve("auto", model, folder) == first == precision.MIXED
    assert len(shapes) == 1


@pytest.mark.slow
def test_both_arithmetics_are_timed_and_what_the_copy_learns_is_in_the_model(model):
    seconds = precision.step_seconds(toys.STUDENT)
    assert list(seconds) == [precision.FLOAT32, precision.MIXED]
    assert all(value > 0 for value in seconds.values())
    before = model.get_weights()
    with precision.training_in(model, precision.MIXED) as trained:
        layer = trained.get_layer("layer_0_query")
        assert (trained is not model, layer.compute_dtype) == (True, "bfloat16")
        trained.set_weights([weight + 0.125 for weight in before])
    for weight, earlier in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, earlier + 0.125)
    assert model.get_layer("layer_0_query").compute_dtype == "float32"
