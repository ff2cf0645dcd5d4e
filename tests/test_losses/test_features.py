"""MobileBERT's objectives: what every objective promises, and what the published code got wrong."""

import numpy as np
import pytest
import tensorflow as tf

import harness
from tfdistill import losses

random = np.random.default_rng(31)


def normal(*shape):
    return random.standard_normal(shape).astype(np.float32)


BATCH, HEADS, TOKENS, WIDTH = 3, 2, 5, 4
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]], np.int32)
TOKEN_WEIGHTS = np.array([[0.5, 2, 1, 1, 0.3], [3, 3, 3, 0, 0], [0.25, 0, 0, 0, 0]], np.float32)
SCORES = (normal(BATCH, HEADS, TOKENS, TOKENS), normal(BATCH, HEADS, TOKENS, TOKENS))
STATES = (normal(BATCH, TOKENS, WIDTH), normal(BATCH, TOKENS, WIDTH))


def layer_norm(state):
    """LN0 of one token's state, in Python floats."""
    values = [float(x) for x in state]
    mean = sum(values) / len(values)
    variance = sum((x - mean) ** 2 for x in values) / len(values)
    return [(x - mean) / (variance + 1e-12) ** 0.5 for x in values]


def map_term(t, s):
    pairs = zip(layer_norm(t), layer_norm(s), strict=True)
    return sum((s_row - t_row) ** 2 for t_row, s_row in pairs) / len(t)


def mean_term(t, s):
    return (sum(map(float, s)) / len(s) - sum(map(float, t)) / len(t)) ** 2


def variance_term(t, s):
    def variance(state):
        mean = sum(map(float, state)) / len(state)
        return sum((float(x) - mean) ** 2 for x in state) / len(state)

    return abs(variance(s) - variance(t))


def state_loop(term, reference):
    def loop(teacher, student, mask):
        total = weight_sum = 0.0
        for b in range(teacher.shape[0]):
            for i in range(teacher.shape[1]):
                weight = float(max(mask[b])) if reference else float(mask[b, i])
                weight_sum += 1.0 if reference else weight
                total += weight * term(teacher[b, i], student[b, i])
        return total / weight_sum

    return loop


def probabilities(scores, real):
    exponentials = [
        float(np.exp(float(z))) if r else 0.0 for z, r in zip(scores, real, strict=True)
    ]
    return [e / sum(exponentials) for e in exponentials]


def attention_loop(term, reference):
    def loop(teacher, student, mask):
        total = weight_sum = 0.0
        for b in range(teacher.shape[0]):
            for k in range(teacher.shape[1]):
                for i in range(teacher.shape[2]):
                    weight = float(max(mask[b])) if reference else float(mask[b, i])
                    weight_sum += 1.0 if reference else weight
                    p = probabilities(teacher[b, k, i], mask[b] > 0)
                    q = probabilities(student[b, k, i], mask[b] > 0)
                    total += weight * sum(term(p[j], q[j]) for j in range(len(p)) if mask[b, j] > 0)
        return total / weight_sum

    return loop


OBJECTIVES = {
    "feature_map_mse": (state_loop, map_term),
    "feature_mean_mse": (state_loop, mean_term),
    "feature_variance_mae": (state_loop, variance_term),
    "attention_cross_entropy": (attention_loop, harness.cross_entropy_term),
    "attention_kl_divergence": (attention_loop, harness.kl_term),
}


def case(name, reduction, mask):
    loop, term = OBJECTIVES[name]
    objective, reference = getattr(losses, name), reduction == "reference"
    loop = loop(term, reference)
    entropy = name == "attention_cross_entropy"
    return harness.ObjectiveCase(
        f"{name}-{reduction}",
        lambda teacher, student, mask: objective(teacher, student, mask, reduction=reduction),
        loop,
        (*(SCORES if name.startswith("attention") else STATES), mask),
        harness.more_tokens(*((2, 3) if name.startswith("attention") else (1,))),
        (lambda mask: np.ones(len(mask))) if reference else (lambda mask: mask.sum(axis=1)),
        (lambda teacher, mask: loop(teacher, teacher, mask)) if entropy else (lambda *_: 0.0),
        size_is_divisor=reference,
        step=1e-3,  # a normalisation over 4 numbers is curved: 1e-2 leaves an error of 1%
    )


# Weights hold zeros where a mask does, and a mask is one of whole numbers.
CASES = [
    case(name, reduction, mask)
    for name in OBJECTIVES
    for reduction, mask in (("tokens", TOKEN_WEIGHTS), ("reference", MASK))
]


@harness.every_check(CASES)
def test_it_is_an_objective(case, check):
    check(case)


def test_all_objectives_of_mobilebert_have_cases():
    named = {name for name in losses.__all__ if name.startswith(("feature_", "attention_"))}
    assert set(OBJECTIVES) == named - {"attention_score_mse"}


# Beyond what every objective promises.


def test_states_of_small_variance_are_normalised_all_the_same():
    """The published TF2 code adds 1e-3 to the variance, which mutes such states."""
    teacher, student = (1e-2 * states for states in STATES)
    expected = float(losses.feature_map_mse(*STATES, MASK))
    received = float(losses.feature_map_mse(teacher, student, MASK))
    assert received == pytest.approx(expected, rel=1e-5)

    def muted(states):
        centred = states - states.mean(axis=-1, keepdims=True)
        return centred / np.sqrt(states.var(axis=-1, keepdims=True) + 1e-3)

    faulty = np.mean((muted(teacher) - muted(student))[MASK == 1] ** 2)
    assert faulty < 0.5 * expected


def test_attention_is_normalised_once():
    """The published TF2 code takes a softmax of probabilities: next to no gradient is left."""
    teacher, student = tf.constant(4 * SCORES[0]), tf.constant(4 * SCORES[1])
    mask = np.ones((BATCH, TOKENS), np.float32)

    def slope(loss):
        with tf.GradientTape() as tape:
            tape.watch(student)
            value = loss()
        return float(tf.norm(tape.gradient(value, student)))

    def twice():
        p, q = tf.nn.softmax(teacher), tf.nn.softmax(student)
        terms = tf.nn.softmax(p) * tf.nn.log_softmax(q)
        return -tf.reduce_mean(tf.reduce_sum(terms, axis=-1))

    once = slope(lambda: losses.attention_cross_entropy(teacher, student, mask))
    assert once > 10 * slope(twice)


def test_scores_may_carry_the_published_additive_mask_already():
    added = np.where(MASK > 0, 0.0, -1e4).astype(np.float32)[:, None, None, :]
    masked = [scores + added for scores in SCORES]
    for objective in (losses.attention_cross_entropy, losses.attention_kl_divergence):
        for reduction in ("tokens", "reference"):
            plain = float(objective(*SCORES, MASK, reduction=reduction))
            assert float(objective(*masked, MASK, reduction=reduction)) == pytest.approx(plain)
