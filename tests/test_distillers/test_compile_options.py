"""Ways to run the same step: eagerly, several at once in a graph, by XLA; class weights."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
import toys

from tfdistill import distillers, errors, models

pytestmark = pytest.mark.slow

# One length, so that four steps can run as one; 16 examples, as many as 4 steps need.
LENGTHS = (5, 6, 4, 5)


@pytest.fixture
def data():
    parts = [(toys.features(LENGTHS, seed=seed), toys.labels(4, seed=seed)) for seed in range(4)]
    stacked = tf.nest.map_structure(lambda *rows: tf.stack(rows), *parts)
    return tf.data.Dataset.from_tensor_slices(stacked)


def trained(tinybert, student, start, data, **options):
    """One epoch from the same weights; returns those of the student and the mean loss."""
    student.set_weights(start)
    distiller = tinybert("intermediate")
    distiller.compile(keras.optimizers.Adam(0.01, epsilon=1e-3), **options)
    history = distiller.fit(data, verbose=0)
    return student.get_weights(), history.history["loss"][-1]


def test_eager_steps_several_in_a_graph_and_xla_give_the_same_student(tinybert, student, data):
    start = student.get_weights()
    eager, loss = trained(tinybert, student, start, data, run_eagerly=True)
    assert max(np.abs(a - b).max() for a, b in zip(start, eager, strict=True)) > 0.01
    for options in ({"steps_per_execution": 4}, {"jit_compile": True}):
        weights, history = trained(tinybert, student, start, data, **options)
        # Keras logs the mean of an execution's last step; TensorFlow fuses and XLA reorders sums.
        assert history == pytest.approx(loss, rel=1e-4), options
        toys.check_equal(weights, eager, rtol=1e-3, atol=2e-5, err_msg=str(options))


def test_without_dropout_a_step_learns_as_a_student_that_has_none(teacher, data):
    shape = toys.SHALLOW_STUDENT
    weights = []
    for rate, drops in ((0.3, True), (0.3, False), (0.0, True)):
        keras.utils.set_random_seed(1)
        config = shape.replace(dropout=rate, attention_dropout=rate)
        student = models.build_classifier(config, toys.NUM_LABELS)
        trainer = distillers.LogitDistiller(teacher, student)
        trainer.compile(keras.optimizers.SGD(0.1), run_eagerly=True, dropout=drops)
        trainer.fit(data, verbose=0)
        weights.append(student.get_weights())
    dropping, without, zero = weights
    toys.check_equal(without, zero)
    assert any((a != b).any() for a, b in zip(dropping, zero, strict=True))


def test_class_weights_are_sample_weights(teacher, student, data):
    """Keras multiplies them into the sample weights of a data set."""
    start = student.get_weights()
    class_weight = {0: 0.5, 1: 3.0, 2: 0.0}
    table = tf.constant([class_weight[label] for label in range(toys.NUM_LABELS)])
    weighted = data.map(lambda features, labels: (features, labels, tf.gather(table, labels)))
    weights = []
    for rows, options in ((data, {"class_weight": class_weight}), (weighted, {}), (data, {})):
        student.set_weights(start)
        trainer = distillers.LogitDistiller(teacher, student)
        trainer.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
        trainer.fit(rows, verbose=0, **options)
        weights.append(student.get_weights())
    by_class, by_sample, plain = weights
    toys.check_equal(by_class, by_sample)
    assert any((a != b).any() for a, b in zip(by_class, plain, strict=True))


@pytest.mark.parametrize("head", ["token", "span", "multi_label", "number"])
def test_class_weights_are_refused_where_a_text_has_not_one_class(student, head):
    """Keras takes the place of the largest label of a row for its class."""
    students = {
        "token": lambda: models.build_token_classifier(toys.SHALLOW_STUDENT, 3),
        "span": lambda: models.build_span_classifier(toys.SHALLOW_STUDENT),
        "multi_label": lambda: student,
        "number": lambda: models.build_classifier(toys.SHALLOW_STUDENT, 1),
    }
    head_of_loss = head if head == "multi_label" else None
    trainer = distillers.LabelTrainer(students[head](), head=head_of_loss)
    trainer.compile("sgd")
    features, labels = toys.features(LENGTHS), np.ones((4, 6), np.int32)
    with pytest.raises(errors.ConfigError, match="class weights: expected a classifier with one"):
        trainer.fit(features, labels, class_weight={0: 1.0, 1: 2.0}, verbose=0)


@pytest.mark.parametrize("class_weight", [{0: 1.0}, {0: 1.0, 1: 1.0, 3: 1.0}])
def test_class_weights_are_those_of_all_classes(teacher, student, data, class_weight):
    trainer = distillers.LogitDistiller(teacher, student)
    trainer.compile("sgd")
    with pytest.raises(errors.ConfigError, match="class_weight: expected a weight for each of"):
        trainer.fit(data, class_weight=class_weight, verbose=0)
    with pytest.raises(errors.ConfigError, match="class_weight: expected a weight for each of"):
        trainer.fit(data, None, None, 1, 0, None, 0.0, None, True, class_weight)


def test_weights_of_examples_without_labels_are_refused_where_keras_drops_them(teacher, student):
    features, weights = toys.features(LENGTHS), np.float32([0.0, 1.0, 2.0, 3.0])
    trainer = distillers.LogitDistiller(teacher, student)
    trainer.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    for call, options in (
        (trainer.fit, {"sample_weight": weights}),
        (trainer.fit, {"validation_data": (features, None, weights)}),
        (trainer.evaluate, {"sample_weight": weights}),
    ):
        with pytest.raises(errors.ConfigError, match="expected labels with the weights"):
            call(features, verbose=0, **options)
    with pytest.raises(errors.ConfigError, match="sample_weight: expected none beside a data set"):
        trainer.fit(tf.data.Dataset.from_tensors((features, [0, 1, 2, 0])), sample_weight=weights)
    # What the message advises has the weights.
    rows = tf.data.Dataset.from_tensor_slices((features, weights)).batch(4)
    advised = rows.map(lambda x, w: (x, None, w))
    labels = np.int32([0, 1, 2, 0])
    ours = trainer.evaluate(advised, verbose=0)
    assert ours == trainer.evaluate(features, labels, sample_weight=weights, verbose=0)
    assert ours != trainer.evaluate(features, verbose=0)


def test_classes_may_be_weighed_between_two_fits(student):
    features, labels = toys.features(LENGTHS), np.int32([0, 1, 2, 0])
    start, ends = student.get_weights(), []
    trainer = distillers.LabelTrainer(student)
    trainer.compile(keras.optimizers.SGD(0.1))
    for weights in ([1.0, 1.0, 1.0], [9.0, 1.0, 1.0]):
        student.set_weights(start)
        trainer.weigh_classes(np.float32(weights))
        trainer.fit(features, labels, batch_size=4, shuffle=False, verbose=0)
        ends.append(student.get_weights())
    assert any((a != b).any() for a, b in zip(*ends, strict=True))


def test_classes_are_weighed_where_a_loss_is_on_gold_labels(tinybert):
    with pytest.raises(errors.ConfigError, match="class weights: expected a loss GoldLabels"):
        tinybert("intermediate").weigh_classes(np.ones(toys.NUM_LABELS))
