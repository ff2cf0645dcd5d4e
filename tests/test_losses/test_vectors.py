"""The objectives on vectors: what is true of every objective, and what only a batch can show."""

import functools
import math

import numpy as np
import pytest
import tensorflow as tf

import harness
from tfdistill import distillers, losses, models
from tfdistill.errors import ConfigError, ShapeError

random = np.random.default_rng(7)


def normal(*shape):
    return random.standard_normal(shape).astype(np.float32)


WEIGHTS = np.array([1, 0.5, 0, 2, 1.5], np.float32)
BATCH = (normal(5, 4), normal(5, 4), WEIGHTS)


def cosine(x, y):
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    return float(x @ y) / (float(x @ x) ** 0.5 * float(y @ y) ** 0.5)


def mean_loop(value):
    def run(teacher, student, weights):
        total = sum(float(w) * value(t, s) for t, s, w in zip(teacher, student, weights))  # noqa: B905
        return total / float(weights.sum())

    return run


def square(teacher, student):
    return sum((float(s) - float(t)) ** 2 for t, s in zip(teacher, student)) / len(teacher)  # noqa: B905


def neighbours(vectors, weights, i, temperature):
    """One text's distribution over the others, in loops."""
    powers = {
        j: math.exp(cosine(vectors[i], vectors[j]) / temperature)
        for j in range(len(vectors))
        if j != i and weights[j] > 0
    }
    return {j: power / sum(powers.values()) for j, power in powers.items()}


def similarity_loop(teacher, student, weights, temperature=0.5, prefixes=()):
    total = 0.0
    for prefix in prefixes or (student.shape[1],):
        for i, weight in enumerate(weights):
            if weight > 0:
                p = neighbours(teacher, weights, i, temperature)
                q = neighbours(student[:, :prefix], weights, i, temperature)
                total += float(weight) * sum(p[j] * math.log(p[j] / q[j]) for j in p)
    return total / float(weights.sum())


def weighted(objective, **options):
    return lambda teacher, student, weights: objective(
        teacher, student, sample_weight=weights, **options
    )


def case(name, objective, loop):
    return harness.ObjectiveCase(name, objective, loop, BATCH, harness.more_examples, lambda w: w)


EACH = [
    case("vector_mse", weighted(losses.vector_mse), mean_loop(square)),
    case(
        "vector_cosine",
        weighted(losses.vector_cosine),
        mean_loop(lambda t, s: 1.0 - cosine(t, s)),
    ),
]
IN_BATCH = [
    case("similarity_kl", weighted(losses.similarity_kl, temperature=0.5), similarity_loop),
    case(
        "similarity_kl_of_prefixes",
        # Smooth enough for the slopes that finite differences give.
        weighted(losses.similarity_kl, temperature=2.0, prefixes=(3, 4)),
        functools.partial(similarity_loop, temperature=2.0, prefixes=(3, 4)),
    ),
]


def each(cases):
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


CHECKS = {
    "loop": harness.check_equals_loop,
    "padding": harness.check_ignores_padding,
    "order": harness.check_ignores_batch_order,
    "gradients": harness.check_gradients,
    "float16": functools.partial(harness.check_low_precision, dtype=tf.float16),
    "nothing": harness.check_nothing_real_is_zero,
}


@pytest.mark.parametrize("check", CHECKS)
@each([*EACH, *IN_BATCH])
def test_every_objective(case, check):
    CHECKS[check](case)


@each(EACH)
def test_parts_of_a_batch_and_replicas_average_to_the_whole(case):
    harness.check_splits(case)
    harness.check_replicas(case)
    harness.check_weight_counts_examples(case)


def test_equality_is_the_minimum():
    harness.check_minimum_at_equality(EACH[0])
    for case in (EACH[1], IN_BATCH[0]):  # another length is no difference
        teacher, _, weights = case.batch
        np.testing.assert_allclose(case.objective(teacher, 3 * teacher, weights), 0, atol=1e-6)


def test_the_mean_squared_error_of_unit_vectors_is_a_share_of_the_cosine_distance():
    teacher, student = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in BATCH[:2])
    expected = 2 / 4 * losses.vector_cosine(teacher, student)
    np.testing.assert_allclose(losses.vector_mse(teacher, student), expected, rtol=1e-5)
    same = losses.patient_mse(*BATCH[:2])
    np.testing.assert_allclose(same * 2, losses.vector_cosine(*BATCH[:2]), rtol=1e-5)


