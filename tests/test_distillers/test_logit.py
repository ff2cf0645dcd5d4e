"""Learning from logits, against plain NumPy."""

import distiller_checks
import numpy as np
import pytest
import tensorflow as tf
import toys
from distiller_checks import evaluated, log_softmax, tapped

import harness
from tfdistill import distillers, errors, models

LENGTHS = (5, 3, 6, 4)
FEATURES = toys.features(LENGTHS)
LABELS = toys.labels(4)
WEIGHTS = tf.constant([1.0, 0.0, 3.0, 0.5])
# float32 sums of some dozen terms against float64.
RELATIVE = 1e-5


def kl(teacher, student, t):
    log_p, log_q = log_softmax(teacher / t), log_softmax(student / t)
    return (np.exp(log_p) * (log_p - log_q)).sum(axis=-1)


def entropy(teacher, t):
    log_p = log_softmax(teacher / t)
    return -(np.exp(log_p) * log_p).sum(axis=-1)


def gold(student, labels):
    return -np.take_along_axis(log_softmax(student), np.array(labels)[:, None], axis=1)[:, 0]


def answers_of(model):
    return model(FEATURES, training=False).numpy().astype(np.float64)


@pytest.fixture
def make(teacher, student):
    def run(teacher=teacher, student=student, **options):
        return distillers.LogitDistiller(teacher, student, **options)

    return run


@pytest.mark.parametrize(
    ("options", "weights", "loss"),
    [
        ({}, WEIGHTS, lambda t, s: kl(t, s, 1)),
        ({"temperature": 4.0}, None, lambda t, s: 16 * kl(t, s, 4)),
        ({"temperature": 4.0, "scale_by_t2": False}, WEIGHTS, lambda t, s: kl(t, s, 4)),
        (
            {"objective": "soft_cross_entropy", "temperature": 2.0},
            WEIGHTS,
            lambda t, s: 4 * (kl(t, s, 2) + entropy(t, 2)),
        ),
        ({"objective": "logit_mse"}, WEIGHTS, lambda t, s: ((t - s) ** 2).mean(axis=-1)),
    ],
)
def test_prediction_is_the_formula(make, teacher, student, options, loss, weights):
    values = loss(answers_of(teacher), answers_of(student))
    expected = np.average(values, weights=None if weights is None else weights.numpy())
    assert expected > 0.01
    data = (FEATURES, LABELS) if weights is None else (FEATURES, LABELS, weights)
    received = evaluated(make(**options), *data)
    temperature = options.get("temperature", 1.0) if options.get("scale_by_t2", True) else 1.0
    assert received == harness.divergences({"loss": expected, "logits": expected}, temperature)


def test_alpha_mixes_hard_and_soft_targets(make, teacher, student):
    soft = 4 * kl(answers_of(teacher), answers_of(student), 2).mean()
    hard = gold(answers_of(student), LABELS).mean()
    received = evaluated(make(temperature=2.0, alpha=0.25), FEATURES, LABELS)
    expected = {"loss": 0.75 * soft + 0.25 * hard, "logits": soft, "label": hard}
    assert received == harness.divergences(expected, 2.0)


def test_without_a_gold_label_text_is_enough_and_reference_divides_by_the_classes_too(make):
    # PD: the student learns from unlabelled task text.
    assert evaluated(make(), FEATURES) == evaluated(make(), FEATURES, LABELS)
    with pytest.raises(errors.ShapeError):
        evaluated(make(alpha=0.5), FEATURES)
    plain = evaluated(make(), FEATURES)["loss"]
    assert evaluated(make(reduction="reference"), FEATURES)["loss"] == pytest.approx(plain / 3)


def test_the_second_step_on_spans(make):
    """0.5 (KL_start + KL_end) / 2 T^2 + 0.5 (CE_start + CE_end) / 2, over the real tokens."""
    teacher, student = (
        toys.randomise(models.build_span_classifier(config), seed)
        for config, seed in ((toys.SHALLOW_TEACHER, 1), (toys.SHALLOW_STUDENT, 2))
    )
    spans = np.array([[1, 3], [0, 2], [5, 5], [2, 3]])
    teacher_answers, student_answers = answers_of(teacher), answers_of(student)
    soft, hard = [], []
    for b, length in enumerate(LENGTHS):
        for side in (0, 1):
            t, s = teacher_answers[b, :length, side], student_answers[b, :length, side]
            soft.append(4 * float(kl(t, s, 2)))
            hard.append(-log_softmax(s)[spans[b, side]])
    distiller = make(teacher, student, temperature=2.0, alpha=0.5)
    received = evaluated(distiller, FEATURES, tf.constant(spans, tf.int32))
    expected = {
        "loss": 0.5 * np.mean(soft) + 0.5 * np.mean(hard),
        "logits": np.mean(soft),
        "label": np.mean(hard),
    }
    assert received == harness.divergences(expected, 2.0)


