"""Losses of the user's own are judged on one batch before the first step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tf_keras as keras

from tfdistill import errors, models
from tfdistill.distillers.teacher import TEACHER_LOGITS
from tfdistill.losses import batch, heads
from tfdistill.losses.base import Loss

_MORE_PADDING = 3  # columns
_ROWS = 32  # Keras's own batch size


def first_batch(
    x: Any, y: Any, weights: Any, batch_size: int | None, strategy: tf.distribute.Strategy
) -> Any:
    """The first batch that `fit` would train on, of several replicas that of one; else None.

    A generator is not touched.
    """
    if isinstance(x, tf.distribute.DistributedDataset):

        def of_one(values: Any) -> Any:
            return strategy.experimental_local_results(values)[0]

        return tf.nest.map_structure(of_one, next(iter(x)))
    if isinstance(x, tf.data.Dataset):
        return next(iter(x.take(1)))
    if not isinstance(x, dict):
        return None
    columns = tuple(part for part in (x, y, weights) if part is not None)
    return tf.nest.map_structure(
        lambda rows: tf.convert_to_tensor(rows[: batch_size or _ROWS]), columns
    )


def check_losses(
    losses: Mapping[str, Loss],
    data: Any,
    learners: Sequence[keras.layers.Layer],
    teacher: Any,
    teach: Callable[[Mapping[str, tf.Tensor]], Mapping[str, Any]],
    step: Callable[..., batch.StepInputs],
) -> None:
    """Checks losses of the user's own on one batch, as it is and padded further.

    `teach` gives the teacher's outputs, `step` what the losses see of a batch and these. A value
    has to be a finite scalar that more padding does not move, with a gradient for some variable of
    the `learners`, the student and its projections, and for no trainable one that the loss holds.
    """
    data, further = (_padded(data, columns, learners[0]) for columns in (0, _MORE_PADDING))
    inputs = step(data=further, teacher=teach(further[0]))
    padded = {name: loss.compute(inputs) for name, loss in losses.items()}
    outputs = teach(data[0])
    with tf.GradientTape(persistent=True) as tape:
        inputs = step(data=data, teacher=outputs)
        values = {name: tf.convert_to_tensor(loss.compute(inputs)) for name, loss in losses.items()}
    learnt = [variable for learner in learners for variable in learner.variables]
    taught = teacher.variables if isinstance(teacher, keras.layers.Layer) else []
    for name, loss in losses.items():
        _check_value(loss, name, values[name], padded[name])
        _check_gradient(loss, name, tape, values[name], learnt, taught)


def _padded(data: Any, columns: int, student: keras.Model) -> tuple[Any, Any, Any]:
    """Features, labels and weights of a batch, with so many more columns of padding."""
    features, labels, weights = keras.utils.unpack_x_y_sample_weight(data)
    head = models.read_head(student)
    answers = (TEACHER_LOGITS,) if head.over_tokens else ()
    features = batch.padded(features, columns, also=answers)
    if labels is not None and heads.labels_tokens(head.kind):
        labels = batch.padded_labels(labels, columns)
    return features, labels, weights


def _check_value(loss: Loss, name: str, value: tf.Tensor, padded: Any) -> None:
    """Refuses a loss whose value is no finite scalar or another for the same batch, padded."""
    numbers = [value, tf.convert_to_tensor(padded)]
    if any(number.shape.rank != 0 for number in numbers):
        raise errors.ShapeError(f"loss {name!r} ({loss.kind})", "a scalar", numbers[0].shape)
    plain, moved = (float(number) for number in numbers)
    if not abs(plain) < float("inf"):
        raise errors.ConfigError(f"loss {name!r} ({loss.kind})", "a finite number", plain)
    if not loss.counts_padding and abs(plain - moved) > 1e-3 * max(abs(plain), abs(moved), 1e-3):
        raise errors.ConfigError(
            f"loss {name!r} ({loss.kind})",
            "the same value however far the batch is padded",
            f"{plain:.6g}, and {moved:.6g} with more padding",
            "Return a value for each token from call, which the base weighs by the mask.",
        )


def _check_gradient(
    loss: Loss,
    name: str,
    tape: tf.GradientTape,
    value: tf.Tensor,
    learnt: Sequence[tf.Variable],
    taught: Sequence[tf.Variable],
) -> None:
    """Refuses a loss that nothing learns from, or that has variables which do not learn."""
    parts = tf.distribute.get_strategy().experimental_local_results  # those of the replicas
    held = [v for item in tf.nest.flatten([*vars(loss).values()]) for v in _trainable(item)]
    ours, of_teacher, of_loss = (
        {id(part.handle) for variable in variables for part in parts(variable)}
        for variables in (learnt, taught, held)
    )
    watched = tape.watched_variables()
    pairs = zip(watched, tape.gradient(value, watched), strict=True)
    reached = {id(v.handle): v.name for v, gradient in pairs if gradient is not None}
    untrained = [reached[one] for one in reached.keys() & of_loss - ours - of_teacher]
    what = f"loss {name!r} ({loss.kind})"
    if untrained:
        raise errors.ConfigError(
            what,
            "variables of the student and of projections alone",
            f"{', '.join(sorted(untrained))}, which would not be trained",
            "Let a LayerLoss have the Dense layer: projection='shared' or 'per_layer'. A fixed "
            "layer or variable needs trainable=False.",
        )
    if not reached.keys() & ours:
        raise errors.ConfigError(
            what,
            "a value with a gradient for the student on the first batch",
            "one without",
            "NumPy, argmax, comparisons and tf.stop_gradient cut it off. A loss that is off at "
            "times multiplies its value by 0 instead of returning a constant.",
        )


def _trainable(item: Any) -> Sequence[tf.Variable]:
    """The variables that an attribute of a loss would have trained."""
    if isinstance(item, keras.layers.Layer):
        return item.trainable_variables
    return [item] if isinstance(item, tf.Variable) and item.trainable else []
