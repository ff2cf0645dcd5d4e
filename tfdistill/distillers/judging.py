"""Losses of the user's own are judged on one batch before the first step."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfdistill import errors
from tfdistill.losses.base import Loss

MORE_PADDING = 3  # columns
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


def check_value(loss: Loss, name: str, value: Any, padded: Any) -> None:
    """Refuses a loss of the user's that is not finite, or that more padding moves.

    Raises:
      ConfigError: If it is not finite, no scalar, or `padded`, its value for the same batch with
        more padding, differs from `value`.
    """
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
