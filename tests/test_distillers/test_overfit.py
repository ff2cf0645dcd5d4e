"""Eight examples can be overfitted: every method minimises its own loss."""

import numpy as np
import pytest
import tensorflow as tf
import toys

from tfdistill import distillers, training

pytestmark = pytest.mark.slow

FEATURES = toys.features((5, 3, 6, 4, 6, 2, 5, 4), seed=5)
LABELS = toys.labels(8, seed=5)
CONFIG = toys.SHALLOW_STUDENT.replace(hidden_size=16, intermediate_size=32)
STEPS = 150


def first_and_last(distiller):
    data = tf.data.Dataset.from_tensors((FEATURES, LABELS)).repeat()
    distiller.compile(training.adamw(0.02, weight_decay=0.0, clip="none"), steps_per_execution=10)
    history = distiller.fit(data, steps_per_epoch=10, epochs=STEPS // 10, verbose=0).history
    return {name: (values[0], values[-1]) for name, values in history.items()}


@pytest.fixture(scope="module")
def teacher():
    return toys.classifier(toys.SHALLOW_TEACHER, seed=1)


def test_labels(built):
    student = toys.randomise(built(CONFIG), seed=2)
    first, last = first_and_last(distillers.LabelTrainer(student))["label"]
    assert first > 0.5
    assert last < 0.01
    np.testing.assert_array_equal(np.argmax(student(FEATURES), axis=1), LABELS)


@pytest.mark.parametrize(
    "stage", [pytest.param("general", marks=pytest.mark.thorough), "intermediate"]
)
def test_inner_states(built, teacher, stage):
    student = toys.randomise(built(CONFIG), seed=2)
    terms = first_and_last(distillers.TinyBertDistiller(teacher, student, stage=stage))
    for term in ("attention", "embedding", "hidden"):
        first, last = terms[term]
        # One narrow layer cannot be all that two are; a term that is not learnt stays where it is.
        assert last < 0.25 * first, term


def test_predictions(built, teacher):
    student = toys.randomise(built(CONFIG), seed=2)
    distiller = distillers.TinyBertDistiller(
        teacher, student, stage="prediction", objective="kl_divergence"
    )
    first, last = first_and_last(distiller)["logits"]
    assert first > 0.05
    assert last < 0.0005
    teacher_probabilities, student_probabilities = (
        tf.nn.softmax(model(FEATURES)) for model in (teacher, student)
    )
    np.testing.assert_allclose(student_probabilities, teacher_probabilities, atol=0.03)
