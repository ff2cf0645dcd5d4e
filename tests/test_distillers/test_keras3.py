"""Objects of Keras 3 at compile and fit, plain functions as teachers, and Batches in fit."""

import distiller_checks
import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
import toys

from tfdistill import distillers, errors, training
from tfdistill.data import batches
from tfdistill.distillers import keras3

OPTIMIZERS = ("Adam", "AdamW", "SGD", "RMSprop", "Adamax", "Nadam", "Lion", "Adagrad", "Adadelta")
# One batch, where what is learnt is not the subject.
FEW = batches.Batches(toys.encoded(4), batch_size=4, seed=1)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_converted_optimizer_takes_the_same_steps(name):
    schedule = keras.optimizers.schedules.PolynomialDecay(0.1, 4, 0.01)
    keras3_optimizer = getattr(keras.optimizers, name)(schedule)
    ours = keras3.convert_optimizer(keras3_optimizer)
    assert isinstance(ours, tf_keras.optimizers.Optimizer)
    value = np.float32([1.0, -2.0, 0.5])
    left, right = keras.Variable(value), tf.Variable(value)
    for step in range(3):
        gradient = tf.constant(np.float32([0.1, 0.3, -0.2]) * (step + 1))
        keras3_optimizer.apply([gradient], [left])
        ours.apply_gradients([(gradient, right)])
    np.testing.assert_allclose(right.numpy(), np.asarray(left.value), rtol=1e-6)
    assert not np.allclose(right.numpy(), value)


@pytest.mark.parametrize(("names", "bias"), [(["bias", "layer_norm"], 1.0), ([], 0.95)])
def test_names_stay_excluded_from_weight_decay(names, bias):
    keras3_optimizer = keras.optimizers.AdamW(0.1, weight_decay=0.5)
    keras3_optimizer.exclude_from_weight_decay(var_names=names)
    ours = keras3.convert_optimizer(keras3_optimizer)
    variables = [
        tf.Variable([1.0], name=name) for name in ("dense/kernel", "dense/bias", "layer_norm/gamma")
    ]
    ours.apply_gradients([(tf.zeros([1]), variable) for variable in variables])
    values = [variable.numpy()[0] for variable in variables]
    assert values == pytest.approx([0.95, bias, bias])


def test_metrics_are_made_again_and_count_alike():
    keras3_metric = keras.metrics.TopKCategoricalAccuracy(k=2, name="top2")
    (ours,) = keras3.convert_metrics([keras3_metric])
    assert isinstance(ours, tf_keras.metrics.Metric)
    answers = np.float32([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2], [0.6, 0.3, 0.1]])
    truth = np.float32([[0, 0, 1], [0, 0, 1], [0, 1, 0]])
    assert float(ours(truth, answers)) == pytest.approx(float(keras3_metric(truth, answers)))
    assert ours.name == "top2"


def with_excluded_variables():
    optimizer = keras.optimizers.AdamW()
    optimizer.exclude_from_weight_decay(var_list=[keras.Variable([1.0])])
    return optimizer


class OwnMetric(keras.metrics.Mean):
    pass


class ExponentialDecay(keras.optimizers.schedules.ExponentialDecay):
    """One of the user's own, under the name of another."""

    def __call__(self, step):
        return 7.0


@pytest.mark.parametrize(
    ("convert", "value", "message"),
    [
        (keras3.convert_optimizer, lambda: keras.optimizers.Lamb(), "Lamb of Keras 3.*lacks"),
        (
            keras3.convert_optimizer,
            lambda: keras.optimizers.Adam(gradient_accumulation_steps=2),
            "gradient_accumulation_steps.*compile",
        ),
        (
            keras3.convert_optimizer,
            with_excluded_variables,
            "by their names, received a list of variables.*var_names",
        ),
        (
            keras3.convert_optimizer,
            lambda: keras.optimizers.SGD(ExponentialDecay(0.1, 10, 0.9)),
            "schedule ExponentialDecay of Keras 3.*a class of your own",
        ),
        (lambda m: keras3.convert_metrics([m]), OwnMetric, "OwnMetric .*of your own.*tf_keras"),
        (
            lambda c: keras3.convert_callbacks([c]),
            lambda: keras.callbacks.ModelCheckpoint("x.keras"),
            "ModelCheckpoint of Keras 3.*tf_keras.callbacks",
        ),
    ],
)
def test_what_tf_keras_has_not_is_refused_by_name(convert, value, message):
    with pytest.raises(errors.ConfigError, match=message):
        convert(value())


@pytest.fixture(scope="module")
def train():
    return batches.Batches(toys.encoded(12), batch_size=4, seed=1)


def fitted(teacher, data, *, callbacks=(), epochs=3, **options):
    tf_keras.utils.set_random_seed(0)
    distiller = distillers.LogitDistiller(teacher, toys.classifier(toys.STUDENT, seed=2))
    distiller.compile(**options)
    history = distiller.fit(data, epochs=epochs, callbacks=list(callbacks), verbose=0)
    return distiller, history.history


@pytest.fixture(scope="module")
def teacher():
    return toys.classifier(toys.TEACHER, seed=1)


@pytest.fixture(scope="module")
def usual(teacher, train):
    """A fit with a model of tf_keras as the teacher and objects of tf_keras alone."""
    return fitted(teacher, train, optimizer=tf_keras.optimizers.Adam(0.01), metrics=["accuracy"])


