"""Answers and hidden states in one stage, against plain NumPy."""

import distiller_checks
import numpy as np
import pytest
import toys

import harness
from tfdistill import distillers, errors, models

LENGTHS = (5, 3, 6, 4)
FEATURES = toys.features(LENGTHS)
LABELS = toys.labels(4)
REAL = np.arange(max(LENGTHS)) < np.array(LENGTHS)[:, None]


@pytest.fixture(scope="module")
def teacher():
    return toys.randomise(toys.classifier(toys.TEACHER), seed=1)


@pytest.fixture(scope="module")
def student():
    return toys.randomise(toys.classifier(toys.STUDENT), seed=2)


def softmax(logits):
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)


def states_of(model):
    taps = models.taps(model)(FEATURES, training=False)
    return [state.numpy().astype(np.float64) for state in taps["hidden_states"]]


def logits_of(model):
    return model(FEATURES, training=False).numpy().astype(np.float64)


def answers(teacher, student, temperature):
    p, q = (softmax(logits_of(model) / temperature) for model in (teacher, student))
    divergence = (p * (np.log(p) - np.log(q))).sum(axis=-1).mean()
    return divergence * (temperature**2 if temperature >= 1 else 1.0)


def hidden(teacher, student, layers, kernel, bias):
    teacher_states, student_states = states_of(teacher), states_of(student)
    means = []
    for index, layer in enumerate(layers):
        mapped = student_states[index] @ kernel + bias
        means.append(np.square(mapped - teacher_states[layer])[REAL].mean())
    return np.mean(means)


@pytest.mark.parametrize(
    ("temperature", "layer_map", "layers"),
    [(1.0, "uniform", (1, 3)), (3.0, [0, 2], (0, 2)), (0.5, "uniform", (1, 3))],
)
def test_the_terms_are_the_formulas_and_the_loss_their_sum(
    teacher, student, temperature, layer_map, layers
):
    assert models.config_of(teacher).num_layers == 4 and models.config_of(student).num_layers == 2
    distiller = distillers.JointDistiller(
        teacher, student, temperature=temperature, layer_map=layer_map
    )
    step = distiller_checks.compiled(distiller).test_step
    logs = distiller_checks.logged(step, FEATURES)  # without labels
    (projection,) = distiller.projections
    kernel, bias = (weight.numpy().astype(np.float64) for weight in projection.weights)
    expected = {
        "logits": answers(teacher, student, temperature),
        "hidden": hidden(teacher, student, layers, kernel, bias),
    }
    expected["loss"] = expected["logits"] + expected["hidden"]
    assert logs == harness.divergences(expected, max(1.0, temperature))


def test_gold_labels_count_where_they_have_a_weight(teacher, student):
    distiller = distillers.JointDistiller(teacher, student, hidden_states=False)
    distiller_checks.compiled(distiller, loss_weights={"label": 0.5})
    logs = distiller_checks.logged(distiller.test_step, FEATURES, LABELS)
    chosen = softmax(logits_of(student))[np.arange(4), np.array(LABELS)]
    gold = -np.log(chosen).mean()
    expected = {"logits": answers(teacher, student, 1.0), "label": gold}
    expected["loss"] = expected["logits"] + 0.5 * gold
    assert logs == harness.divergences(expected)


def test_a_deeper_student_is_refused(teacher, student):
    with pytest.raises(errors.TfdistillError, match="layers"):
        distiller_checks.compiled(distillers.JointDistiller(student, teacher))
