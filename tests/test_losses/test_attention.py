"""The attention objective beyond what every objective promises."""

import numpy as np
import pytest
import tensorflow as tf

from tfdistill.errors import ConfigError, ShapeError
from tfdistill.losses import attention_score_mse

random = np.random.default_rng(3)


def scores(*shape):
    return random.standard_normal(shape).astype(np.float32)


def test_only_pairs_of_two_real_tokens_count():
    teacher = np.zeros((1, 1, 3, 3), np.float32)
    student = np.array([[[[1, 2, 9], [3, 4, 9], [9, 9, 9]]]], np.float32)
    value = attention_score_mse(teacher, student, [[1, 1, 0]])
    assert float(value) == (1 + 4 + 9 + 16) / 4


def test_a_longer_example_weighs_by_its_pairs():
    # Errors of 1 in an example of 1 token (1 pair), 0 in one of 3 tokens (9 pairs).
    student = np.stack([np.ones((2, 3, 3)), np.zeros((2, 3, 3))])
    value = attention_score_mse(np.zeros_like(student), student, [[1, 0, 0], [1, 1, 1]])
    np.testing.assert_allclose(float(value), 1 / 10, rtol=1e-6)


def test_boolean_and_integer_masks_agree():
    teacher, student = scores(2, 3, 4, 4), scores(2, 3, 4, 4)
    mask = np.array([[1, 1, 1, 0], [1, 1, 0, 0]])
    values = {
        float(attention_score_mse(teacher, student, mask.astype(dtype)))
        for dtype in (bool, np.int32, np.int64, np.float16, np.float64)
    }
    assert len(values) == 1


def test_minus_infinity_at_padding_keys_of_float16_scores_is_ignored():
    # An additive mask of -1e9 is -inf in float16, and inf - inf is NaN.
    teacher, student = (
        scores(1, 2, 3, 3).astype(np.float16),
        scores(1, 2, 3, 3).astype(np.float16),
    )
    clean = float(attention_score_mse(teacher, student, [[1, 1, 0]]))
    teacher[..., 2] = student[..., 2] = -np.inf
    assert float(attention_score_mse(teacher, student, [[1, 1, 0]])) == clean


def published_reduction(teacher, student, mask):
    """The published formula on whole arrays, as the facts state it."""
    additive = (1.0 - mask)[:, None, None, :] * -1e4
    teacher, student = teacher + additive, student + additive
    teacher = np.where(teacher <= -1e2, 0.0, teacher)
    student = np.where(student <= -1e2, 0.0, student)
    return np.mean((student - teacher) ** 2)


def test_reference_is_the_published_reduction():
    teacher, student = 40 * scores(3, 4, 6, 6), 40 * scores(3, 4, 6, 6)
    assert (teacher <= -1e2).any(), "the threshold must bite on real scores too"
    mask = np.array([[1] * 6, [1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0]], np.float32)
    np.testing.assert_allclose(
        float(attention_score_mse(teacher, student, mask, reduction="reference")),
        published_reduction(teacher, student, mask),
        rtol=1e-5,
    )


def test_reference_counts_padding_queries_and_padding_keys_as_zeros():
    teacher = np.zeros((1, 1, 2, 2), np.float32)
    student = np.array([[[[1, 5], [3, 5]]]], np.float32)
    value = attention_score_mse(teacher, student, [[1, 0]], reduction="reference")
    assert float(value) == (1 + 0 + 9 + 0) / 4


def test_reference_zeroes_a_score_of_exactly_minus_100():
    teacher = np.full((1, 1, 1, 1), -100.0)
    below = attention_score_mse(teacher, [[[[2.0]]]], [[1]], reduction="reference")
    above = attention_score_mse(teacher + 1, [[[[2.0]]]], [[1]], reduction="reference")
    assert (float(below), float(above)) == (4.0, 101.0**2)


def test_reference_gives_no_gradient_to_padding_keys():
    student = tf.constant(scores(1, 2, 3, 3))
    with tf.GradientTape() as tape:
        tape.watch(student)
        value = attention_score_mse(scores(1, 2, 3, 3), student, [[1, 1, 0]], reduction="reference")
    gradient = tape.gradient(value, student).numpy()
    np.testing.assert_array_equal(gradient[..., 2], 0.0)
    assert (gradient[..., 2, :2] != 0.0).all()


@pytest.mark.parametrize(
    ("teacher", "student", "mask", "message"),
    [
        ((2, 3, 5, 5), (2, 3, 4, 4), (2, 5), "same length"),
        ((2, 3, 5, 5), (1, 3, 5, 5), (2, 5), "same batch"),
        (
            (2, 5, 5),
            (2, 5, 5),
            (2, 5),
            r"expected shape \(batch, heads, tokens, tokens\)",
        ),
        ((2, 3, 5, 5), (2, 3, 5, 5), (2, 4), "mask: expected one weight"),
        ((2, 3, 5, 5), (2, 3, 5, 5), (2, 1, 1, 5), "Additive masks"),
    ],
)
def test_shapes_that_would_broadcast_are_refused(teacher, student, mask, message):
    with pytest.raises(ShapeError, match=message):
        attention_score_mse(scores(*teacher), scores(*student), np.ones(mask))


def test_unknown_reduction_is_refused_with_the_choices():
    with pytest.raises(ConfigError, match=r"tokens, reference, received 'token'.*'tokens'"):
        attention_score_mse(scores(1, 1, 2, 2), scores(1, 1, 2, 2), [[1, 1]], reduction="token")
