"""TinyBERT's losses against plain NumPy over the tensors that they are about."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
import toys
from distiller_checks import log_softmax, tapped

import harness
from tfdistill import distillers, errors, models, training
from tfdistill.losses import StepInputs

LENGTHS = (5, 3, 6)
TEACHER, STUDENT = toys.TEACHER, toys.STUDENT
FEATURES = toys.features(LENGTHS)
LABELS = toys.labels(3)
# float32 sums of some hundred squares against float64.
RELATIVE = 1e-5


def over_tokens(difference):
    """Mean square over real tokens and the width."""
    rows = [difference[b, :length] ** 2 for b, length in enumerate(LENGTHS)]
    return np.concatenate(rows).mean()


def over_pairs(difference):
    """Mean square over pairs of real tokens and the heads."""
    squares = [difference[b, :, :n, :n].ravel() ** 2 for b, n in enumerate(LENGTHS)]
    return np.concatenate(squares).mean()


def projected(distiller, state, values):
    if not distiller.projections:
        return values
    layer = distiller.projections[0 if len(distiller.projections) == 1 else state]
    kernel, bias = layer.get_weights()
    return values @ kernel.astype(np.float64) + bias


CASES = {
    "default": ({}, (1, 3), 1),
    "list": ({"stage": "general", "layer_map": [3, 0]}, (3, 0), 1),
    "weights": (
        {
            "projection": "per_layer",
            "layer_weights": {"attention": (0.5, 2.0), "hidden": (0.0, 3.0)},
        },
        (1, 3),
        3,
    ),
    "none": ({"projection": "none", "student": 12}, (1, 3), 0),
}


@pytest.mark.parametrize("case", CASES)
def test_layer_terms_are_the_formulas(tinybert, logs, built, teacher, case):
    options, layers, projections = CASES[case]
    options = dict(options)
    if width := options.pop("student", None):
        options["student"] = toys.randomise(built(toys.STUDENT.replace(hidden_size=width)), seed=2)
    distiller = tinybert(**options)
    assert [source for source, _ in distiller.losses_by_name["hidden"].pairs] == list(layers)
    assert len(distiller.projections) == projections
    teacher_taps, student_taps = tapped(teacher, FEATURES), tapped(distiller.student, FEATURES)
    weights = options.get("layer_weights", {"attention": (1, 1), "hidden": (1, 1)})
    expected = {
        "attention": sum(
            weights["attention"][m]
            * over_pairs(teacher_taps["attention_scores"][g] - student_taps["attention_scores"][m])
            for m, g in enumerate(layers)
        ),
        "embedding": over_tokens(
            teacher_taps["embeddings"] - projected(distiller, 0, student_taps["embeddings"])
        ),
        "hidden": sum(
            weights["hidden"][m]
            * over_tokens(
                teacher_taps["hidden_states"][g]
                - projected(distiller, m + 1, student_taps["hidden_states"][m])
            )
            for m, g in enumerate(layers)
        ),
    }
    received = logs(distiller.test_step, FEATURES)
    assert received.pop("loss") == pytest.approx(sum(expected.values()), rel=RELATIVE)
    assert received == pytest.approx(expected, rel=RELATIVE)
    assert min(expected.values()) > 0.05


def test_the_published_reduction_counts_padding(tinybert, logs, teacher, student):
    distiller = tinybert(reduction="reference")
    teacher_taps, student_taps = tapped(teacher, FEATURES), tapped(student, FEATURES)
    mask = FEATURES["attention_mask"].numpy()
    hidden = sum(
        np.mean(
            (
                teacher_taps["hidden_states"][g]
                - projected(distiller, m, student_taps["hidden_states"][m])
            )
            ** 2
        )
        for m, g in enumerate((1, 3))
    )
    attention = sum(
        np.mean(
            mask[:, None, None, :]
            * (teacher_taps["attention_scores"][g] - student_taps["attention_scores"][m]) ** 2
        )
        for m, g in enumerate((1, 3))
    )
    received = logs(distiller.test_step, FEATURES)
    assert received["hidden"] == pytest.approx(hidden, rel=RELATIVE)
    assert received["attention"] == pytest.approx(attention, rel=RELATIVE)


def soft(teacher, student, t):
    return -(np.exp(log_softmax(teacher / t)) * log_softmax(student / t)).sum(axis=-1)


def kl(teacher, student, t):
    return soft(teacher, student, t) - soft(teacher, teacher, t)


@pytest.mark.parametrize(
    ("options", "loss"),
    [
        ({}, lambda t, s: soft(t, s, 1).mean()),
        (
            {"temperature": 2.0, "reduction": "reference"},
            lambda t, s: soft(t, s, 2).mean() / 3,
        ),
        ({"objective": "kl_divergence", "temperature": 3.0}, lambda t, s: kl(t, s, 3).mean()),
    ],
)
def test_prediction_is_the_formula(tinybert, logs, teacher, student, options, loss):
    distiller = tinybert("prediction", **options)
    teacher_logits = teacher(FEATURES).numpy().astype(np.float64)
    ours = student(FEATURES).numpy().astype(np.float64)
    received = logs(distiller.test_step, FEATURES, LABELS)
    expected = loss(teacher_logits, ours)
    assert expected > 0.02
    assert received == harness.divergences({"loss": expected, "logits": expected})


def test_the_gold_label_or_number_is_a_term_when_it_has_a_weight(tinybert, logs, student, built):
    gold = -np.mean(
        np.take_along_axis(log_softmax(student(FEATURES).numpy()), LABELS.numpy()[:, None], axis=1)
    )
    received = logs(tinybert("prediction", loss_weights={"label": 0.5}).test_step, FEATURES, LABELS)
    assert received["label"] == pytest.approx(gold, rel=RELATIVE)
    assert received["loss"] == pytest.approx(received["logits"] + gold / 2, rel=RELATIVE)
    teacher = toys.randomise(built(toys.SHALLOW_TEACHER, 1), seed=1)
    student = toys.randomise(built(toys.SHALLOW_STUDENT, 1), seed=2)
    gold = np.array([0.5, 4.0, 2.5], np.float32)
    expected = np.mean((student(FEATURES).numpy()[:, 0] - gold) ** 2)
    distiller = tinybert("prediction", teacher=teacher, student=student)
    received = logs(distiller.test_step, FEATURES, tf.constant(gold))
    assert received["label"] == pytest.approx(expected, rel=RELATIVE)


# What is refused, before any data is touched.


def test_models_that_do_not_fit_are_refused(teacher, student, built):
    with pytest.raises(errors.ShapeError, match="expected 12 as in the teacher, received 8"):
        distillers.TinyBertDistiller(teacher, student, projection="none")
    for student in (built(toys.STUDENT, 2), models.build_encoder(toys.SHALLOW_STUDENT)):
        with pytest.raises(errors.ShapeError):
            distillers.TinyBertDistiller(teacher, student, stage="prediction")
    with pytest.raises(errors.ShapeError, match="model: expected a classifier"):
        distillers.LabelTrainer(models.build_encoder(toys.SHALLOW_STUDENT))


@pytest.mark.parametrize("reduction", ["tokens", "reference"])
def test_the_word_vector_of_padding_is_not_learnt_under_the_published_reduction(
    tinybert, reduction
):
    distiller = tinybert(reduction=reduction, optimizer=keras.optimizers.legacy.SGD(1.0))
    table = distiller.student.get_layer("word_embeddings").weights[0]
    before = table.numpy()
    with tf.GradientTape() as tape:
        student = models.taps(distiller.student)(FEATURES, training=False)
        teacher_taps = models.taps(distiller.teacher)(FEATURES, training=False)
        batch = StepInputs(
            teacher_taps, student, None, tf.cast(FEATURES["attention_mask"], tf.float32),
            tf.ones(3), FEATURES,
        )  # fmt: skip
        loss = tf.add_n(list(distiller.compute_terms(batch).values()))
    expected = tf.convert_to_tensor(tape.gradient(loss, table)).numpy().copy()
    if reduction == "reference":
        assert np.abs(expected[0]).max() > 1e-3  # a loss that counts padding would move it
        for column in range(expected.shape[1]):
            expected[0, column] = 0
    distiller.train_on_batch(FEATURES)
    moved = before - table.numpy()
    np.testing.assert_allclose(moved, expected, rtol=1e-4, atol=1e-6)
    if reduction == "reference":
        np.testing.assert_array_equal(table[0], before[0])
        assert np.abs(moved[1:]).max() > 1e-3


def test_nor_is_it_where_rows_alone_are_updated(tinybert):
    optimizer = training.adamw(0.1, weight_decay=0.0)
    distiller = tinybert(reduction="reference", optimizer=optimizer)
    table = distiller.student.get_layer("word_embeddings").weights[0]
    before = table.numpy()
    distiller.train_on_batch(FEATURES)
    assert optimizer.get_slot(table, "reached")[0] == 1
    np.testing.assert_array_equal(table[0], before[0])
    assert (table.numpy() != before).any()