@pytest.mark.slow
def test_fit_with_objects_of_keras_3_equals_fit_with_those_of_tf_keras(teacher, train, usual):
    seen = []
    with_keras3 = fitted(
        teacher,
        train,
        optimizer=keras.optimizers.Adam(0.01),
        metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=lambda e, logs: seen.append(e))],
    )
    assert with_keras3[1] == usual[1]
    assert seen == [0, 1, 2]
    for left, right in zip(usual[0].student.weights, with_keras3[0].student.weights, strict=True):
        np.testing.assert_array_equal(left.numpy(), right.numpy())


@pytest.mark.slow
def test_callbacks_of_keras_3_stop_and_slow_a_fit(teacher, train):
    callbacks = [
        keras.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=1, min_delta=1e9),
        keras.callbacks.EarlyStopping("loss", min_delta=1e9, patience=2),
    ]
    distiller, history = fitted(
        teacher, train, optimizer=tf_keras.optimizers.SGD(0.4), epochs=9, callbacks=callbacks
    )
    assert len(history["loss"]) == 3
    assert float(distiller.optimizer.learning_rate) == pytest.approx(0.1)


@pytest.mark.slow
def test_fit_takes_batches_whose_epochs_are_given_once(teacher, train, usual):
    stream = train.dataset(epochs=3)
    distiller = distillers.LogitDistiller(teacher, toys.classifier(toys.STUDENT, seed=2))
    distiller.compile(tf_keras.optimizers.Adam(0.01))
    by_hand = distiller.fit(stream, epochs=3, steps_per_epoch=3, verbose=0).history
    assert by_hand["loss"] == usual[1]["loss"]


@pytest.mark.slow
def test_any_function_that_returns_logits_teaches(teacher, train, usual):
    called = fitted(
        lambda features: teacher(features, training=False),
        train,
        optimizer=tf_keras.optimizers.Adam(0.01),
    )[1]
    assert called["loss"] == usual[1]["loss"]


def test_a_keras_3_model_teaches(student):
    ids = keras.Input((None,), dtype="int32", name="input_ids")
    table = keras.layers.Embedding(toys.STUDENT.vocab_size, toys.NUM_LABELS)
    teacher = keras.Model(ids, keras.layers.GlobalAveragePooling1D()(table(ids)))
    distiller = distillers.LogitDistiller(teacher, student, objective="logit_mse")
    features = toys.features((4, 4))
    distiller_checks.compiled(distiller)
    loss = distiller_checks.logged(distiller.test_step, features)["loss"]
    rows = np.asarray(table.embeddings.value)[features["input_ids"].numpy()].mean(axis=1)
    ours = student(features, training=False).numpy()
    assert loss == pytest.approx(np.square(rows - ours).mean(), rel=1e-5)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (
            lambda s: distillers.TinyBertDistiller(lambda f: f, s),
            "expected a teacher with layers to compare, received answers alone",
        ),
        (
            lambda s: distiller_checks.compiled(
                distillers.LogitDistiller(lambda f: tf.zeros((2, 7)), s)
            ).test_step(toys.features((3, 4))),
            r"logits of the teacher: expected \(\.\.\., 3\)",
        ),
        (
            lambda s: distillers.LogitDistiller(s, keras.Sequential([keras.layers.Dense(2)])),
            "received keras.Sequential",
        ),
        (lambda s: distillers.LogitDistiller(s, s).save("x"), "Save distiller.student"),
    ],
)
def test_what_cannot_be_done_is_refused(student, act, message):
    with pytest.raises(errors.TfdistillError, match=message):
        act(student)


def test_token_types_are_zero_where_a_batch_has_none(teacher, student):
    distiller = distiller_checks.compiled(distillers.LogitDistiller(teacher, student))
    features = toys.features((5, 3))
    zeros = {**features, "token_type_ids": tf.zeros_like(features["input_ids"])}
    without = {name: features[name] for name in ("input_ids", "attention_mask")}
    expected = distiller_checks.logged(distiller.test_step, zeros)
    assert distiller_checks.logged(distiller.test_step, without) == expected
    with_types = distiller_checks.logged(distiller.test_step, features)
    assert with_types["loss"] != expected["loss"]


def test_fit_and_evaluate_take_batches_and_predict_none_in_another_order(teacher, student, train):
    seen = []
    callback = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(epoch))
    distiller = distillers.LogitDistiller(teacher, student)
    distiller.compile(run_eagerly=True)
    distiller.fit(FEW, callbacks=callback, verbose=0)
    assert seen == [0]
    seen = []
    callback = keras.callbacks.LambdaCallback()
    callback.on_test_batch_end = lambda batch, logs: seen.append(batch)
    distiller = distillers.LogitDistiller(teacher, student)
    distiller.compile(run_eagerly=True, metrics=["accuracy"])
    values = distiller.evaluate(train, callbacks=[callback], verbose=0, return_dict=True)
    assert seen == [0, 1, 2]
    assert values == distiller.evaluate(train.dataset(), verbose=0, return_dict=True)
    logits = training.predict_logits(distiller.student, train)
    right = np.mean(logits.argmax(axis=-1) == train.encoded.labels)
    assert values["accuracy"] == pytest.approx(right)
    distiller = distillers.LogitDistiller(teacher, student)
    with pytest.raises(errors.ConfigError, match=r"training\.predict_logits"):
        distiller.predict(train)
