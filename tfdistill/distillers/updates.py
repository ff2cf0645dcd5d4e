"""From gradients to new weights: over one batch or several, at a rate of its own for each layer."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tf_keras as keras

from tfdistill import errors

Rates = Sequence[tuple[str, float]]


class Gathered(tf.Module):
    """Gradients that wait for more batches.

    Attributes:
      batches: Batches an update, so that a checkpoint tells how its steps were counted.
      pending: Batches gathered since the last update.
      sums: The sum of their gradients, for each variable that is learnt. Neither is there where
        every batch is an update.
    """

    def __init__(self, variables: Sequence[tf.Variable], batches: int):
        """Starts from nothing, under the distribution strategy of the caller."""
        super().__init__(name="gathered")
        self.batches = tf.Variable(batches, dtype=tf.int64, trainable=False, name="batches")
        if batches == 1:
            return
        self.pending = tf.Variable(
            0,
            dtype=tf.int64,
            trainable=False,
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
            name="pending",
        )
        # Each replica keeps its own sum: only the update itself makes the replicas talk.
        self.sums = [
            tf.Variable(
                tf.zeros(variable.shape, variable.dtype),
                trainable=False,
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=tf.VariableAggregation.SUM,
                name=f"sum_{index}",
            )
            for index, variable in enumerate(variables)
        ]


class Updater:
    """Applies gradients with an optimizer, one update after every so many batches.

    The gradient of an update is the plain mean of those of its `batches`. For batches that count
    alike (as many examples, tokens, masked positions) it is that of one batch `batches` times as
    large. Otherwise each batch counts once, whatever it holds, as it does without gathering: the
    terms of a loss divide by different counts, so that no one weight would make all of them means
    over the larger batch. (Replicas share one batch, and tell each other its counts.)

    A rate scales what a step changes: with w before the step and w' after it, the variable
    becomes ``w + rate (w' - w)``. For every optimizer whose change is proportional to its
    learning rate (SGD, Adam, AdamW, LAMB: weight decay too) that is the learning rate times
    `rate`. A variable of rate 0 gets no gradient and no update: it keeps its bits.

    Args:
      model: Its trainable variables are learnt.
      batches: Batches an update, at least 1.
      rates: (pattern, rate) pairs; the first pattern that matches the name of a variable's layer
        decides ("layer_3_*", "*embeddings*", "*"), none means 1. See `fnmatch`.

    Raises:
      ConfigError: If a pattern matches nothing, a rate is negative or not finite, nothing is left
        to learn, or `batches` is below 1.
    """

    def __init__(self, model: keras.Model, *, batches: int = 1, rates: Rates | None = None):
        """Checks the options and makes the variables that gather gradients."""
        if isinstance(batches, bool) or not isinstance(batches, int) or batches < 1:
            raise errors.ConfigError(
                errors.explain("gradient_accumulation", "an integer of at least 1", repr(batches))
            )
        by_variable = _rates_of(model, rates or ())
        learnt = [v for v in model.trainable_variables if by_variable.get(v.ref(), 1.0) != 0]
        if not learnt:
            raise errors.ConfigError(
                errors.explain(
                    "rates", "at least one trainable variable with a rate above 0", rates or "none"
                )
            )
        self.variables = tuple(learnt)
        self.batches = batches
        self.gathered = Gathered(learnt, batches)
        self._rates = tuple(by_variable.get(variable.ref(), 1.0) for variable in learnt)

    def batches_trained(self, updates: Any) -> Any:
        """The batches that were trained on after `updates`, as int64."""
        if self.batches == 1:
            return tf.cast(updates, tf.int64)
        return tf.cast(updates, tf.int64) * self.batches + self.gathered.pending

    def apply(self, optimizer: keras.optimizers.Optimizer, gradients: Sequence[Any]) -> None:
        """Takes the gradients of a batch; to be called in replica context, inside a train step.

        Args:
          optimizer: Applies them, now or with those of later batches.
          gradients: Dense, one for each of `variables`, or None where the loss does not reach.
        """
        reached = [index for index, gradient in enumerate(gradients) if gradient is not None]
        if self.batches == 1:
            self._update(optimizer, reached, [gradients[index] for index in reached])
            return
        for index in reached:
            self.gathered.sums[index].assign_add(gradients[index])
        self.gathered.pending.assign_add(1)

        def update() -> None:
            sums = [self.gathered.sums[index] for index in reached]
            self._update(optimizer, reached, [total / self.batches for total in sums])
            for total in sums:
                total.assign(tf.zeros_like(total))
            self.gathered.pending.assign(0)

        def when_due(strategy: tf.distribute.Strategy) -> None:
            def on_all_replicas() -> tf.Tensor:
                strategy.run(tf.autograph.experimental.do_not_convert(update))
                return tf.constant(True)

            due = tf.equal(self.gathered.pending, self.batches)
            tf.cond(due, on_all_replicas, lambda: tf.constant(False))

        # Replicas may not talk inside a condition, but a condition may stand where they talk.
        _replica_context().merge_call(when_due)

    def _update(
        self, optimizer: keras.optimizers.Optimizer, indices: list[int], gradients: list[Any]
    ) -> None:
        variables = [self.variables[index] for index in indices]
        scaled = [
            (variable, self._rates[index])
            for variable, index in zip(variables, indices, strict=True)
            if self._rates[index] != 1
        ]
        before = tuple(tf.identity(variable) for variable, _ in scaled)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        if not scaled:
            return

        def rescale(strategy: tf.distribute.Strategy, *values: Any) -> None:
            for (variable, rate), value in zip(scaled, values, strict=True):
                strategy.extended.update(variable, _move, args=(value, rate), group=False)

        _replica_context().merge_call(rescale, args=before)


def _replica_context() -> tf.distribute.ReplicaContext:
    context = tf.distribute.get_replica_context()
    assert context is not None, "a train step runs in replica context"
    return context


def _move(variable: tf.Variable, before: tf.Tensor, rate: float) -> tf.Operation:
    """Leaves `rate` of the way that a variable has gone since `before`."""
    return variable.assign(before + rate * (variable - before))


def _rates_of(model: keras.Model, rates: Rates) -> dict[Any, float]:
    """Maps the variables that a pattern matches to their rates."""
    layers = [
        layer
        for layer in model.submodules
        if isinstance(layer, keras.layers.Layer)
        and not isinstance(layer, keras.Model)
        and layer.trainable_variables
    ]
    names = {re.sub(r"^layer_\d+_", "layer_*_", layer.name) for layer in layers}
    by_variable: dict[Any, float] = {}
    for pattern, rate in rates:
        if not 0 <= rate < float("inf"):
            raise errors.ConfigError(
                errors.explain(f"rates[{pattern!r}]", "a finite number >= 0", rate)
            )
        matching = [layer for layer in layers if fnmatch.fnmatchcase(layer.name, pattern)]
        if not matching:
            raise errors.ConfigError(
                errors.explain(
                    "rates",
                    "patterns that match a trainable layer, such as 'layer_0_*'",
                    repr(pattern),
                    errors.nearest(pattern, names),
                )
            )
        for layer in matching:
            for variable in layer.trainable_variables:
                by_variable.setdefault(variable.ref(), float(rate))
    return by_variable
