"""The sample of texts that a teacher is measured on, and the loss that it is measured by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfdistill import errors
from tfdistill.losses.batch import padded
from tfdistill.models.heads import KINDS as HEAD_KINDS
from tfdistill.tasks.encoded import FEATURES

Features = Mapping[str, Any]
Sample = Sequence[Features]

_PROBE_SEED = 20
_AT_ONCE = 4096  # tokens of a pass, padding included


def take_sample(batches: Iterable[Any], *, examples: int = 1024, tokens: int = 32768) -> Sample:
    """Takes the first batches of a set, without labels.

    Args:
      batches: Batches as `data.batches.Batches.dataset` gives them: features, or tuples that begin
        with features. Shuffled, unless the set is small.
      examples: Enough examples; the batch that reaches them is the last.
      tokens: Enough tokens, padding left out.

    Returns:
      The features of at least one batch.

    Raises:
      DataError: If there is no example, or no real token in any.
    """
    taken: list[Features] = []
    seen_examples = seen_tokens = 0
    for batch in batches:
        features = batch[0] if isinstance(batch, tuple) else batch
        taken.append(features)
        seen_examples += len(features["attention_mask"])
        seen_tokens += int(np.sum(features["attention_mask"]))
        if seen_examples >= examples or seen_tokens >= tokens:
            break
    if not seen_tokens:
        raise errors.DataError(
            "sample to prune on",
            "at least one text",
            f"{seen_examples} texts, {seen_tokens} tokens",
            "Give it training texts; labels are not needed.",
        )
    return taken


def in_few_passes(sample: Sample) -> Sample:
    """The same texts in fewer batches, of like lengths: a pass costs something for itself.

    Batches have the same features, int (B, L) each, padded with zeros to the longest that they
    hold: of at most 4,096 tokens, padding included, or as large as they were.
    """
    groups: list[list[Features]] = []
    rows = 0
    for features in sorted(sample, key=lambda features: features["attention_mask"].shape[1]):
        count, width = features["attention_mask"].shape
        rows += count
        if not groups or rows * width > _AT_ONCE:
            groups.append([])
            rows = count
        groups[-1].append(features)
    return [_concatenated(group) for group in groups]


def _concatenated(group: Sequence[Features]) -> Features:
    width = group[-1]["attention_mask"].shape[1]
    names = [name for name in FEATURES if name in group[0]]
    tensors = [{name: tf.convert_to_tensor(part[name]) for name in names} for part in group]
    alike = [padded(part, width - part["attention_mask"].shape[1]) for part in tensors]
    return {name: tf.concat([part[name] for part in alike], axis=0) for name in names}


def inputs_of(model: keras.Model, features: Features) -> dict[str, tf.Tensor]:
    """Picks the inputs that a model takes."""
    return {name: tf.convert_to_tensor(features[name]) for name in model.input_names}


def answer_loss(
    answer: tf.Tensor, mask: tf.Tensor, head: str, *, multi_label: bool = False
) -> tf.Tensor:
    """The loss of each example whose gradient tells what a teacher's answer depends on.

    Classes: the cross entropy to the teacher's own most likely class,
    ``-log softmax(z)[argmax z]``; over tokens the sum over the real ones, over spans the sum of
    start and end, each a softmax over the real tokens. Several labels: the sum of the binary cross
    entropies to ``z > 0``. A regression: the answer itself, for the squared error to itself has no
    gradient; removing a part of the network then counts by how far it moves the answer. An encoder
    without a head: the product of its last states with fixed random signs, for the same reason; a
    sentence encoder: that of its vector.

    The answer is logits (B, C), or (B, L, C) over tokens and spans; states (B, L, d) without a
    head; vectors (B, d). The mask is 1 for real tokens, (B, L); the loss is float32 (B,).
    """
    answer = tf.cast(answer, tf.float32)
    mask = tf.cast(mask, tf.float32)
    kind = HEAD_KINDS[head]
    if kind.bare:
        signs = np.random.default_rng(_PROBE_SEED).choice([-1.0, 1.0], answer.shape[-1])
        products = tf.linalg.matvec(answer, signs.astype(np.float32))  # (B,), of states (B, L)
        return products if kind.of_texts else tf.reduce_sum(products * mask, axis=-1)
    if kind.over_positions:
        answer = tf.transpose(answer, (0, 2, 1)) - 1e9 * (1.0 - mask[:, tf.newaxis])  # (B, 2, L)
    elif answer.shape[-1] == 1:
        losses = answer[..., 0]
        return losses if kind.of_texts else tf.reduce_sum(losses * mask, axis=-1)
    if multi_label:
        answers = tf.cast(answer > 0, tf.float32)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=answers, logits=answer)
        return tf.reduce_sum(losses, axis=-1)
    answers = tf.stop_gradient(tf.argmax(answer, axis=-1))
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=answers, logits=answer)
    if kind.of_texts:
        return losses
    return tf.reduce_sum(losses if kind.over_positions else losses * mask, axis=-1)
