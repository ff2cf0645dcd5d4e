"""Numbers of soft labels: ensembles, probabilities, gold labels, vectors."""

import numpy as np
import pytest

from tfdistill import tasks
from tfdistill.data import soft_label_values

TASK = tasks.TaskSpec("moods", "text", "mood", labels=("sad", "glad", "calm"))
NUMBER = tasks.TaskSpec("likeness", "text", "score", kind="regression")
SEVERAL = tasks.TaskSpec("topics", "text", "topics", kind="multi_label", labels=("a", "b", "c"))


def softmax(row):
    powers = [np.exp(value) for value in row]
    return [power / sum(powers) for power in powers]


@pytest.mark.parametrize("temperatures", [(), (2.0, 0.5)])
def test_an_ensemble_is_the_mean_of_probabilities(temperatures, rng):
    logits = [rng.normal(size=(5, 3)).astype(np.float32) * 3 for _ in range(2)]
    combined = soft_label_values.combine(logits, "classification", temperatures)
    for index in range(5):
        rows = [
            softmax(z[index].astype(float) / t)
            for z, t in zip(logits, temperatures or (1, 1), strict=True)
        ]
        mean = [(a + b) / 2 for a, b in zip(*rows, strict=True)]
        np.testing.assert_allclose(softmax(combined[index].astype(float)), mean, rtol=1e-5)


def test_an_ensemble_of_several_labels_and_of_numbers(rng):
    logits = [rng.normal(size=(4, 3)).astype(np.float32) for _ in range(2)]
    sigmoid = lambda z: 1 / (1 + np.exp(-z.astype(float)))  # noqa: E731
    combined = soft_label_values.combine(logits, "multi_label", (2.0, 1.0))
    expected = (sigmoid(logits[0] / 2) + sigmoid(logits[1])) / 2
    np.testing.assert_allclose(sigmoid(combined), expected, rtol=1e-5)
    combined = soft_label_values.combine([z[:, :1] for z in logits], "regression")
    np.testing.assert_allclose(combined, (logits[0] + logits[1])[:, :1] / 2, rtol=1e-6)


def test_one_teacher_s_logits_stay_as_they_are(rng):
    logits = rng.normal(size=(5, 3)).astype(np.float32)
    assert soft_label_values.combine([logits], "classification").tobytes() == logits.tobytes()
    cooled = soft_label_values.combine([logits], "classification", (4.0,))
    np.testing.assert_array_equal(cooled, logits / 4)


def test_gold_labels_are_answers_that_are_certain():
    certain = soft_label_values.of_gold(np.array([2, 0]), TASK)
    p = soft_label_values.to_probabilities(certain, TASK.kind)
    np.testing.assert_allclose(p, [[0, 0, 1], [1, 0, 0]], atol=3e-7)
    assert soft_label_values.of_gold(np.array([2.5]), NUMBER).tolist() == [[2.5]]
    several = soft_label_values.of_gold(np.array([[1.0, 0, 1]]), SEVERAL)
    assert (several > 10).tolist() == [[True, False, True]]


def test_normalised_vectors_have_length_1_as_float16_rounds_it():
    vectors = np.random.default_rng(0).normal(size=(50, 384))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert soft_label_values.are_normalised(vectors.astype(np.float16).astype(np.float32))
    vectors[7] *= 1.01
    assert not soft_label_values.are_normalised(vectors)
