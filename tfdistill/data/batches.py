"""Length-bucketed batches: work in proportion to real tokens, the same under the same seed.

The plan of an epoch (which examples form which batch, in which order) is a pure function of the
data, the seed and the epoch. So a run that is resumed at any step sees exactly the
batches that it would have seen.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tfdistill import errors
from tfdistill.data import streaming, tagged_words, unlabelled, windows
from tfdistill.tasks import splitting
from tfdistill.tasks.encoded import FEATURES, UNLABELLED, EncodedExamples, pad

if TYPE_CHECKING:
    import tensorflow as tf

    from tfdistill.tasks import Examples
    from tfdistill.tokenization.tokenizer import Tokenizer

__all__ = ["Batches", "EncodedExamples", "encode_examples"]

INDEX_FEATURE = "example_index"
_LABELS = "labels of tokens"  # no feature has this name


class Batches:
    """Batches over encoded examples.

    ``len`` is the number of batches of an epoch, and iterating gives those of the first one, as
    `batch` makes them.

    Attributes:
      encoded: The examples.
      steps_per_epoch: Batches of an epoch; the same in each.
      num_examples: Examples of an epoch (fewer than there are only with `drop_remainder`).
    """

    def __init__(
        self,
        encoded: EncodedExamples,
        *,
        batch_size: int = 32,
        token_budget: int | None = None,
        max_length: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        bucketing: bool = True,
        drop_remainder: bool = False,
        with_index: bool = False,
        extra: Mapping[str, np.ndarray] | None = None,
        token_extra: Mapping[str, np.ndarray] | None = None,
    ):
        """Plans the batches.

        With `bucketing`, an epoch shuffles the examples, sorts them by length (stably, so examples
        of equal length stay shuffled), cuts the row into batches and shuffles these. Without it,
        the shuffled row is cut as it is and each batch is padded to `max_length`.

        Args:
          encoded: The examples.
          batch_size: The most examples of a batch.
          token_budget: The most tokens of a batch, padding included (examples x longest), or
            None. Batches of short examples stay at `batch_size`.
          max_length: Without bucketing: the length to pad to (None: the longest example). With
            bucketing: only a check that no example is longer.
          shuffle: Whether epochs differ. Without it every epoch is ``plan(0)``, which with
            bucketing is still sorted by length.
          seed: Seed of the shuffles.
          bucketing: Whether examples of like length share a batch.
          drop_remainder: Whether to leave out the few examples (others in each epoch) that do
            not fill a batch. Not together with `token_budget`.
          with_index: Whether the features hold `example_index`, int32 (batch,).
          extra: More features by name, each an array (n, ...) with a row for each example, for
            example cached ``teacher_logits``.
          token_extra: The same with a row for each token, (tokens, ...); a batch pads them with
            zeros to (b, length, ...).

        Raises:
          DataError: If there is no example, or one is longer than `max_length` or the budget.
          ConfigError: If options contradict each other.
          ShapeError: If an extra feature has not one row for each example or token.
        """
        self.encoded = encoded
        self._seed, self._shuffle, self._bucketing = seed, shuffle, bucketing
        self._with_index = with_index
        self._extra, self._token_extra = dict(extra or {}), dict(token_extra or {})
        self._lengths = encoded.lengths
        _check_options(encoded, batch_size, token_budget, drop_remainder)
        _check_extra(self._extra, len(encoded))
        _check_extra(self._token_extra, encoded.num_tokens)
        longest = int(self._lengths.max())
        if max_length is not None and longest > max_length:
            raise errors.DataError(
                "encoded examples",
                f"at most max_length = {max_length} tokens",
                f"{longest} in example {int(self._lengths.argmax())}",
                "Encode them with this max_length.",
            )
        self._padded_length = None if bucketing else (max_length or longest)
        if token_budget is not None and token_budget < (self._padded_length or longest):
            raise errors.DataError(
                "token_budget",
                f"at least {self._padded_length or longest}, the longest example",
                token_budget,
            )
        count = len(encoded)
        self._kept = count - count % batch_size if drop_remainder else count
        if not self._kept:
            raise errors.DataError(
                "encoded examples", f"at least batch_size = {batch_size} with drop_remainder", count
            )
        self._batch_size, self._budget = batch_size, token_budget
        self.num_examples = self._kept
        # Sorted lengths are the same in every epoch, and so are the cuts: a constant number of
        # batches. (Dropped examples differ by epoch, but without a budget only counts matter.)
        self.steps_per_epoch = len(self._cuts(self._order(0)))

    def __len__(self) -> int:
        return self.steps_per_epoch

    def __iter__(self) -> Iterator[tuple[Any, ...] | dict[str, np.ndarray]]:
        return map(self.batch, self.plan())

    def plan(self, epoch: int = 0) -> list[np.ndarray]:
        """Returns the batches of an epoch: example indices, int64, every example exactly once.

        Args:
          epoch: From 0.

        Returns:
          `steps_per_epoch` arrays. ``np.concatenate(plan(0))`` is the order in which an
          evaluation answers: ``predictions[np.argsort(order)]`` are in the order of the data.
        """
        order = self._order(epoch)
        batches = np.split(order, self._cuts(order)[1:])
        if self._shuffle and self._bucketing:
            positions = self._generator(epoch, 1).permutation(len(batches))
            batches = [batches[position] for position in positions]
        return batches

    def batch(self, indices: np.ndarray) -> tuple[Any, ...] | dict[str, np.ndarray]:
        """Assembles one batch.

        Args:
          indices: int (b,), as `plan` gives them.

        Returns:
          Features (`input_ids`, `attention_mask`, `token_type_ids`, each int32 (b, length), and
          what was asked for), followed by labels and sample weights where there are any; the
          features alone, not in a tuple, where there are no labels. Labels of tokens are
          (b, length), -100 in the padding.
        """
        encoded = self.encoded
        tokens: dict[str, tuple[np.ndarray, float]] = {
            name: (rows, 0) for name, rows in self._token_extra.items()
        }
        if encoded.token_labels and encoded.labels is not None:
            tokens[_LABELS] = encoded.labels, UNLABELLED
        features = pad(encoded, indices, self._width(indices), tokens=tokens)
        if self._with_index:
            features[INDEX_FEATURE] = indices.astype(np.int32)
        for name, rows in self._extra.items():
            features[name] = rows[indices]
        if encoded.labels is None:
            return features
        labels = features.pop(_LABELS) if encoded.token_labels else encoded.labels[indices]
        if encoded.weights is None:
            return features, labels
        return features, labels, encoded.weights[indices]

    def dataset(self, *, epochs: int = 1, start_step: int = 0) -> tf.data.Dataset:
        """Streams the batches of all epochs, one after the other.

        Args:
          epochs: Number of epochs; all in one stream.
          start_step: The batch to begin with, counted over all epochs: a resumed run passes the
            steps it has done.

        Returns:
          A dataset of ``epochs * steps_per_epoch - start_step`` elements, as `batch` gives them.

        Raises:
          ConfigError: If `epochs` or `start_step` is out of range.
        """
        return streaming.stream(
            lambda epoch, first: (self.batch(indices) for indices in self.plan(epoch)[first:]),
            self._signature(),
            steps_per_epoch=self.steps_per_epoch,
            epochs=epochs,
            start_step=start_step,
        )

    def _signature(self) -> Any:
        import tensorflow as tf

        features = {name: tf.TensorSpec((None, self._padded_length), tf.int32) for name in FEATURES}
        if self._with_index:
            features[INDEX_FEATURE] = tf.TensorSpec((None,), tf.int32)
        for name, rows in self._extra.items():
            features[name] = tf.TensorSpec((None, *rows.shape[1:]), rows.dtype)
        for name, rows in self._token_extra.items():
            shape = (None, self._padded_length, *rows.shape[1:])
            features[name] = tf.TensorSpec(shape, rows.dtype)
        labels, weights = self.encoded.labels, self.encoded.weights
        if labels is None:
            return features
        row = (self._padded_length,) if self.encoded.token_labels else labels.shape[1:]
        targets = [tf.TensorSpec((None, *row), labels.dtype)]
        if weights is not None:
            targets.append(tf.TensorSpec((None,), weights.dtype))
        return features, *targets

    def _generator(self, epoch: int, purpose: int) -> np.random.Generator:
        return np.random.default_rng([self._seed, epoch, purpose])

    def _order(self, epoch: int) -> np.ndarray:
        """Returns the examples of an epoch in the order in which they are cut into batches."""
        order = np.arange(len(self.encoded))
        if self._shuffle:
            order = self._generator(epoch, 0).permutation(len(order))
        order = order[: self._kept]
        if self._bucketing:
            order = order[np.argsort(self._lengths[order], kind="stable")]
        return order

    def _cuts(self, order: np.ndarray) -> list[int]:
        """Returns where batches begin: greedily as many examples as size and budget allow."""
        if self._budget is None:
            return list(range(0, len(order), self._batch_size))
        if self._padded_length is not None:
            size = min(self._batch_size, self._budget // self._padded_length)
            return list(range(0, len(order), size))
        starts = [0]
        for position, length in enumerate(self._lengths[order].tolist()):
            count = position - starts[-1] + 1
            # Lengths ascend, so the newest example is the longest of its batch.
            if count > self._batch_size or count * length > self._budget:
                starts.append(position)
        return starts

    def _width(self, indices: np.ndarray) -> int:
        return self._padded_length or int(self._lengths[indices].max())


def _check_options(
    encoded: EncodedExamples,
    batch_size: int,
    token_budget: int | None,
    drop_remainder: bool,
) -> None:
    if not len(encoded):
        raise errors.DataError("batches", "at least one example", "none")
    if batch_size < 1:
        raise errors.ConfigError("batch_size", "at least 1", batch_size)
    if token_budget is not None and drop_remainder:
        raise errors.ConfigError(
            "batches",
            "drop_remainder or token_budget",
            "both",
            "With a token budget, batches differ in size anyway.",
        )
    if encoded.weights is not None and encoded.labels is None:
        raise errors.ConfigError("sample weights", "labels with them", "examples without labels")


def _check_extra(extra: Mapping[str, np.ndarray], count: int) -> None:
    for name, rows in extra.items():
        if name in (*FEATURES, INDEX_FEATURE):
            raise errors.ConfigError("extra feature", "a new name", f"{name!r}, which batches have")
        if rows.ndim < 1 or len(rows) != count:
            raise errors.ShapeError(f"extra feature {name!r}", f"{count} rows", rows.shape)


def encode_examples(
    examples: Examples,
    tokenizer: Tokenizer,
    max_length: int = 128,
    *,
    weights: np.ndarray | None = None,
    doc_stride: int = 128,
    max_question_length: int = 64,
) -> EncodedExamples:
    """Tokenizes examples.

    One text or pair gives one row. Words with tags give one or more
    (`tagged_words.encode_words`), a question with its context as many as it has windows
    (`windows.encode_questions`).

    Args:
      examples: Examples, with labels where they are known.
      tokenizer: The tokenizer of the model.
      max_length: The most tokens of a row; texts and pairs that are longer are cut.
      weights: float (n,), sample weights, or None; every row of an example gets its weight.
      doc_stride: Tokens from one window to the next, for questions.
      max_question_length: The most tokens of a question.

    Returns:
      The rows, in the order of the examples.

    Raises:
      DataError: If `max_length` has no room, or windows would leave tokens out.
    """
    if examples.questions is not None:
        encoded = windows.encode_questions(
            examples.questions,
            tokenizer,
            max_length,
            doc_stride=doc_stride,
            max_question_length=max_question_length,
            labelled=examples.labels is not None,
        )
    elif examples.word_offsets is not None:
        tags = None if examples.labels is None else list(examples.labels)
        encoded = tagged_words.encode_words(
            examples.texts, examples.word_offsets, tags, tokenizer, max_length
        )
    else:
        rows = tokenizer.encode_batch(examples.texts, examples.pairs, max_length)
        same_texts = None  # of pairs measured apart: equal but for case and blanks
        if examples.paired:
            same_texts = splitting.numbered(map(unlabelled.normal_text, examples.texts))
        encoded = dataclasses.replace(rows, labels=examples.labels, same_texts=same_texts)
    encoded = dataclasses.replace(encoded, task=examples.spec)
    if weights is None:
        return encoded
    of_rows = np.asarray(weights, np.float32)
    if encoded.sources is not None:
        of_rows = of_rows[encoded.sources]
    return dataclasses.replace(encoded, weights=of_rows)
