"""Options of the distillers of methods: shown by name, and refused out of range before any data."""

import inspect

import pytest
import toys

from tfdistill import distillers, errors, models

TEACHER, STUDENT = toys.TEACHER, toys.STUDENT
LOGIT, TINYBERT = distillers.LogitDistiller, distillers.TinyBertDistiller
PATIENT, MINILM = distillers.PatientDistiller, distillers.MiniLmDistiller
NAN = float("nan")
PREDICTION = {"stage": "prediction"}
REFUSED = [
    (LOGIT, {"objective": "kl"}, "objective: expected one of soft_cross_entropy"),
    (LOGIT, {"temperature": 0.0}, "temperature: expected a finite number above 0, received 0.0"),
    (LOGIT, {"temperature": float("inf")}, "temperature"),
    (LOGIT, {"alpha": 1.5}, "alpha: expected a number from 0 to 1, received 1.5"),
    (LOGIT, {"alpha": NAN}, "alpha"),
    (LOGIT, {"reduction": "tokens"}, "reduction: expected one of batch, reference"),
    (LOGIT, {"head": "sentence"}, "head"),
    (TINYBERT, {"stage": "task"}, "stage: expected one of general, intermediate, prediction"),
    (TINYBERT, {"projection": "shard"}, "projection: expected one of shared, per_layer, none"),
    (TINYBERT, {"objective": "mse"}, "objective: expected one of soft_cross_entropy"),
    (TINYBERT, {"reduction": "mean"}, "reduction: expected one of tokens, reference"),
    (TINYBERT, {"layer_map": "upper"}, "layer map"),
    (TINYBERT, {"layer_map": [0, 4]}, "a teacher layer from 0 to 3, received 4"),
    (TINYBERT, {"layer_map": [0]}, "2 student layers"),
    (TINYBERT, {"layer_weights": {"embedding": (1.0, 1.0)}}, "expected one of attention, hidden"),
    (TINYBERT, {"layer_weights": {"hidden": (1.0,)}}, "2 numbers, one for each pair"),
    (TINYBERT, {"layer_weights": {"hidden": (0.0, 0.0)}}, "not all 0"),
    (TINYBERT, {"layer_weights": {"hidden": (1.0, -1.0)}}, "layer_weights: expected"),
    (TINYBERT, {"layer_weights": {"hidden": (1.0, NAN)}}, "layer_weights: expected"),
    (TINYBERT, {**PREDICTION, "temperature": 0.0}, "temperature: expected a finite number above 0"),
    (PATIENT, {"alpha": -0.1}, "alpha: expected a number from 0 to 1"),
    (PATIENT, {"beta": -1.0}, "beta: expected a finite number >= 0, received -1.0"),
    (PATIENT, {"beta": NAN}, "beta"),
    (PATIENT, {"temperature": 0}, "temperature"),
    (PATIENT, {"projection": "shared"}, "projection: expected one of none, per_layer"),
    (PATIENT, {"layer_map": [4]}, "a teacher layer from 0 to 3"),
    (PATIENT, {"objective": "mse"}, "objective"),
    (MINILM, {"teacher_layer": 4}, "teacher layer: expected a layer from 0 to 3"),
    (MINILM, {"student_layer": True}, "student layer: expected a layer from 0"),
    (MINILM, {"student_layer": -3}, "or from the end -1 to -2, received -3"),
    (MINILM, {"teacher_layer": 1.0}, "received 1.0"),
    (MINILM, {"num_relation_heads": 0}, "an integer of at least 1"),
    (MINILM, {"reduction": "mean"}, "reduction: expected one of tokens"),
]
MOBILEBERT, DISTILBERT = distillers.MobileBertDistiller, distillers.DistilBertDistiller
OF_WORDS = [
    (MOBILEBERT, {"attention": "kl"}, "attention: expected one of cross_entropy, kl_divergence"),
    (MOBILEBERT, {"reduction": "mean"}, "reduction: expected one of tokens, reference"),
    (DISTILBERT, {"temperature": 0.0}, "temperature: expected a finite number above 0"),
    (MOBILEBERT, {"layer_reduction": "max"}, "layer_reduction: expected one of sum, mean"),
    (MOBILEBERT, {"layers": (2,)}, "layers: expected a layer from 0 to 1"),
    (MOBILEBERT, {"layers": (1, -1)}, "each layer once"),
    (MOBILEBERT, {"layers": (), "predict_words": False}, "some, where no words are predicted"),
]


@pytest.mark.parametrize(("method", "options", "message"), REFUSED)
def test_an_option_out_of_range_is_refused_by_name(teacher, student, method, options, message):
    with pytest.raises(errors.ConfigError) as caught:
        method(teacher, student, **options)
    assert message in str(caught.value)


def test_relation_heads_that_do_not_divide_both_widths_are_refused(teacher, student):
    distiller = MINILM(teacher, student, num_relation_heads=3)
    with pytest.raises(errors.ShapeError, match="widths 12 and 8, received 3"):
        distiller.compile("sgd")


@pytest.fixture(scope="module")
def words():
    return models.build_masked_lm(STUDENT)


@pytest.mark.parametrize(("method", "options", "message"), OF_WORDS)
def test_an_option_of_masked_language_models_is_refused_by_name(words, method, options, message):
    with pytest.raises(errors.ConfigError) as caught:
        method(words, words, **options)
    assert message in str(caught.value)


SHOWN = {
    LOGIT: {
        *("objective", "temperature", "scale_by_t2", "alpha", "head", "reduction"),
    },
    MINILM: {
        *("teacher_layer", "student_layer", "num_relation_heads", "reduction"),
    },
    MOBILEBERT: {
        *("layers", "predict_words", "attention", "reduction", "layer_reduction"),
    },
    TINYBERT: {
        *("stage", "layer_map", "projection", "layer_weights", "objective", "temperature", "head"),
        "reduction",
    },
}


@pytest.mark.parametrize("cls", SHOWN)
def test_a_distiller_shows_the_options_of_its_method_and_takes_no_others(cls, student):
    shown = inspect.signature(cls).parameters
    assert {*SHOWN[cls], "teacher", "student", "same_tokens", "seed", "name"} == shown.keys()
    assert shown["seed"].default == 0
    with pytest.raises(TypeError, match="warmth"):
        cls(student, student, warmth=2)
