"""Noise in the texts of a batch: more texts for a teacher to answer than were written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tfdistill import errors

if TYPE_CHECKING:
    import tensorflow as tf

    from tfdistill.data.tokenize import Tokenizer

HIGHEST_RATE = 0.5
_EXAMPLES, _RATES, _TOKENS, _REPLACEMENTS = range(4)  # independent streams of random numbers


class TokenNoise:
    """Replaces tokens of some examples by tokens of the same batch.

    Each example is changed with the probability `share`. A changed one draws a rate r, uniform
    between 0 and `highest_rate`, and each of its ordinary tokens is replaced with the probability r
    by one of the batch's ordinary tokens, all equally likely (so frequent ones are drawn more
    often). Ordinary are the tokens that are neither padding nor special.

    A student that sees a few thousand texts again and again learns their answers by heart. Here no
    epoch has the texts of another, and the teacher answers each as it is, so the student learns
    how the answers depend on the words.

    Args:
      tokenizer: Gives the special tokens.
      share: The probability of an example to be changed, 0 to 1.
      highest_rate: The highest rate, above 0, at most 1.

    Raises:
      ConfigError: If a value is out of range.

    Reference: the teacher answers the very input that the student sees, as in Beyer et al. 2022,
    Knowledge distillation: A good teacher is patient and consistent.
    """

    def __init__(
        self, tokenizer: Tokenizer, *, share: float = 0.5, highest_rate: float = HIGHEST_RATE
    ):
        """Checks the options; see the class."""
        if not 0 <= share <= 1:
            raise errors.ConfigError("share", "0 to 1", share)
        if not 0 < highest_rate <= 1:
            raise errors.ConfigError("highest_rate", "above 0, at most 1", highest_rate)
        self._special, self._share = tokenizer.special_ids, share
        self._highest_rate = highest_rate

    def __call__(self, features: Mapping[str, tf.Tensor], seed: Any) -> dict[str, tf.Tensor]:
        """Changes one batch; runs in a graph.

        Args:
          features: ``input_ids`` and ``attention_mask``, int32 (batch, tokens); others pass
            through.
          seed: int32 or int64 (2,). The same seed gives the same noise.

        Returns:
          The features, with other ``input_ids``.
        """
        import tensorflow as tf

        ids, real = features["input_ids"], features["attention_mask"] > 0
        special = tf.reduce_any(ids[..., None] == tf.constant(self._special, ids.dtype), axis=-1)
        ordinary = real & ~special
        rows = tf.stack([tf.shape(ids)[0], 1])

        def uniform(shape: tf.Tensor, stream: int) -> tf.Tensor:
            return tf.random.stateless_uniform(
                shape, tf.random.experimental.stateless_fold_in(seed, stream)
            )

        rates = tf.where(
            uniform(rows, _EXAMPLES) < self._share,
            self._highest_rate * uniform(rows, _RATES),
            0.0,
        )
        replaced = ordinary & (uniform(tf.shape(ids), _TOKENS) < rates)
        drawable = tf.boolean_mask(ids, ordinary)
        places = tf.random.stateless_uniform(
            [tf.math.count_nonzero(replaced, dtype=tf.int32)],
            tf.random.experimental.stateless_fold_in(seed, _REPLACEMENTS),
            maxval=tf.maximum(tf.size(drawable), 1),
            dtype=tf.int32,
        )
        changed = tf.tensor_scatter_nd_update(ids, tf.where(replaced), tf.gather(drawable, places))
        return {**features, "input_ids": tf.ensure_shape(changed, ids.shape)}
