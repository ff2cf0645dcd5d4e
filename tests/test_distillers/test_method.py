"""Distillers of methods take the options of their function, and show them."""

import inspect

import pytest
import toys

from tfdistill import distillers

SHOWN = {
    distillers.LogitDistiller: {
        *("objective", "temperature", "scale_by_t2", "alpha", "head", "reduction"),
    },
    distillers.MiniLmDistiller: {
        *("teacher_layer", "student_layer", "num_relation_heads", "reduction"),
    },
    distillers.MobileBertDistiller: {
        *("layers", "predict_words", "attention", "reduction", "layer_reduction"),
    },
    distillers.TinyBertDistiller: {
        *("stage", "layer_map", "projection", "layer_weights", "objective", "temperature", "head"),
        "reduction",
    },
}


@pytest.mark.parametrize("cls", SHOWN)
def test_a_distiller_shows_the_options_of_its_method_and_takes_no_others(cls):
    shown = inspect.signature(cls).parameters
    assert {*SHOWN[cls], "teacher", "student", "same_tokens", "seed", "name"} == shown.keys()
    assert shown["seed"].default == 0
    student = toys.classifier(toys.STUDENT)
    with pytest.raises(TypeError, match="warmth"):
        cls(student, student, warmth=2)
