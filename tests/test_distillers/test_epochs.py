"""Repeated fits go on: no epoch of the same Batches, no order and no mask comes twice."""

import numpy as np
import pytest
import tf_keras as keras
import toys

from tfdistill import distillers
from tfdistill.data import batches, streaming

CONFIG = toys.SHALLOW_STUDENT.replace(dropout=0.3)


class Recorded(batches.Batches):
    """Knows which epochs were planned."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.planned = []

    def plan(self, epoch=0):
        self.planned.append(epoch)
        return super().plan(epoch)


@pytest.fixture
def train():
    return Recorded(toys.encoded(8), batch_size=4, seed=1)


@pytest.fixture
def trainer(built):
    trainer = distillers.LabelTrainer(toys.randomise(built(CONFIG), seed=2))
    trainer.compile(keras.optimizers.Adam(0.01), run_eagerly=True)
    return trainer


def fit(trainer, train, **options):
    """The epochs that a fit reads."""
    train.planned.clear()
    trainer.fit(train, verbose=0, **options)
    return list(train.planned)


@pytest.mark.slow
def test_two_fits_of_the_same_batches_are_one_longer_fit(built, train):
    ends = []
    for lengths in ((3,), (2, 1)):
        trainer = distillers.LabelTrainer(toys.randomise(built(CONFIG), seed=2))
        trainer.compile(keras.optimizers.Adam(0.01), run_eagerly=True)
        for epochs in lengths:
            trainer.fit(train, epochs=epochs, verbose=0)
        ends.append(trainer.student.get_weights())
    for whole, parts in zip(*ends, strict=True):
        np.testing.assert_array_equal(whole, parts)


@pytest.mark.slow
def test_each_stream_goes_on_by_itself(trainer):
    train, other = (Recorded(toys.encoded(4, seed=s), batch_size=4, seed=1) for s in (0, 3))
    assert fit(trainer, train, epochs=2) == [0, 1]
    assert fit(trainer, other) == [0]
    assert fit(trainer, train) == [2]
    assert fit(trainer, train, initial_epoch=1, epochs=2) == [1]
    assert fit(trainer, train) == [2]
    assert fit(trainer, other, epochs=2) == [1, 2]
    part = streaming.StepRange(train, start=3, steps=2)  # begins again with each fit
    for _ in range(2):
        train.planned.clear()
        trainer.fit(part, epochs=part.parts, verbose=0)
        assert train.planned == [3, 4]
    trainer.compile("sgd", run_eagerly=True)
    assert fit(trainer, train) == [0]


def test_changed_batches_go_on_as_those_below(trainer, train):
    noisy = streaming.MappedBatches(train, lambda features, seed: features)
    for epoch in range(2):
        train.planned.clear()
        trainer.fit(noisy, verbose=0)
        assert train.planned == [epoch]


def test_a_fit_that_is_cut_off_has_begun_its_epoch(trainer, train):
    class CutOff(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if int(trainer.batches_trained) == 3:  # the first of two in the second epoch
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(trainer, train, epochs=5, callbacks=[CutOff()])
    assert fit(trainer, train) == [2]


def test_a_fit_that_stops_before_its_first_step_counts_no_epoch(trainer, train):
    class NeverBegun(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            raise KeyboardInterrupt

    for options in ({}, {"initial_epoch": 1}):
        with pytest.raises(KeyboardInterrupt):
            fit(trainer, train, epochs=2, callbacks=[NeverBegun()], **options)
    assert fit(trainer, train) == [0]


def test_a_distiller_that_is_not_compiled_says_so(built, train):
    with pytest.raises(RuntimeError, match="compile"):
        distillers.LabelTrainer(built(CONFIG)).fit(train, verbose=0)
