"""What objectives refuse: shapes that would broadcast, and options that mean nothing."""

import numpy as np
import pytest
import tf_keras as keras

from tfdistill import losses
from tfdistill.errors import ConfigError, ShapeError

ATTENTION = (losses.attention_score_mse, losses.attention_cross_entropy)
FEATURES = (losses.feature_map_mse, losses.feature_mean_mse, losses.feature_variance_mae)
STATES = (losses.hidden_state_mse, losses.cosine_distance, *FEATURES)
SOFT = (losses.soft_cross_entropy, losses.kl_divergence)
LOGITS = (*SOFT, losses.logit_mse)
RELATIONS, PATIENT = (losses.relation_kl,), (losses.patient_mse,)


def call(objective, teacher, student, weights, **options):
    """The objective on arrays of these shapes."""
    name = "sample_weight" if objective in (*LOGITS, *PATIENT) else "mask"
    if objective in RELATIONS:
        options.setdefault("num_relation_heads", 2)
    arrays = [np.ones(shape, np.float32) for shape in (teacher, student)]
    return objective(*arrays, **{name: np.ones(weights)}, **options)


SHAPES = [
    (ATTENTION, (2, 3, 5, 5), (2, 3, 4, 4), (2, 5), "same length"),
    (ATTENTION, (2, 3, 5, 5), (1, 3, 5, 5), (2, 5), "same batch"),
    (ATTENTION, (2, 5, 5), (2, 5, 5), (2, 5), r"shape \(batch, heads, tokens, tokens\)"),
    (ATTENTION, (2, 3, 5, 5), (2, 3, 5, 5), (2, 4), "mask: expected one weight"),
    (ATTENTION, (2, 3, 5, 5), (2, 3, 5, 5), (2, 1, 1, 5), "Additive masks"),
    (STATES, (2, 4, 6), (2, 1, 6), (2, 4), "same length"),
    (STATES, (2, 4, 6), (1, 4, 6), (2, 4), "same batch"),
    (STATES, (2, 6), (2, 6), (2, 4), r"shape \(batch, tokens, width\)"),
    (STATES, (2, 4, 6), (2, 4, 6), (2, 4, 1), "mask: expected one weight"),
    (STATES, (2, 4, 6), (2, 4, 6), (1, 4), "mask: expected one weight"),
    (FEATURES, (2, 4, 6), (2, 4, 3), (2, 4), "hidden_state_mse with a projection"),
    (LOGITS, (3, 4), (3, 2), (3,), "number of labels"),
    (LOGITS, (3, 4), (1, 4), (3,), "same batch"),
    (LOGITS, (3,), (3,), (), r"shape \(batch, classes\)"),
    (LOGITS, (3, 4), (3, 4), (3, 1), "sample_weight: expected one weight"),
    (LOGITS, (3, 4), (3, 4), (1,), "sample_weight: expected one weight"),
    (SOFT, (3, 1), (3, 1), (3,), "at least 2 classes, received 1.*logit_mse"),
    (PATIENT, (5, 3, 4), (5, 3, 4), (5,), r"shape \(batch, width\)"),
    (PATIENT, (5, 4), (1, 4), (5,), "same batch"),
    (PATIENT, (5, 4), (5, 4), (5, 1), "sample_weight: expected one weight"),
    (PATIENT, (5, 6), (5, 4), (5,), r"\(5, 6\).*\(5, 4\).*as wide as its teacher.*Dense"),
    (RELATIONS, (3, 5, 8), (3, 4, 8), (3, 5), r"tokens \(3, 5\), received \(3, 4\)"),
    (RELATIONS, (3, 5, 8), (1, 5, 8), (3, 5), "same batch"),
    (RELATIONS, (3, 8), (3, 8), (3, 5), r"shape \(batch, tokens, width\)"),
    (RELATIONS, (3, 5, 8), (3, 5, 8), (3, 5, 1), "mask: expected one weight"),
]


@pytest.mark.parametrize(("objectives", "teacher", "student", "weights", "message"), SHAPES)
def test_shapes_that_would_broadcast(objectives, teacher, student, weights, message):
    for objective in objectives:
        with pytest.raises(ShapeError, match=message):
            call(objective, teacher, student, weights)


def test_a_projection_to_another_width():
    projection = keras.layers.Dense(5)
    with pytest.raises(ShapeError, match="projection must give the teacher's width"):
        call(losses.patient_mse, (5, 6), (5, 4), (5,), projection=projection)


TOKEN_SHAPES = ((2, 4, 6), (2, 4, 6), (2, 4))
REDUCTIONS = (losses.hidden_state_mse, *FEATURES, *RELATIONS)


@pytest.mark.parametrize("objective", REDUCTIONS)
def test_an_unknown_reduction(objective):
    with pytest.raises(ConfigError, match=r"one of tokens, reference, received 'token'.*'tokens'"):
        call(objective, *TOKEN_SHAPES, reduction="token")


@pytest.mark.parametrize("objective", SOFT)
@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan"), float("inf")])
def test_a_temperature_that_is_not_positive(objective, temperature):
    with pytest.raises(ConfigError, match="temperature: expected a number above 0"):
        call(objective, (3, 4), (3, 4), (3,), temperature=temperature)


@pytest.mark.parametrize("heads", [0, -1, 2.0, True, None])
def test_relation_heads_that_are_no_count(heads):
    with pytest.raises(ConfigError, match="num_relation_heads: expected an integer of at least 1"):
        call(losses.relation_kl, *TOKEN_SHAPES, num_relation_heads=heads)
