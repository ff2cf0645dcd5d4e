"""Each loss of each method goes down, also on texts that the student did not learn from."""

import distiller_checks
import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
import toys

from tfdistill import distillers, losses, models

SIZE = {"hidden_size": 16, "intermediate_size": 32, "num_heads": 4}
METHODS = {
    "logit": (distillers.LogitDistiller, {"temperature": 2.0, "alpha": 0.2}),
    "patient": (distillers.PatientDistiller, {"temperature": 2.0, "alpha": 0.2, "beta": 20.0}),
    "minilm": (distillers.MiniLmDistiller, {}),
    "combination": (
        distillers.Distiller,
        {
            "losses": {
                "attention": losses.AttentionKLDivergence(layers=[[-1, -1]]),
                "states": losses.FeatureMapMSE(layers=[[-1, -1]]),
                "logits": losses.LogitMSE(),
            }
        },
    ),
}


def batch(teacher, seed):
    """Texts in which each word follows from the one before, with the teacher's own answers."""
    random = np.random.default_rng(seed)
    features = toys.features((6, 5, 6, 4, 6, 6, 5, 6), seed=seed)
    ids = random.integers(5, 25, (8, 1)) + np.arange(6) % 5
    features["input_ids"] = tf.constant(ids, tf.int32) * features["attention_mask"]
    return features, tf.argmax(teacher(features, training=False), axis=1)


@pytest.fixture(scope="module")
def corpus():
    teacher = toys.classifier(toys.TEACHER.replace(**SIZE), seed=1)
    return teacher, [batch(teacher, seed) for seed in range(40)]


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("method", METHODS)
def test_each_loss_goes_down_on_a_toy_corpus(corpus, method):
    teacher, batches = corpus
    keras.utils.set_random_seed(0)
    student = models.build_classifier(toys.STUDENT.replace(**SIZE), toys.NUM_LABELS)
    make, options = METHODS[method]
    distiller = make(teacher, student, **options)
    unseen = batch(teacher, 1000)
    distiller.compile("sgd", run_eagerly=True)
    before = distiller_checks.logged(distiller.test_step, *unseen)
    distiller_checks.first_and_last(distiller, batches, epochs=12, rate=0.005)
    after = distiller_checks.logged(distiller.test_step, *unseen)
    for term in distiller.active_terms:
        assert after[term] < 0.6 * before[term], (term, before[term], after[term])
