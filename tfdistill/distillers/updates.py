"""From gradients to new weights: gradient accumulation, and learning-rate multipliers by layer."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tf_keras as keras

from tfdistill import errors, models
from tfdistill.losses import checks

Multipliers = Sequence[tuple[str, float]]


class AccumulatedGradients(tf.Module):
    """The gradients that wait for the next optimizer step.

    `batches`, those of an optimizer step, shows in a checkpoint how its steps were counted.
    `pending` counts those since the last one; `sums` has the sum of their gradients for each
    variable that is learnt. Neither exists where every batch is an optimizer step.
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
        # Each replica keeps its own sum: only the update itself communicates.
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


def scaled(optimizer: keras.optimizers.Optimizer, loss: tf.Tensor) -> tf.Tensor:
    """The loss as gradients are taken of it, larger where the optimizer scales it."""
    if isinstance(optimizer, keras.mixed_precision.LossScaleOptimizer):
        return optimizer.get_scaled_loss(loss)
    return loss


def unscaled(optimizer: keras.optimizers.Optimizer, gradients: list[Any]) -> list[Any]:
    """The gradients of the loss, of those of the `scaled` one."""
    if isinstance(optimizer, keras.mixed_precision.LossScaleOptimizer):
        return optimizer.get_unscaled_gradients(gradients)
    return gradients


def summed(gradient: Any, *, by_row: bool) -> Any:
    """Adds up the rows of a table's gradient that are of one token: a norm is taken of the sums.

    Dense gradients and None stay as they are; without `by_row` rows become dense.
    """
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    if not by_row:
        return tf.convert_to_tensor(gradient)
    rows, places = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(rows))
    return tf.IndexedSlices(values, rows, gradient.dense_shape)


def without_padding(
    student: keras.Model, variables: Sequence[tf.Variable], gradients: Sequence[Any]
) -> list[Any]:
    """Sets the gradient of the row of [PAD] in the student's word table to 0."""
    table = student.get_layer("word_embeddings").weights[0]
    padding = models.config_of(student).pad_token_id

    def masked(gradient: Any) -> Any:
        if isinstance(gradient, tf.IndexedSlices):
            values = tf.where(gradient.indices[:, None] == padding, 0.0, gradient.values)
            return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
        return tf.tensor_scatter_nd_update(gradient, [[padding]], tf.zeros_like(gradient[:1]))

    return [
        gradient if gradient is None or variable is not table else masked(gradient)
        for gradient, variable in zip(gradients, variables, strict=True)
    ]


