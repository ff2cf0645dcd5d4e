"""Noise in the texts of a batch: more texts for a teacher to answer than were written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tfdistill import errors

if TYPE_CHECKING:
    import tensorflow as tf

    from tfdistill.tokenization.tokenizer import Tokenizer

HIGHEST_RATE = 0.5
# Independent streams of random numbers.
_EXAMPLES, _RATES, _TOKENS, _REPLACEMENTS, _PAIRS, _PARTNERS, _PIECES = range(7)


class TokenNoise:
    """Replaces tokens of some examples by tokens of the same batch.

    Each example is changed with the probability `share`. A changed one draws a rate r, uniform
    between 0 and `highest_rate`, and each of its ordinary tokens is replaced with the probability r
    by one of the batch's ordinary tokens, all equally likely (so frequent ones are drawn more
    often). Ordinary are the tokens that are neither padding nor special.

    A student that sees a few thousand texts again and again learns their answers by heart. Here no
    epoch has the texts of another, and the teacher answers each as it is, so the student learns how
    the answers depend on the words.

    Reference: the teacher answers the very input that the student sees, as in Beyer et al. 2022,
    Knowledge distillation: A good teacher is patient and consistent.
    """

    def __init__(
        self, tokenizer: Tokenizer, *, share: float = 0.5, highest_rate: float = HIGHEST_RATE
    ):
        """Checks the options; see the class."""
        _check_share(share)
        if not 0 < highest_rate <= 1:
            raise errors.ConfigError("highest_rate", "above 0, at most 1", highest_rate)
        self._special, self._share = tokenizer.special_ids, share
        self._highest_rate = highest_rate

    def __call__(self, features: Mapping[str, tf.Tensor], seed: Any) -> dict[str, tf.Tensor]:
        """Changes ``input_ids``, int32 (batch, tokens); runs in a graph.

        The same seed, int (2,), gives the same noise.
        """
        import tensorflow as tf

        ids, real = features["input_ids"], features["attention_mask"] > 0
        special = tf.reduce_any(ids[..., None] == tf.constant(self._special, ids.dtype), axis=-1)
        ordinary = real & ~special
        rates = _rates(tf.shape(ids)[0], self._share, self._highest_rate, seed)
        replaced = ordinary & (_uniform(tf.shape(ids), _TOKENS, seed) < rates)
        drawable = tf.boolean_mask(ids, ordinary)
        places = tf.random.stateless_uniform(
            [tf.math.count_nonzero(replaced, dtype=tf.int32)],
            tf.random.experimental.stateless_fold_in(seed, _REPLACEMENTS),
            maxval=tf.maximum(tf.size(drawable), 1),
            dtype=tf.int32,
        )
        changed = tf.tensor_scatter_nd_update(ids, tf.where(replaced), tf.gather(drawable, places))
        return {**features, "input_ids": tf.ensure_shape(changed, ids.shape)}


class PieceNoise:
    """Cuts pieces into two smaller ones, as the sampling of a Unigram does.

    Each example is changed with the probability `share`. A changed one draws a rate r, uniform
    between 0 and `HIGHEST_RATE`, and each of its pieces that are two others in a row is cut
    (`Tokenizer.halves`) with the probability r, from the left while the batch's width has room.

    A word that the training texts lack is cut into pieces that they have seldom: here these occur.

    Reference: Kudo 2018, Subword Regularization, draws among all ways to cut a text; here each
    piece has one other way, and the teacher answers the very pieces that the student sees.
    """

    def __init__(self, tokenizer: Tokenizer, *, share: float = 0.5):
        """Checks the option; the tokenizer's pieces have halves."""
        _check_share(share)
        assert tokenizer.halves is not None
        self._halves, self._share = tokenizer.halves, share
        self._pad_id = tokenizer.pad_id

    def __call__(self, features: Mapping[str, tf.Tensor], seed: Any) -> dict[str, tf.Tensor]:
        """Changes ``input_ids`` and ``attention_mask``, int32 (batch, tokens); runs in a graph.

        The same seed, int (2,), gives the same noise.
        """
        import tensorflow as tf

        ids, mask = features["input_ids"], features["attention_mask"]
        halves = tf.gather(tf.constant(self._halves), ids)  # (batch, tokens, 2)
        seed = tf.random.experimental.stateless_fold_in(seed, _PIECES)  # other than `TokenNoise`'s
        rates = _rates(tf.shape(ids)[0], self._share, HIGHEST_RATE, seed)
        draws = _uniform(tf.shape(ids), _TOKENS, seed)
        cut = (mask > 0) & (halves[..., 0] >= 0) & (draws < rates)
        room = tf.shape(ids)[1] - tf.reduce_sum(mask, axis=1, keepdims=True)
        cut &= tf.cumsum(tf.cast(cut, room.dtype), axis=1) <= room
        sizes = mask + tf.cast(cut, mask.dtype)  # how many tokens each becomes
        pairs = tf.stack([tf.where(cut, halves[..., 0], ids), halves[..., 1]], axis=-1)
        present = tf.stack([sizes > 0, sizes > 1], axis=-1)
        rows = tf.RaggedTensor.from_row_lengths(
            tf.boolean_mask(pairs, present), tf.reduce_sum(sizes, axis=1)
        )
        changed = {
            "input_ids": rows.to_tensor(self._pad_id, shape=tf.shape(ids)),
            "attention_mask": tf.ones_like(rows).to_tensor(0, shape=tf.shape(ids)),
        }
        return {**features} | {
            name: tf.ensure_shape(value, ids.shape) for name, value in changed.items()
        }