def test_several_labels_at_once(make, teacher, student):
    labels = tf.constant([[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]], tf.float32)
    z = answers_of(student)
    hard = np.log1p(np.exp(z)) - labels.numpy() * z
    p, q = (1 / (1 + np.exp(-logits / 2)) for logits in (answers_of(teacher), z))
    soft = 4 * (p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q)))
    distiller = make(head="multi_label", temperature=2.0, alpha=0.5)
    received = evaluated(distiller, FEATURES, labels)
    expected = {
        "loss": (hard.mean() + soft.mean()) / 2,
        "logits": soft.mean(),
        "label": hard.mean(),
    }
    assert received == harness.divergences(expected, 2.0)


def test_a_regression_learns_the_teachers_number(make, built):
    teacher = toys.randomise(built(toys.SHALLOW_TEACHER, 1), seed=1)
    student = toys.randomise(built(toys.SHALLOW_STUDENT, 1), seed=2)
    expected = np.mean((answers_of(teacher) - answers_of(student)) ** 2)
    received = evaluated(make(teacher, student, objective="logit_mse"), FEATURES)
    assert received["loss"] == pytest.approx(expected, rel=RELATIVE)
    with pytest.raises(errors.ConfigError, match="expected 'logit_mse' for a regression"):
        make(teacher, student)


@pytest.mark.slow
def test_one_seed_repeats_and_the_teacher_stays(make, built, student):
    noisy = built(toys.SHALLOW_STUDENT.replace(dropout=0.3))
    before = student.get_weights()

    def again(**options):
        noisy.set_weights(before)
        return make(student=noisy, **options)

    distiller_checks.check_seeds(again, (FEATURES, LABELS))
    distiller_checks.check_teacher_stays(again, (FEATURES, LABELS))


def test_both_must_answer_alike(make, built, teacher, student):
    with pytest.raises(errors.ShapeError, match="a sequence head with 3 and a sequence head with"):
        make(teacher, built(toys.SHALLOW_STUDENT, 2))
    with pytest.raises(errors.ShapeError):
        make(models.build_encoder(toys.SHALLOW_TEACHER), student)
    more = models.build_classifier(toys.SHALLOW_STUDENT.replace(vocab_size=31), 3)
    with pytest.raises(errors.ShapeError):
        make(student=more)


# Answers and hidden states in one stage.


@pytest.fixture
def deep(built):
    return toys.randomise(built(toys.TEACHER), 1), toys.randomise(built(toys.STUDENT), 2)


def soft(pair, temperature):
    divergence = kl(*map(answers_of, pair), temperature).mean()
    return divergence * (temperature**2 if temperature >= 1 else 1.0)


def hidden(pair, layers, kernel, bias):
    teacher_states, student_states = (tapped(model, FEATURES)["hidden_states"] for model in pair)
    real = FEATURES["attention_mask"].numpy() == 1
    means = []
    for index, layer in enumerate(layers):
        mapped = student_states[index] @ kernel + bias
        means.append(np.square(mapped - teacher_states[layer])[real].mean())
    return np.mean(means)


@pytest.mark.parametrize(
    ("temperature", "layer_map", "layers"), [(3.0, [0, 2], (0, 2)), (0.5, "uniform", (1, 3))]
)
def test_the_joint_terms_are_the_formulas_and_the_loss_their_sum(
    deep, temperature, layer_map, layers
):
    distiller = distillers.JointDistiller(*deep, temperature=temperature, layer_map=layer_map)
    received = evaluated(distiller, FEATURES)  # without labels
    (projection,) = distiller.projections
    kernel, bias = (weight.numpy().astype(np.float64) for weight in projection.weights)
    expected = {"logits": soft(deep, temperature), "hidden": hidden(deep, layers, kernel, bias)}
    expected["loss"] = expected["logits"] + expected["hidden"]
    assert received == harness.divergences(expected, max(1.0, temperature))


def test_gold_labels_of_a_joint_stage_count_by_their_weight_and_no_student_is_deeper(deep):
    distiller = distillers.JointDistiller(*deep, hidden_states=False)
    received = evaluated(distiller, FEATURES, LABELS, loss_weights={"label": 0.5})
    expected = {"logits": soft(deep, 1.0), "label": gold(answers_of(deep[1]), LABELS).mean()}
    expected["loss"] = expected["logits"] + 0.5 * expected["label"]
    assert received == harness.divergences(expected)
    with pytest.raises(errors.TfdistillError, match="layers"):
        distiller_checks.compiled(distillers.JointDistiller(*deep[::-1]))
