"""Dynamic masking for masked language models, on tensorflow-text's own operations.

The masks of a batch are a function of the seed and of the number of its step: every epoch masks
other tokens, and a resumed run continues with the masks that it would have drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import tensorflow as tf
import tensorflow_text as text_ops

from tfdistill import errors

if TYPE_CHECKING:
    from tfdistill.tokenization.tokenizer import Tokenizer

NO_LABEL = -100
_ROWS, _VALUES, _REPLACEMENTS = range(3)  # independent streams of random numbers

Features = dict[str, tf.Tensor]


class Masker:
    """Chooses tokens for prediction and hides most of them, as BERT or as DistilBERT does.

    Without `token_counts`, each example has ``max(1, round(rate * n))`` of its n real tokens (not
    padding) chosen, all with the same probability (BERT). With them, the whole batch has
    ``round(rate * n)`` of its n real tokens chosen, without replacement and with a probability
    proportional to ``max(count, 1) ** -smoothing``, so that rare tokens are learnt from more often
    (DistilBERT). Special tokens are never chosen; where there are fewer other ones, all of those
    are. Of the chosen tokens `mask_token_rate` become [MASK], `random_token_rate` another token
    drawn from the vocabulary without its special tokens, and the rest stays.

    Args:
      tokenizer: Gives the vocabulary and its special tokens.
      rate: The share of real tokens that is chosen; [CLS] and [SEP] count as real, as in the
        published codes.
      mask_token_rate: The share of the chosen ones that becomes [MASK].
      random_token_rate: The share that becomes a random token.
      predict: Where the masked-LM head answers: "masked" at the chosen tokens, "all" at every
        real token (DistilBERT's distillation compares the logits of all).
      token_counts: int (vocabulary,), how often each token occurs in the corpus: turns smoothed
        masking on.
      smoothing: The exponent; 0 gives every token the same probability.
      whole_words: Whether the pieces of a word are chosen together; `rate` is then of words, and
        each piece draws its own replacement. Not together with `token_counts`.

    Raises:
      ConfigError: If a rate is out of range, or options contradict each other.
      ShapeError: If there is not one count for each token.

    Reference: Devlin et al. 2019, BERT, appendix A.1; Sanh et al. 2019, DistilBERT.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        rate: float = 0.15,
        mask_token_rate: float = 0.8,
        random_token_rate: float = 0.1,
        predict: Literal["masked", "all"] = "masked",
        token_counts: np.ndarray | Sequence[int] | None = None,
        smoothing: float = 0.7,
        whole_words: bool = False,
    ):
        """Checks the options and prepares the tables; see the class."""
        _check_rates(rate, mask_token_rate, random_token_rate)
        if predict not in ("masked", "all"):
            raise errors.ConfigError("predict", "masked or all", repr(predict))
        if whole_words and token_counts is not None:
            raise errors.ConfigError(
                "masking", "whole_words or token_counts", "both", "Choose one."
            )
        vocab = tokenizer.vocab
        self._special = list(tokenizer.special_ids)
        self._rate, self._predict = rate, predict
        self._mask_id, self._pad_id = tokenizer.mask_id, tokenizer.pad_id
        self._mask_token_rate, self._random_token_rate = mask_token_rate, random_token_rate
        ordinary = np.setdiff1d(np.arange(len(vocab)), self._special)
        self._ordinary = ordinary.astype(np.int32)
        self._log_weights = None
        if token_counts is not None:
            self._log_weights = _log_weights(np.asarray(token_counts), len(vocab), smoothing)
        self._begins_word = None
        if whole_words:
            self._begins_word = tokenizer.begins_word

    def __call__(self, features: Features, seed: Any) -> Features:
        """Masks one batch; runs in a graph.

        `features` have ``input_ids`` and ``attention_mask``, int32 (batch, tokens), padding at the
        end of the rows; others pass through. The same seed, int (2,), gives the same masks. New
        are, int32 (batch, tokens), ``prediction_mask`` (1 where the head must answer) and
        ``mlm_labels`` (the original id at the chosen tokens, -100 elsewhere).
        """
        ids, real = features["input_ids"], features["attention_mask"]
        lengths = tf.reduce_sum(real, axis=1)  # (batch,)
        rows: Any = tf.RaggedTensor.from_tensor(ids, lengths=lengths)  # (batch, (tokens))
        rows = rows if self._begins_word is None else _words(rows, self._begins_word)
        selector = _Selector(
            self._rate, self._special, _fold(seed, _ROWS), lengths, self._log_weights
        )
        chooser = _Chooser(
            self._ordinary,
            self._mask_id,
            self._mask_token_rate,
            self._random_token_rate,
            (_fold(seed, _VALUES), _fold(seed, _REPLACEMENTS)),
        )
        masked, positions, originals = text_ops.mask_language_model(rows, selector, chooser, axis=1)
        shape = tf.shape(ids)
        indices = tf.stack(
            [tf.cast(positions.value_rowids(), tf.int32), tf.cast(positions.values, tf.int32)], 1
        )  # (chosen, 2)
        labels = tf.tensor_scatter_nd_update(
            tf.fill(shape, NO_LABEL), indices, tf.cast(originals.values, tf.int32)
        )
        chosen = tf.cast(labels != NO_LABEL, tf.int32)
        masked = masked.to_tensor(default_value=self._pad_id, shape=[None, None])
        padding = tf.fill([shape[0], shape[1] - tf.shape(masked)[1]], self._pad_id)
        static = ids.shape
        return {
            **features,
            "input_ids": tf.ensure_shape(tf.concat([masked, padding], 1), static),
            "prediction_mask": tf.ensure_shape(
                chosen if self._predict == "masked" else tf.cast(real, tf.int32), static
            ),
            "mlm_labels": tf.ensure_shape(labels, static),
        }