def test_a_projection_maps_the_student_to_the_teachers_width():
    kernel = normal(3, 4)
    student = normal(5, 3)

    def project(values):
        return tf.matmul(values, kernel)

    for name in ("vector_mse", "vector_cosine"):
        objective = getattr(losses, name)
        np.testing.assert_allclose(
            objective(BATCH[0], student, projection=project),
            objective(BATCH[0], student @ kernel),
            rtol=1e-5,
        )
        with pytest.raises(ShapeError, match="student vectors"):
            objective(BATCH[0], student)


def test_similarities_need_no_equal_widths():
    student = normal(5, 3)
    loss = losses.similarity_kl(BATCH[0], student, temperature=0.5)
    expected = similarity_loop(BATCH[0], student, np.ones(5))
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_matryoshka_adds_up_prefixes():
    vectors = BATCH[0]
    loss = losses.matryoshka(tf.reduce_sum, vectors, (1, 3))
    np.testing.assert_allclose(loss, vectors[:, :1].sum() + vectors[:, :3].sum(), rtol=1e-5)
    for prefixes in ((), (0, 2), (5,)):
        with pytest.raises(ConfigError, match="prefixes: expected widths from 1 to 4"):
            losses.matryoshka(tf.reduce_sum, vectors, prefixes)


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf])
def test_scales_are_positive(value):
    with pytest.raises(ConfigError, match="a number above 0"):
        losses.similarity_kl(*BATCH[:2], temperature=value)


def label_loop(vectors, labels, weights):
    """The two means over pairs, in loops."""
    sums = {True: [0.0, 0.0], False: [0.0, 0.0]}
    for i in range(len(vectors)):
        for j in range(i):
            same = bool(labels[i] == labels[j])
            weight = float(weights[i]) * float(weights[j])
            sums[same][0] += weight * (same - cosine(vectors[i], vectors[j])) ** 2
            sums[same][1] += weight
    return sum(total / count if count else 0.0 for total, count in sums.values()) / 2


@pytest.mark.parametrize(
    "labels", [(0, 1, 1, 0, 2), (1, 0, 0, 1, 1), (4, 4, 4, 4, 4), (0, 1, 2, 3, 4)]
)
@pytest.mark.parametrize("weights", [np.ones(5, np.float32), WEIGHTS])
def test_label_similarity_is_its_formula(labels, weights):
    vectors, labels = normal(5, 4), np.array(labels)
    value = losses.label_similarity(3 * vectors, labels, sample_weight=weights)
    np.testing.assert_allclose(value, label_loop(vectors, labels, weights), rtol=1e-5)
    order = np.array([3, 1, 4, 0, 2])
    moved = losses.label_similarity(vectors[order], labels[order], sample_weight=weights[order])
    np.testing.assert_allclose(moved, value, rtol=1e-5)


def test_label_similarity_is_0_at_its_aim_and_has_finite_gradients():
    aim = np.eye(3, dtype=np.float32)[[0, 1, 0, 2]]
    assert float(losses.label_similarity(aim, np.array([0, 1, 0, 2]))) == pytest.approx(0, abs=1e-6)
    vectors = tf.Variable(np.stack([normal(4), np.zeros(4, np.float32), normal(4)]))
    with tf.GradientTape() as tape:
        value = losses.label_similarity(vectors, np.array([0, 0, 1]))
    gradient = tape.gradient(value, vectors).numpy()
    assert np.isfinite(gradient).all() and not gradient[1].any() and gradient[0].any()
    alone = losses.label_similarity(normal(1, 4), np.array([0]))
    assert float(alone) == 0


def test_the_loss_takes_a_sentence_encoder_and_labels():
    shape = models.EncoderConfig(
        num_layers=1, hidden_size=8, num_heads=2, intermediate_size=8, vocab_size=9, max_positions=4
    )
    losses_by_name = {"pairs": losses.LabelSimilarity()}
    with pytest.raises(ShapeError, match="a sentence encoder"):
        distillers.Distiller(None, models.build_classifier(shape, 2), losses_by_name).compile()
    trainer = distillers.Distiller(None, models.build_embedder(shape), losses_by_name)
    trainer.compile(run_eagerly=True)
    ids = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 1]], np.int32)
    features = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": 0 * ids}
    labels = np.array([0, 1, 0])
    expected = losses.label_similarity(trainer.student(features), labels)
    logs = trainer.evaluate(features, labels, verbose=0, return_dict=True)
    np.testing.assert_allclose(logs["pairs"], expected, rtol=1e-5)
    with pytest.raises(ShapeError, match="labelled set"):
        trainer.evaluate(features, verbose=0)


def test_label_similarity_needs_a_class_for_each_vector():
    with pytest.raises(ShapeError, match="labels"):
        losses.label_similarity(normal(5, 4), np.zeros(4, np.int32))
    with pytest.raises(ShapeError, match="labels"):
        losses.label_similarity(normal(5, 4), np.zeros((5, 1), np.int32))
