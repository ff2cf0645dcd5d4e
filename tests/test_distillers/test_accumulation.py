"""Several batches to an optimizer step: what is gathered, what is counted, what is resumed."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
import toy_run
import toys
from toy_run import KillAt, Killed, check_equals

from tfdistill import distillers, errors, training
from tfdistill.training import callbacks

# Two halves that count alike in every term: as many examples, tokens and pairs of tokens.
FEATURES = toys.features((5, 3, 5, 3))
LABELS = toys.labels(4)
# Two ways of adding the same few hundred float32 numbers.
ROUNDING = {"rtol": 2e-5, "atol": 2e-6}


def part(*rows):
    return tf.nest.map_structure(lambda values: tf.gather(values, rows), (FEATURES, LABELS))


HALVES = [part(0, 1), part(2, 3)]


@pytest.fixture
def trainer(student):
    def make(optimizer, **options):
        distiller = distillers.LabelTrainer(student)
        distiller.compile(optimizer, run_eagerly=True, **options)
        return distiller

    return make


def after(distiller, *batches):
    """The weights after some batches; the student is put back."""
    before = distiller.get_weights()
    for batch in batches:
        distiller.train_step(batch)
    values = [variable.numpy() for variable in distiller.trainable_variables]
    distiller.set_weights(before)
    return values


def check_close(first, second):
    toys.check_equal(first, second, **ROUNDING)


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["label", "intermediate", "prediction"])
def test_equal_batches_are_one_larger_batch(tinybert, trainer, stage):
    def make(accumulation):
        distiller = trainer("sgd") if stage == "label" else tinybert(stage)
        optimizer = training.adamw(0.05, clip="global", clip_norm=0.1)
        distiller.compile(optimizer, gradient_accumulation=accumulation, run_eagerly=True)
        return distiller

    whole, gathering = make(1), make(2)
    before = [variable.numpy() for variable in whole.trainable_variables]
    # Twice, so that what was gathered is known to be forgotten.
    expected = after(whole, (FEATURES, LABELS), (FEATURES, LABELS))
    check_close(after(gathering, *HALVES, *HALVES), expected)
    moved = [np.abs(a - b).max() > 1e-3 for a, b in zip(expected, before, strict=True)]
    assert np.mean(moved) > 0.8  # a bias of keys has no gradient
    assert int(whole.optimizer.iterations) == int(gathering.optimizer.iterations) == 2
    assert (whole.batches_trained, gathering.batches_trained) == (2, 4)


def test_nothing_moves_before_the_last_batch_of_a_group(trainer, student):
    distiller = trainer(training.adamw(0.1), gradient_accumulation=3)
    before = student.get_weights()
    for batches in (1, 2):
        distiller.train_step((FEATURES, LABELS))
        assert distiller.batches_trained == batches
        assert int(distiller.optimizer.iterations) == 0
        toys.check_equal(before, student.get_weights())
    distiller.train_step((FEATURES, LABELS))
    assert any((a != b).any() for a, b in zip(before, student.get_weights(), strict=True))


def test_unequal_batches_count_alike_and_a_scaled_loss_is_gathered_unscaled(trainer):
    parts = [part(0), part(1, 2, 3)]
    single = [after(trainer(keras.optimizers.SGD(0.5)), batch) for batch in parts]
    gathered = after(trainer(keras.optimizers.SGD(0.5), gradient_accumulation=2), *parts)
    check_close(gathered, [(a + b) / 2 for a, b in zip(*single, strict=True)])

    def scaled():
        return keras.mixed_precision.LossScaleOptimizer(
            keras.optimizers.SGD(0.5), dynamic=False, initial_scale=512
        )

    expected = after(trainer(keras.optimizers.SGD(0.5)), (FEATURES, LABELS))
    received = after(trainer(scaled(), gradient_accumulation=2), *HALVES)
    check_close(received, expected)


def test_a_batch_that_overflows_costs_its_group_and_no_more(trainer, student):
    optimizer = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.SGD(0.5))
    distiller = trainer(optimizer, gradient_accumulation=2)
    before = student.get_weights()
    scale = float(optimizer.loss_scale)
    weights = tf.constant([np.inf, 1.0])
    distiller.train_step((*HALVES[0], weights))
    distiller.train_step(HALVES[1])
    assert float(optimizer.loss_scale) == scale / 2
    toys.check_equal(before, student.get_weights())
    distiller.train_step(HALVES[0])
    distiller.train_step(HALVES[1])
    assert all(np.isfinite(values).all() for values in student.get_weights())
    assert any((a != b).any() for a, b in zip(before, student.get_weights(), strict=True))


@pytest.mark.parametrize("batches", [0, -1, 1.5, True, "2"])
def test_a_group_is_a_whole_number_of_batches(trainer, batches):
    with pytest.raises(errors.ConfigError, match="gradient_accumulation: expected an integer"):
        trainer("sgd", gradient_accumulation=batches)


# Through `training.fit`, in a graph: 15 batches in groups of 2, so that groups cross epochs.


@pytest.fixture(scope="module")
def run():
    return toy_run.Run(gradient_accumulation=2)


@pytest.fixture(scope="module")
def whole(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    result = run.fit(folder)
    return result, run.state(), toy_run.history(folder)


def test_a_fit_counts_batches_and_its_schedule_optimizer_steps(run, whole):
    result, state, rows = whole
    assert result.steps == toy_run.STEPS * toy_run.EPOCHS
    assert [row["step"] for row in rows] == ["5", "10", "15"]
    assert state["iter:0"] == 7
    assert state["pending:0"] == 1
    # 30 steps in all, 6 of them warm-up; after 2, 5 and 7 optimizer steps.
    rates = [float(row["learning_rate"]) for row in rows]
    assert rates == pytest.approx([0.02 * 2 / 6, 0.02 * 5 / 6, 0.02 * 23 / 30], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("seconds", "kills"), [(1, (3, 4)), (3, (2, 11)), (5, (7,))])
def test_a_resumed_fit_equals_an_uninterrupted_one(
    run, whole, tmp_path, monkeypatch, seconds, kills
):
    monkeypatch.setattr(callbacks, "time", toy_run.clock_of_steps(run))
    for step in kills:
        with pytest.raises(Killed):
            run.fit(tmp_path, KillAt(step), checkpoint_seconds=seconds)
    check_equals(whole, run, run.fit(tmp_path, checkpoint_seconds=seconds), tmp_path)


def test_a_checkpoint_of_other_groups_is_refused(run, tmp_path):
    """Its steps were counted otherwise: the fit would go on at another batch without a word."""
    with pytest.raises(Killed):
        run.fit(tmp_path, KillAt(4), checkpoint_seconds=0)
    distiller = distillers.LabelTrainer(run.student)
    distiller.compile(training.adamw(0.02), gradient_accumulation=3)
    with pytest.raises(errors.WeightsError, match="one of gradient_accumulation 3"):
        training.fit(distiller, run.train, epochs=1, folder=tmp_path)
