"""Batches from a prepared corpus of any size, in constant memory, the same under the same seed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tfdistill import errors
from tfdistill.data import shard_files, streaming
from tfdistill.data.preparation import prepare_corpus
from tfdistill.data.shard_files import check_shards
from tfdistill.io import files
from tfdistill.tasks.encoded import EncodedExamples, pad

if TYPE_CHECKING:
    import tensorflow as tf

    from tfdistill.tokenization.tokenizer import Tokenizer

__all__ = ["ShardedBatches", "check_shards", "prepare_corpus", "token_counts"]

_SHARDS, _EXAMPLES, _BATCHES = range(3)  # what a generator shuffles


class ShardedBatches:
    """Batches over the shards of `prepare_corpus`, for training from any step.

    An epoch shuffles the shards, reads `shards_at_once` of them into memory at a time and shuffles
    their examples together. With `bucketing`, each run of `window` batches of that stream is
    sorted by length before it is cut into batches, and these are shuffled: little padding, and
    the order still differs in each epoch. Which examples form which batch follows from the files,
    the seed and the step; a resumed run reads only the shards that it still needs.

    Attributes:
      corpus: The manifest.
      steps_per_epoch: Batches of an epoch; the last may be smaller.
      num_examples: Examples of an epoch.
      next_sentence: Whether the features hold ``nsp_labels``.

    Args:
      folder: A prepared corpus.
      batch_size: Examples of a batch.
      seed: Seed of the shuffles.
      tokenizer: The tokenizer of the model; refused if the corpus was prepared with another
        vocabulary.
      shuffle: Whether epochs differ. Without it, each is the text in its order (in windows sorted
        by length).
      bucketing: Whether examples of like length share a batch.
      window: Batches that are sorted together.
      shards_at_once: Shards in memory at a time.
      held_out: The share of examples at the end of each shard that is held out for evaluation;
        where it is not 0, at least one example a shard.
      part: "train" for the others, "held_out" for these.
      limit: At most so many examples, the first of the order of epoch 0 without shuffling; None:
        all. Not together with `shuffle`.

    Raises:
      DataError: If the corpus is unfinished or damaged, or the part holds no example.
      VocabularyError: If the vocabularies differ.
      ConfigError: If an option is out of range.
    """

    def __init__(
        self,
        folder: files.Path,
        batch_size: int = 32,
        seed: int = 0,
        *,
        tokenizer: Tokenizer | None = None,
        shuffle: bool = True,
        bucketing: bool = True,
        window: int = 50,
        shards_at_once: int = 4,
        held_out: float = 0.0,
        part: Literal["train", "held_out"] = "train",
        limit: int | None = None,
    ):
        """Reads the manifest and counts; see the class."""
        _check_options(batch_size, window, shards_at_once, held_out, part, shuffle, limit)
        self._folder = folder
        vocab = None if tokenizer is None else tokenizer.vocab
        self.corpus = shard_files.open_corpus(folder, vocab)
        lower_case = self.corpus.settings["lower_case"]
        if tokenizer is not None and tokenizer.lower_case != lower_case:
            raise errors.VocabularyError(
                f"corpus {folder}",
                f"text with lower_case={tokenizer.lower_case}, as the model reads it",
                f"lower_case={lower_case}",
                "Prepare the corpus again.",
            )
        self.next_sentence = bool(self.corpus.settings["next_sentence"])
        self._pad_id = shard_files.corpus_tokenizer(folder).pad_id
        self._batch_size, self._seed, self._shuffle = batch_size, seed, shuffle
        self._window = window if bucketing else 1
        self._shards_at_once = shards_at_once
        self._shards = [shard for _, shard in sorted(self.corpus.shards.items())]
        self._kept = [_kept(shard.num_examples, held_out, part) for shard in self._shards]
        total = sum(last - first for first, last in self._kept)
        self.num_examples = total if limit is None else min(total, limit)
        if not self.num_examples:
            raise errors.DataError(f"corpus {folder}, part {part}", "at least one example", "none")
        self.steps_per_epoch = math.ceil(self.num_examples / batch_size)

    def dataset(self, *, epochs: int = 1, start_step: int = 0) -> tf.data.Dataset:
        """Streams the batches of all epochs, one after the other.

        Args:
          epochs: Number of epochs; all in one stream.
          start_step: The batch to begin with, counted over all epochs.

        Returns:
          A dataset of known cardinality: features ``input_ids``, ``attention_mask`` and
          ``token_type_ids``, int32 (batch, tokens), padded to the longest of the batch, and
          ``nsp_labels``, int32 (batch,), where the corpus was prepared for it.

        Raises:
          ConfigError: If `epochs` or `start_step` is out of range.
        """
        import tensorflow as tf

        tokens = tf.TensorSpec((None, None), tf.int32)
        signature = {name: tokens for name in ("input_ids", "attention_mask", "token_type_ids")}
        if self.next_sentence:
            signature["nsp_labels"] = tf.TensorSpec((None,), tf.int32)
        return streaming.stream(
            self.batches,
            signature,
            steps_per_epoch=self.steps_per_epoch,
            epochs=epochs,
            start_step=start_step,
        )

    def batches(self, epoch: int = 0, start_step: int = 0) -> Iterator[dict[str, np.ndarray]]:
        """Yields the batches of an epoch as NumPy arrays, from the one numbered `start_step` on."""
        window, skipped = divmod(start_step, self._window)
        examples_of_window = self._window * self._batch_size
        left = self.num_examples - window * examples_of_window
        for held in self._windows(epoch, window * examples_of_window, examples_of_window):
            take = min(len(held), left)
            left -= take
            order = np.arange(take)
            if self._window > 1:
                order = np.argsort(held.lengths[:take], kind="stable")
            cuts = np.split(order, range(self._batch_size, take, self._batch_size))
            if self._shuffle and self._window > 1:
                positions = self._generator(epoch, _BATCHES, window).permutation(len(cuts))
                cuts = [cuts[position] for position in positions]
            for indices in cuts[skipped:]:
                batch = pad(held, indices)
                if held.labels is not None:
                    batch["nsp_labels"] = held.labels[indices]
                yield batch
            window, skipped = window + 1, 0
            if left <= 0:
                return

    def _windows(self, epoch: int, skip: int, size: int) -> Iterator[EncodedExamples]:
        """Yields the examples of an epoch in its order, `size` at a time, without the first."""
        pieces: list[EncodedExamples] = []
        waiting = 0
        for group in self._groups(epoch, skip):
            start = 0
            while start < len(group):
                piece = group.select(np.arange(start, min(start + size - waiting, len(group))))
                pieces.append(piece)
                start += len(piece)
                waiting += len(piece)
                if waiting == size:
                    yield _joined(pieces)
                    pieces, waiting = [], 0
        if pieces:
            yield _joined(pieces)

    def _groups(self, epoch: int, skip: int) -> Iterator[EncodedExamples]:
        """Yields the shards that are read together, shuffled, without the first `skip` examples."""
        order = np.arange(len(self._shards))
        if self._shuffle:
            order = self._generator(epoch, _SHARDS, 0).permutation(len(order))
        for number, start in enumerate(range(0, len(order), self._shards_at_once)):
            members = order[start : start + self._shards_at_once]
            count = sum(self._kept[index][1] - self._kept[index][0] for index in members)
            if skip >= count:
                skip -= count
                continue
            group = _joined([self._read(index) for index in members])
            positions = np.arange(count)
            if self._shuffle:
                positions = self._generator(epoch, _EXAMPLES, number).permutation(count)
            yield group.select(positions[skip:])
            skip = 0

    def _read(self, index: int) -> EncodedExamples:
        encoded = shard_files.read_shard(
            self._shards[index],
            self._folder,
            next_sentence=self.next_sentence,
            pad_id=self._pad_id,
        )
        longest = self.corpus.settings["max_length"]
        if len(encoded) and encoded.lengths.max() > longest:
            raise errors.DataError(
                f"{self._folder}/{self._shards[index].file}",
                f"examples of at most {longest} tokens",
                int(encoded.lengths.max()),
                "Prepare the corpus again.",
            )
        return encoded.select(np.arange(*self._kept[index]))

    def _generator(self, epoch: int, purpose: int, number: int) -> np.random.Generator:
        return np.random.default_rng([self._seed, epoch, purpose, number])


def token_counts(folder: files.Path) -> np.ndarray:
    """Counts the tokens of a prepared corpus, for smoothed masking.

    Args:
      folder: The corpus.

    Returns:
      int64 (vocabulary,), how often each token occurs, special ones included.
    """
    corpus = shard_files.open_corpus(folder)
    size = shard_files.corpus_tokenizer(folder).vocab_size
    counts = np.zeros(size, np.int64)
    for shard in corpus.shards.values():
        encoded = shard_files.read_shard(shard, folder, next_sentence=False, pad_id=0)
        counts += np.bincount(encoded.ids, minlength=size)
    return counts


def _kept(count: int, held_out: float, part: str) -> tuple[int, int]:
    """The first example of a shard that a part holds, and the one after its last."""
    held = min(math.ceil(held_out * count), count)
    return (0, count - held) if part == "train" else (count - held, count)


def _joined(parts: list[EncodedExamples]) -> EncodedExamples:
    if len(parts) == 1:
        return parts[0]
    sizes = np.concatenate([part.lengths for part in parts])
    labels = [part.labels for part in parts if part.labels is not None]
    return EncodedExamples(
        ids=np.concatenate([part.ids for part in parts]),
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        types=np.concatenate([part.types for part in parts]),
        labels=np.concatenate(labels) if labels else None,
        pad_id=parts[0].pad_id,
    )


def _check_options(
    batch_size: int,
    window: int,
    shards_at_once: int,
    held_out: float,
    part: Any,
    shuffle: bool,
    limit: int | None,
) -> None:
    options = {"batch_size": batch_size, "window": window, "shards_at_once": shards_at_once}
    for name, value in {**options, **({} if limit is None else {"limit": limit})}.items():
        if value < 1:
            raise errors.ConfigError(name, "at least 1", value)
    if not 0 <= held_out < 1:
        raise errors.ConfigError("held_out", "a share, 0 <= held_out < 1", held_out)
    if part not in ("train", "held_out"):
        raise errors.ConfigError("part", "train or held_out", repr(part))
    if shuffle and limit is not None:
        raise errors.ConfigError(
            "limit", "shuffle=False with it", "shuffle=True", "Its examples differ."
        )
