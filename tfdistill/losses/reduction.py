"""From values and weights to one number: the reductions that all objectives share.

A mask is a tensor of non-negative weights: 0 switches a token off, 1 counts it once, 2 counts it
twice. A boolean or integer mask is the special case of 0 and 1. A sample weight enters an
objective as ``mask * sample_weight[:, None]``.

The default reductions ("tokens" over tokens, "batch" over examples) divide by the sum of the
weights, so that neither padding nor the way an epoch is cut into batches moves the value.
``reduction="reference"`` divides by the size of the tensor, padding included, as the published
code does.

Either divisor is that of the global batch. Inside a replica of a `tf.distribute` strategy an
objective is its own sum over the mean of the replicas' divisors, ``r total_i / sum_j count_j`` for
replica i of r: the mean of that over the replicas, which training takes, is the value for the whole
batch, however many real tokens each replica has of it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

Array = Any
"""A tf.Tensor, or anything that becomes one: np.ndarray, list, number."""


def as_float32(values: Array) -> tf.Tensor:
    """Casts to float32, the type that every objective computes in."""
    return tf.cast(values, tf.float32)


def as_constant(values: Array) -> tf.Tensor:
    """Casts to float32 and stops the gradient: for teachers, masks and weights."""
    return tf.stop_gradient(as_float32(values))


def weighted_square_sum(difference: tf.Tensor, root_weights: tf.Tensor) -> tf.Tensor:
    """Sums weighted squares: ``sum (difference * root_weights)^2``.

    Where the weight is zero the difference is not looked at: it may be infinite or NaN, and its
    gradient is zero. Taking the weight's root lets one fused reduction do the work.
    """
    return 2.0 * tf.nn.l2_loss(tf.math.multiply_no_nan(difference, root_weights))


def total(values: Sequence[tf.Tensor]) -> tf.Tensor:
    """Adds values up in their order. `tf.add_n` starts with the one whose memory it can reuse.

    That depends on the timing of other operations, and so would the last bit of the sum.
    """
    return functools.reduce(tf.add, values)


def replica_mean(count: tf.Tensor) -> tf.Tensor:
    """Averages a scalar without gradient over the replicas in sync; elsewhere returns it."""
    replica = tf.distribute.get_replica_context()
    if replica is None or replica.num_replicas_in_sync == 1:
        return count
    return replica.all_reduce(tf.distribute.ReduceOp.MEAN, tf.stop_gradient(count))


def whole_batch(rows: tf.Tensor) -> tf.Tensor:
    """The rows of all replicas in sync, in their order; elsewhere `rows`.

    A value that every replica computes of all rows is the mean over the replicas, too, and their
    gradients add up to that of one device: each sends those of the others back to them.
    """
    replica = tf.distribute.get_replica_context()
    if replica is None or replica.num_replicas_in_sync == 1:
        return rows
    return replica.all_gather(rows, axis=0)


def divided(total: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """Divides a sum by what it is a sum of: ``total / count``, 0 where the count is 0."""
    return tf.math.divide_no_nan(total, replica_mean(count))


def weighted_mean(values: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
    """Averages: ``sum(weights * values) / sum(weights)``, 0 when no weight is left."""
    if weights is None:
        weights = tf.ones_like(values)
    total = tf.reduce_sum(tf.math.multiply_no_nan(values, weights))
    return divided(total, tf.reduce_sum(weights))


def reference_mean(values: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
    """Averages with the size as the divisor: ``sum(weights * values) / size(values)``."""
    if weights is not None:
        values = tf.math.multiply_no_nan(values, weights)
    return divided(tf.reduce_sum(values), tf.cast(tf.size(values), tf.float32))


def example_weights(mask: tf.Tensor) -> tf.Tensor:
    """Reads each example's weight off its mask, as the largest weight of its tokens.

    Shapes: `mask` (batch, tokens); returns (batch,).
    """
    return tf.reduce_max(mask, axis=1)


def token_weights(mask: tf.Tensor, reduction: str) -> tf.Tensor:
    """The weight of each token, (batch, tokens); in "reference" as much as its example."""
    if reduction == "reference":
        return tf.ones_like(mask) * example_weights(mask)[:, None]
    return mask


def mean(values: tf.Tensor, weights: tf.Tensor | None, reduction: str) -> tf.Tensor:
    """`reference_mean` for "reference", else `weighted_mean`; the weights may be broadcast."""
    if weights is not None:
        weights = tf.broadcast_to(weights, tf.shape(values))
    if reduction == "reference":
        return reference_mean(values, weights)
    return weighted_mean(values, weights)