class PairNoise:
    """Makes other pairs of the texts of a batch.

    Each example (A, B) becomes another pair with the probability `share`, one of three that are
    equally likely: (A, C), with the second text C of an example drawn from the batch; (A, A); or
    (B, A). Before `TokenNoise`, which changes some of them again, these are unrelated, equal and
    nearly equal texts: a few thousand pairs show a student few of the relations that its teacher
    knows. Second texts end where the batch's rows do.

    Reference: as for `TokenNoise`.
    """

    def __init__(self, tokenizer: Tokenizer, *, share: float = 0.5):
        """Checks the option; see the class."""
        _check_share(share)
        self._template, self._share = tokenizer.template, share

    def __call__(self, features: Mapping[str, tf.Tensor], seed: Any) -> dict[str, tf.Tensor]:
        """Changes the three inputs of texts, rows ``[CLS] A [SEP] B [SEP]``; runs in a graph.

        Rows without a second text pass through. The same seed, int (2,), gives the same pairs.
        """
        import tensorflow as tf

        ids, mask = features["input_ids"], features["attention_mask"]
        types, template = features["token_type_ids"], self._template
        rows, width = tf.unstack(tf.shape(ids))
        ends = tf.cast(ids == template.sep_id, mask.dtype) * mask
        paired = tf.reduce_sum(ends, axis=1) > template.separators
        firsts = (
            tf.argmax(ends, axis=1, output_type=tf.int32) + template.separators
        )  # [CLS] A [SEP]
        seconds = tf.where(paired, tf.reduce_sum(mask, axis=1) - firsts, 0)  # (batch,): B [SEP]
        partners = tf.argsort(_uniform([rows], _PARTNERS, seed))
        drawn, third = _uniform([rows], _PAIRS, seed), self._share / 3
        changed = (drawn < self._share) & (seconds > 0) & (tf.gather(seconds, partners) > 0)
        unrelated, equal = drawn < third, (drawn >= third) & (drawn < 2 * third)
        # Where the texts of the new pair begin, and how many tokens they have.
        start = tf.where(unrelated | equal, 1, firsts)
        first_length = firsts - 1 - template.separators
        length = tf.where(unrelated | equal, first_length, seconds - 1)
        sources = tf.where(unrelated, partners, tf.range(rows))
        other_start = tf.where(unrelated, tf.gather(firsts, partners), 1)
        other_length = tf.minimum(
            tf.where(unrelated, tf.gather(seconds, partners) - 1, first_length),
            width - 2 - template.separators - length,
        )

        position = tf.range(width)[None]  # (1, tokens)
        first_end = 1 + length[:, None]  # (batch, 1)
        middle = length[:, None] + template.separators  # of the last [SEP] between the texts
        end = middle + 1 + other_length[:, None]  # of the one behind them
        first = _shifted(ids, start[:, None] + position - 1)
        second = _shifted(tf.gather(ids, sources), other_start[:, None] + position - middle - 1)
        new_ids = tf.where(position < first_end, first, second)
        between = (position >= first_end) & (position <= middle)
        new_ids = tf.where(between | (position == end), template.sep_id, new_ids)
        new_ids = tf.where(position > end, template.pad_id, new_ids)
        new = {
            "input_ids": tf.where(position == 0, ids[:, :1], new_ids),
            "attention_mask": tf.cast(position <= end, mask.dtype),
            "token_type_ids": template.second_type
            * tf.cast((position > middle) & (position <= end), types.dtype),
        }
        return {**features} | {
            name: tf.ensure_shape(
                tf.where(changed[:, None], value, features[name]), features[name].shape
            )
            for name, value in new.items()
        }


def _shifted(ids: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """The tokens at other positions of each row, (batch, tokens); past the ends the end tokens."""
    import tensorflow as tf

    last = tf.shape(ids)[1] - 1
    return tf.gather(ids, tf.clip_by_value(positions, 0, last), axis=1, batch_dims=1)


def _uniform(shape: Any, stream: int, seed: Any) -> tf.Tensor:
    import tensorflow as tf

    return tf.random.stateless_uniform(
        shape, tf.random.experimental.stateless_fold_in(seed, stream)
    )


def _rates(rows: tf.Tensor, share: float, highest: float, seed: Any) -> tf.Tensor:
    """The rate of each example, (batch, 1): up to the highest, 0 of those that stay as they are."""
    import tensorflow as tf

    changed = _uniform([rows, 1], _EXAMPLES, seed) < share
    return tf.where(changed, highest * _uniform([rows, 1], _RATES, seed), 0.0)


def _check_share(share: float) -> None:
    if not 0 <= share <= 1:
        raise errors.ConfigError("share", "0 to 1", share)