class _Selector(text_ops.RandomItemSelector):
    """Chooses items from seeded random numbers, of every row or of the whole batch.

    The selector of tensorflow-text shuffles row after row with one function, which cannot give
    each row its own seeded order.
    """

    def __init__(
        self,
        rate: float,
        special: list[int],
        seed: tf.Tensor,
        lengths: tf.Tensor,
        log_weights: np.ndarray | None,
    ):
        super().__init__(np.iinfo(np.int32).max, rate, unselectable_ids=special)
        self._seed, self._lengths, self._log_weights = seed, lengths, log_weights

    def get_selection_mask(self, input_ids: Any, axis: int = 1) -> Any:
        selectable: Any = self.get_selectable(input_ids, axis)  # (batch, (items)), bool
        allowed = selectable.flat_values  # (items,)
        noise = tf.random.stateless_uniform(
            tf.shape(allowed), self._seed, np.finfo(np.float64).tiny, 1, tf.float64
        )
        groups = selectable.value_rowids()  # the row of each item
        if self._log_weights is not None:
            # Gumbel's trick: the k largest of log w + g are k draws without replacement.
            weights = tf.gather(tf.constant(self._log_weights), input_ids.flat_values)
            noise = tf.math.log(-tf.math.log(noise)) - weights  # the smallest ones are drawn
            groups = tf.zeros_like(groups)
            counts = _rounded(self.selection_rate, tf.reduce_sum(self._lengths))[tf.newaxis]
        elif input_ids.ragged_rank > 1:
            counts = tf.maximum(_rounded(self.selection_rate, selectable.row_lengths()), 1)
        else:
            counts = tf.maximum(_rounded(self.selection_rate, self._lengths), 1)
        return selectable.with_flat_values(_smallest(noise, allowed, groups, counts))


