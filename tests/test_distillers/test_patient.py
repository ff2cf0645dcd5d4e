"""BERT-PKD against plain NumPy, and which layers it compares."""

import distiller_checks
import numpy as np
import pytest
import tensorflow as tf
import toys
from distiller_checks import evaluated, log_softmax, tapped

import harness
from tfdistill import distillers, errors
from tfdistill.losses import patient_layer_map

FEATURES = toys.features((5, 3, 6, 4))
LABELS = toys.labels(4)
WEIGHTS = tf.constant([1.0, 0.0, 3.0, 0.5])
TEACHER = toys.TEACHER
STUDENT = toys.STUDENT.replace(hidden_size=12)


# Which layers.


@pytest.mark.parametrize(
    ("layers", "strategy", "expected"),
    [
        # The paper's, which counts from 1: {2, 4, 6, 8, 10} and {7, 8, 9, 10, 11}.
        ((12, 6), "skip", (1, 3, 5, 7, 9)),
        ((12, 6), "last", (6, 7, 8, 9, 10)),
        # With 3 layers: {4, 8} and {10, 11}.
        ((12, 3), "skip", (3, 7)),
        ((12, 3), "last", (9, 10)),
        # No multiple: evenly spaced.
        ((12, 5), "skip", (1, 4, 6, 9)),
        ((4, 4), "skip", (0, 1, 2)),
        ((12, 6), [11, 0], (11, 0)),
        ((12, 1), [11], (11,)),
    ],
)
def test_layers_are_those_of_the_paper(layers, strategy, expected):
    teacher_layers, student_layers = layers
    assert patient_layer_map(teacher_layers, student_layers, strategy) == expected


@pytest.mark.parametrize(
    ("layers", "strategy", "error", "message"),
    [
        ((12, 6), "uniform", errors.ConfigError, "layer_map: expected one of skip, last"),
        ((12, 6), [12], errors.ConfigError, "a teacher layer from 0 to 11, received 12"),
        ((12, 2), [1, 2, 3], errors.ConfigError, "1 to 2 teacher layers"),
        ((12, 2), [], errors.ConfigError, "1 to 2 teacher layers"),
        ((12, 1), "skip", errors.ShapeError, "at least 2, since the last one is not compared"),
        ((3, 4), "last", errors.ShapeError, "at most the teacher's 3"),
    ],
)
def test_layers_that_are_not_there_are_refused(layers, strategy, error, message):
    teacher_layers, student_layers = layers
    with pytest.raises(error) as caught:
        patient_layer_map(teacher_layers, student_layers, strategy)
    assert message in str(caught.value)


# The losses.


@pytest.fixture
def make(teacher, student):
    def run(student=student, **options):
        return distillers.PatientDistiller(teacher, student, **options)

    return run


def transcribed(teacher, student, pairs, t, weights, project=lambda state, index: state):
    """The three terms, example by example."""
    teacher_states, ours = (tapped(model, FEATURES) for model in (teacher, student))
    hard, soft, patient = [], [], []
    for b in range(4):
        z_t, z_s = teacher_states["logits"][b], ours["logits"][b]
        hard.append(-log_softmax(z_s)[LABELS.numpy()[b]])
        log_p, log_q = log_softmax(z_t / t), log_softmax(z_s / t)
        soft.append(t**2 * np.sum(np.exp(log_p) * (log_p - log_q)))
        errors_ = []
        for index, (source, layer) in enumerate(pairs):
            u = teacher_states["hidden_states"][source][b, 0]
            v = project(ours["hidden_states"][layer][b, 0], index)
            errors_.append(np.mean((u / np.linalg.norm(u) - v / np.linalg.norm(v)) ** 2))
        patient.append(np.mean(errors_))
    values = {"label": hard, "logits": soft, "patient": patient}
    return {name: np.average(rows, weights=weights) for name, rows in values.items()}


@pytest.mark.parametrize(
    ("strategy", "pairs", "weights"),
    [("last", [(2, 0)], None), ([3, 1], [(3, 0), (1, 1)], WEIGHTS)],
)
def test_terms_are_the_formulas(make, teacher, student, strategy, pairs, weights):
    options = {"alpha": 0.3, "beta": 50.0, "temperature": 5.0, "layer_map": strategy}
    data = (FEATURES, LABELS) if weights is None else (FEATURES, LABELS, weights)
    received = evaluated(make(**options), *data)
    expected = transcribed(teacher, student, pairs, 5.0, weights)
    expected["loss"] = 0.3 * expected["label"] + 0.7 * expected["logits"] + 50 * expected["patient"]
    assert received == harness.divergences(expected, 5.0)
    assert expected["patient"] > 0.01


def test_a_narrower_student_has_projections_that_learn(make, teacher, built):
    narrow = toys.randomise(built(toys.STUDENT), seed=2)
    distiller = make(narrow, layer_map=[3, 1], projection="per_layer", temperature=5.0)
    random = np.random.default_rng(3)
    for layer in distiller.projections:
        layer.set_weights([random.normal(0, 0.3, x.shape) for x in layer.get_weights()])
    assert [layer.name for layer in distiller.projections] == [
        "patient_projection_0",
        "patient_projection_1",
    ]

    def project(state, index):
        kernel, bias = distiller.projections[index].get_weights()
        return state @ kernel.astype(np.float64) + bias

    expected = transcribed(teacher, narrow, [(3, 0), (1, 1)], 5.0, None, project)
    received = evaluated(distiller, FEATURES, LABELS)
    assert received.pop("loss") > 0
    assert received == harness.divergences(expected, 5.0)
    before = [layer.get_weights() for layer in distiller.projections]
    distiller.train_step((FEATURES, LABELS))
    for layer, old in zip(distiller.projections, before, strict=True):
        for a, b in zip(layer.get_weights(), old, strict=True):
            assert np.abs(a - b).max() > 1e-5


def test_weight_zero_removes_exactly_its_term(make):
    weights = {"label": 0.5, "logits": 0.5, "patient": 100.0}
    distiller_checks.check_ablation(make, (FEATURES, LABELS), weights)
