"""Losses of the user's own are judged on one batch before the first step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    student: keras.Model,
    step: Callable[[tuple[Any, Any, Any]], batch.StepInputs],
) -> None:
    """Checks losses of the user's own on one batch, as it is and padded further.

    `step` says what the losses see of features, labels and weights. A value has to be a finite
    scalar that more padding does not move.
    """
    values = []
    for columns in (0, _MORE_PADDING):
        inputs = step(_padded(data, columns, student))
        values.append({name: loss.compute(inputs) for name, loss in losses.items()})
    for name, loss in losses.items():
        _check_value(loss, name, values[0][name], values[1][name])


def _padded(data: Any, columns: int, student: keras.Model) -> tuple[Any, Any, Any]:
    """Features, labels and weights of a batch, with so many more columns of padding."""
    features, labels, weights = keras.utils.unpack_x_y_sample_weight(data)
    head = models.read_head(student)
    answers = (TEACHER_LOGITS,) if head.over_tokens else ()
    features = batch.padded(features, columns, also=answers)
    if labels is not None and heads.labels_tokens(head.kind):
        labels = batch.padded_labels(labels, columns)
    return features, labels, weights


def _check_value(loss: Loss, name: str, value: Any, padded: Any) -> None:
    """Refuses a loss whose value is no finite scalar or another for the same batch, padded."""
    numbers = [tf.convert_to_tensor(number) for number in (value, padded)]
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