class _Chooser(text_ops.MaskValuesChooser):
    """Draws the replacements from seeded random numbers, and never a special token."""

    def __init__(
        self,
        ordinary: np.ndarray,
        mask_id: int,
        mask_token_rate: float,
        random_token_rate: float,
        seeds: tuple[tf.Tensor, tf.Tensor],
    ):
        super().__init__(len(ordinary), mask_id, mask_token_rate, random_token_rate)
        self._ordinary, self._seeds = ordinary, seeds
        self._mask_below = mask_token_rate
        self._random_below = mask_token_rate + random_token_rate

    def get_mask_values(self, masked_lm_ids: Any) -> Any:
        originals = masked_lm_ids.flat_values
        draw = tf.random.stateless_uniform(tf.shape(originals), self._seeds[0])
        indices = tf.random.stateless_uniform(
            tf.shape(originals), self._seeds[1], 0, len(self._ordinary), tf.int32
        )
        others = tf.cast(tf.gather(tf.constant(self._ordinary), indices), originals.dtype)
        mask = tf.cast(self.mask_token, originals.dtype)
        values = tf.where(draw < self._random_below, others, originals)
        return masked_lm_ids.with_flat_values(tf.where(draw < self._mask_below, mask, values))


def _smallest(
    noise: tf.Tensor, allowed: tf.Tensor, groups: tf.Tensor, counts: tf.Tensor
) -> tf.Tensor:
    """Marks in each group the `counts[group]` allowed items with the smallest noise, bool (n,).

    `groups` ascend, int64 (n,); `counts` has one number for each.
    """
    last = tf.reduce_max(tf.concat([noise, [0.0]], 0)) + 1.0
    by_noise = tf.argsort(tf.where(allowed, noise, last), stable=True)
    # Sorting the groups of that order stably keeps the order of the noise inside each.
    order = tf.gather(by_noise, tf.argsort(tf.gather(groups, by_noise), stable=True))
    sizes = tf.math.bincount(tf.cast(groups, tf.int32), minlength=tf.size(counts), dtype=tf.int64)
    first = tf.cumsum(sizes, exclusive=True)
    ranks = tf.range(tf.size(noise, tf.int64)) - tf.gather(first, groups)  # groups ascend
    taken = ranks < tf.gather(counts, groups)
    chosen = tf.scatter_nd(order[:, tf.newaxis], taken, tf.shape(noise))
    return tf.logical_and(chosen, allowed)


def _rounded(rate: float, counts: tf.Tensor) -> tf.Tensor:
    """round(rate * counts), halves up, int64."""
    return tf.cast(tf.floor(rate * tf.cast(counts, tf.float64) + 0.5), tf.int64)


def _words(rows: Any, begins_word: np.ndarray) -> Any:
    """Groups the pieces of each row into words: (batch, (words), (pieces))."""
    begins = tf.gather(tf.constant(begins_word), rows.values)
    starts = tf.concat([rows.row_splits[:-1], tf.where(begins)[:, 0]], 0)
    starts = tf.sort(tf.unique(starts)[0])  # a row begins a word in any case
    inside = starts < tf.size(rows.values, tf.int64)  # empty rows at the end begin none
    starts = tf.boolean_mask(starts, inside)
    total = tf.size(rows.values, tf.int64)[tf.newaxis]
    words = tf.RaggedTensor.from_row_splits(rows.values, tf.concat([starts, total], 0))
    splits = tf.searchsorted(starts, rows.row_splits, out_type=tf.int64)
    return tf.RaggedTensor.from_row_splits(words, splits)


def _fold(seed: Any, stream: int) -> tf.Tensor:
    return tf.cast(
        tf.random.experimental.stateless_fold_in(tf.cast(seed, tf.int64), stream), tf.int64
    )


def _log_weights(counts: np.ndarray, vocab_size: int, smoothing: float) -> np.ndarray:
    if counts.shape != (vocab_size,):
        raise errors.ShapeError("token_counts", f"({vocab_size},), one a token", counts.shape)
    if smoothing < 0:
        raise errors.ConfigError("smoothing", "0 or more", smoothing)
    return -smoothing * np.log(np.maximum(counts, 1).astype(np.float64))


def _check_rates(rate: float, mask_token_rate: float, random_token_rate: float) -> None:
    if not 0 < rate <= 1:
        raise errors.ConfigError("rate", "a share, 0 < rate <= 1", rate)
    shares = (mask_token_rate, random_token_rate)
    if min(shares) < 0 or sum(shares) > 1 + 1e-9:
        raise errors.ConfigError(
            "mask_token_rate and random_token_rate", "shares of together at most 1", shares
        )
