"""A BiLSTM learns from labels and from a teacher's logits, and from nothing layer by layer."""

import numpy as np
import pytest
import tensorflow as tf
import toys

from tfdistill import distillers, errors, models, training, weights

CONFIG = models.BiLstmConfig(
    embedding_size=8, hidden_size=8, dense_size=8, vocab_size=30, dropout=0.0
)
FEATURES = toys.features((5, 3, 6, 4, 7, 3, 5, 6))
LABELS = toys.labels(8)


@pytest.fixture(scope="module")
def teacher():
    return toys.classifier(toys.SHALLOW_TEACHER, seed=1)


def student():
    return toys.randomise(models.build_classifier(CONFIG, toys.NUM_LABELS), 2)


def run(distiller, data, steps, rate=0.03):
    distiller.compile(optimizer=training.adamw(rate))
    dataset = tf.data.Dataset.from_tensors(data).repeat(steps)
    return distiller.fit(dataset, epochs=1, verbose=0).history


@pytest.mark.slow
def test_eight_examples_can_be_overfitted():
    model = student()
    run(distillers.LabelTrainer(model), (FEATURES, LABELS), 60)
    answers = model({name: FEATURES[name] for name in model.input_names})
    np.testing.assert_array_equal(tf.argmax(answers, axis=1), LABELS)


def test_it_starts_from_its_teachers_words_and_cannot_be_taught_layer_by_layer(teacher):
    with pytest.raises(errors.ShapeError, match="student layers: expected at least 1, received 0"):
        distillers.TinyBertDistiller(teacher, student(), stage="intermediate")
    model = student()
    training.initialise_from_teacher(model, teacher)
    (teacher_table,) = teacher.get_layer("word_embeddings").get_weights()
    expected = teacher_table @ training.leading_directions(teacher_table, 8)
    np.testing.assert_array_equal(model.get_layer("word_embeddings").get_weights()[0], expected)


def test_it_has_no_class_in_transformers(tmp_path):
    with pytest.raises(errors.WeightsError, match=r"bilstm.*keras"):
        weights.save_hf(student(), tmp_path / "hf")
    assert not (tmp_path / "hf").exists()