class Updater:
    """Applies gradients with an optimizer, one step after every `batches` batches.

    The gradient of a step is the plain mean of those of its batches. For batches of equal counts
    (of examples, tokens, masked positions) it is that of one batch `batches` times as large.
    Otherwise each batch counts once, as it does without accumulation: the terms of a loss divide
    by different counts, so no single weight would make all of them means over the larger batch.
    (Replicas share one batch and sum its counts.)

    A multiplier r scales what a step changes: with w before the step and w' after it, the variable
    becomes ``w + r (w' - w)``. For every optimizer whose change is proportional to its learning
    rate (SGD, Adam, AdamW, LAMB: weight decay too) that is r times the learning rate. A variable of
    multiplier 0 gets no gradient and no update: it keeps its bits.

    Args:
      model: Its trainable variables are learnt.
      batches: Batches an optimizer step, at least 1.
      lr_multipliers: (pattern, multiplier) pairs; the first pattern that matches the name of a
        variable's layer decides ("layer_3_*", "*embeddings*", "*"), none means 1. See `fnmatch`.

    Raises:
      ConfigError: If a pattern matches nothing, a multiplier is negative or not finite, nothing is
        left to learn, or `batches` is below 1.
    """

    def __init__(
        self, model: keras.Model, *, batches: int = 1, lr_multipliers: Multipliers | None = None
    ):
        """Checks the options and makes the variables that accumulate gradients."""
        if isinstance(batches, bool) or not isinstance(batches, int) or batches < 1:
            raise errors.ConfigError(
                "gradient_accumulation", "an integer of at least 1", repr(batches)
            )
        by_variable = _multipliers_of(model, lr_multipliers or ())
        learnt = [v for v in model.trainable_variables if by_variable.get(v.ref(), 1.0) != 0]
        if not learnt:
            raise errors.ConfigError(
                "lr_multipliers",
                "at least one trainable variable with a multiplier above 0",
                lr_multipliers or "none",
            )
        self.variables = tuple(learnt)
        self.batches = batches
        self.accumulated = AccumulatedGradients(learnt, batches)
        self._multipliers = tuple(by_variable.get(variable.ref(), 1.0) for variable in learnt)

    def batches_trained(self, updates: Any) -> Any:
        """The batches that were trained on after `updates`, as int64."""
        if self.batches == 1:
            return tf.cast(updates, tf.int64)
        return tf.cast(updates, tf.int64) * self.batches + self.accumulated.pending

    def takes_rows(self, optimizer: keras.optimizers.Optimizer) -> bool:
        """Whether `apply` takes the gradient of a table as rows, for an optimizer that takes them.

        Groups of batches and several replicas add gradients up, which are dense then.
        """
        one = self.batches == tf.distribute.get_strategy().num_replicas_in_sync == 1
        return one and getattr(optimizer, "takes_rows", False)

    def apply(self, optimizer: keras.optimizers.Optimizer, gradients: Sequence[Any]) -> None:
        """Takes the gradients of a batch; to be called in replica context, inside a train step.

        They are one for each of `variables`, or None where the loss does not reach: dense, or rows
        without one twice where the optimizer takes them.
        """
        reached = [index for index, gradient in enumerate(gradients) if gradient is not None]
        if self.batches == 1:
            self._update(optimizer, reached, [gradients[index] for index in reached])
            return
        for index in reached:
            self.accumulated.sums[index].assign_add(gradients[index])
        self.accumulated.pending.assign_add(1)

        def update() -> None:
            sums = [self.accumulated.sums[index] for index in reached]
            self._update(optimizer, reached, [total / self.batches for total in sums])
            for total in sums:
                total.assign(tf.zeros_like(total))
            self.accumulated.pending.assign(0)

        def when_due(strategy: tf.distribute.Strategy) -> None:
            def on_all_replicas() -> tf.Tensor:
                strategy.run(tf.autograph.experimental.do_not_convert(update))
                return tf.constant(True)

            due = tf.equal(self.accumulated.pending, self.batches)
            tf.cond(due, on_all_replicas, lambda: tf.constant(False))

        # Replicas cannot communicate inside a condition, but a condition can be in a merge call.
        _replica_context().merge_call(when_due)

    def _update(
        self, optimizer: keras.optimizers.Optimizer, indices: list[int], gradients: list[Any]
    ) -> None:
        variables = [self.variables[index] for index in indices]
        scaled = [
            (variable, self._multipliers[index])
            for variable, index in zip(variables, indices, strict=True)
            if self._multipliers[index] != 1
        ]
        before = tuple(tf.identity(variable) for variable, _ in scaled)
        with tf.variable_creator_scope(_outside_the_step):
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


def _outside_the_step(create: Any, **options: Any) -> tf.Variable:
    """Makes a moment of the optimizer eagerly: one of the traced step has it traced twice."""
    return create(**{**options, "experimental_enable_variable_lifting": False})


def _move(variable: tf.Variable, before: tf.Tensor, rate: float) -> tf.Operation:
    """Scales the change of a variable since `before` by `rate`."""
    return variable.assign(before + rate * (variable - before))


def _multipliers_of(model: keras.Model, multipliers: Multipliers) -> dict[Any, float]:
    """Maps the variables that a pattern matches to their multipliers."""
    layers = [
        layer
        for layer in model.submodules
        if isinstance(layer, keras.layers.Layer)
        and not isinstance(layer, keras.Model)
        and layer.trainable_variables
    ]
    names = {re.sub(r"^layer_\d+_", "layer_*_", layer.name) for layer in layers}
    by_variable: dict[Any, float] = {}
    for pattern, multiplier in multipliers:
        checks.check_number(f"lr_multipliers[{pattern!r}]", multiplier)
        matching = [layer for layer in layers if fnmatch.fnmatchcase(layer.name, pattern)]
        if not matching:
            raise errors.ConfigError(
                "lr_multipliers",
                "patterns that match a trainable layer, such as 'layer_0_*'",
                repr(pattern),
                errors.nearest(pattern, names),
            )
        for layer in matching:
            for variable in layer.trainable_variables:
                by_variable.setdefault(variable.ref(), float(multiplier))
    return by_variable
