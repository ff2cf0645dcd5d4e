"""Vocabulary pruning: a model that keeps only the pieces that its texts are made of.

Half of a small student is its table of word vectors, and a task uses a fraction of the rows. The
pruned model has the rows of the special tokens, of the pieces that a corpus uses, and of the single
characters that any other word over the same alphabet can be spelt with.

A text whose pieces are all kept, none of them unknown, has the same pieces as before: WordPiece
takes the longest token that fits, and no longer one was removed in front of it; the best sum of
Unigram's scores stays the best of fewer sums. Its rows are the same, so its answers are the same
bit for bit. Any other text falls into other pieces, or has an unknown one where a character is
outside the alphabet; `PrunedVocabulary.coverage` counts them.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterable, Sequence

import numpy as np
import tf_keras as keras

from tfdistill import errors, models
from tfdistill.io import files
from tfdistill.tokenization.reading import as_tokenizer
from tfdistill.tokenization.tokenizer import Tokenizer

_TABLE = "word_embeddings"
# Layers with something for each token -> the axis of their weights that counts the tokens.
_AXES = {_TABLE: 0, "mlm_bias": 0, "mlm_extra_decoder": 1}
_BATCH = 4096  # texts


@dataclasses.dataclass(frozen=True)
class VocabularyCoverage:
    """The effect of a pruned vocabulary on texts.

    Attributes:
      num_texts: Texts looked at.
      num_changed: Texts whose pieces are other ones than before: their answers may differ.
      num_pieces: Pieces of all texts under the pruned vocabulary.
      num_pieces_before: The same under the whole vocabulary.
      num_unknown: Pieces that are [UNK] under the pruned vocabulary.
      num_unknown_before: The same under the whole vocabulary.
    """

    num_texts: int
    num_changed: int
    num_pieces: int
    num_pieces_before: int
    num_unknown: int
    num_unknown_before: int


@dataclasses.dataclass(frozen=True, eq=False)
class PrunedVocabulary:
    """A model over fewer tokens.

    Attributes:
      model: The model with the remaining rows; a new one, in the dtype of the old.
      old_ids: int64 (tokens,), the old id of each, ascending.
      num_before: Rows of the old model's table.
      tokenizer: The tokenizer of the remaining tokens.
      tokenizer_before: That of the old vocabulary.
    """

    model: keras.Model
    old_ids: np.ndarray
    num_before: int
    tokenizer: Tokenizer
    tokenizer_before: Tokenizer

    def write_vocab(self, path: files.Path) -> None:
        """Writes the new vocab.txt, or tokenizer.json, whole or not at all."""
        files.atomic_write_text(path, self.tokenizer.file_text)

    def coverage(self, texts: Sequence[str]) -> VocabularyCoverage:
        """Counts how texts fare, for example those of the development set.

        Args:
          texts: Any texts, at least one.

        Returns:
          The counts.

        Raises:
          DataError: If there is no text.
        """
        return coverage(self.tokenizer_before, self.tokenizer, self.old_ids, texts)


def coverage(
    before: Tokenizer, after: Tokenizer, old_ids: np.ndarray, texts: Sequence[str]
) -> VocabularyCoverage:
    """Counts how texts fare in a part of a vocabulary, whose ids were `old_ids` (tokens,)."""
    if not len(texts):
        raise errors.DataError("texts", "at least one", "none")
    old_pieces, old_counts = before.pieces(texts)
    new_pieces, new_counts = after.pieces(texts)
    old_rows = np.split(old_pieces, np.cumsum(old_counts)[:-1])
    new_rows = np.split(old_ids[new_pieces], np.cumsum(new_counts)[:-1])
    changed = [not np.array_equal(a, b) for a, b in zip(old_rows, new_rows, strict=True)]
    return VocabularyCoverage(
        num_texts=len(texts),
        num_changed=sum(changed),
        num_pieces=len(new_pieces),
        num_pieces_before=len(old_pieces),
        num_unknown=int(np.sum(new_pieces == after.unk_id)),
        num_unknown_before=int(np.sum(old_pieces == before.unk_id)),
    )


def prune_vocabulary(
    model: keras.Model,
    tokenizer: Tokenizer | files.Path,
    corpus: files.Path | Iterable[str],
    *,
    min_count: int = 1,
    num_tokens: int | None = None,
) -> PrunedVocabulary:
    """Makes a model that keeps only the tokens that a corpus needs, or more.

    Kept are the special tokens, ASCII letters, digits and punctuation, each piece that the corpus
    has at least `min_count` times, and each character of these (alone and as a "##" piece); of a
    Unigram the characters of their scripts. Further ones up to `num_tokens` are other characters of
    these scripts, which nothing else spells, then those that come first in the vocabulary:
    vocabularies are in the order of how frequent a piece is, so that words of texts to come stay
    whole. Last come free places and letters of other scripts.

    Args:
      model: Any model of `tfdistill.models`, with or without a head; not changed.
      tokenizer: Its tokenizer, or the file of its vocabulary, see `reading.read_tokenizer`.
      corpus: A text file in UTF-8, a text a line, or the texts themselves: those of the task,
        second sentences included, or more of its language.
      min_count: The least occurrences of a piece.
      num_tokens: Tokens to keep in all, where the corpus needs fewer; None: what it needs.

    Returns:
      The new model and its vocabulary.

    Raises:
      ConfigError: If `min_count` is below 1.
      DataError: If the corpus holds no text.
      ShapeError: If `model` is not of `tfdistill.models`, or is prepared for quantization.
      VocabularyError: If the vocabulary cannot be used or has more tokens than the model rows.
    """
    if min_count < 1:
        raise errors.ConfigError("min_count", "at least 1", min_count)
    tokenizer = as_tokenizer(tokenizer)
    tokenizer.check_rows(_checked_config(model).vocab_size)
    counts = count_pieces(_texts(corpus), tokenizer)
    old_ids = choose_tokens(counts, tokenizer, min_count=min_count, num_tokens=num_tokens)
    return keep_tokens(model, tokenizer, old_ids)


def keep_tokens(model: keras.Model, tokenizer: Tokenizer, old_ids: np.ndarray) -> PrunedVocabulary:
    """Makes a model that keeps only the tokens with these ids, ascending; see `choose_tokens`."""
    config = _checked_config(model)
    tokenizer.check_rows(config.vocab_size)
    pad_token_id = int(np.searchsorted(old_ids, tokenizer.pad_id))
    return PrunedVocabulary(
        model=_with_rows(model, old_ids, pad_token_id=pad_token_id),
        old_ids=old_ids,
        num_before=config.vocab_size,
        tokenizer=tokenizer.subset(old_ids),
        tokenizer_before=tokenizer,
    )


def _checked_config(model: keras.Model) -> models.EncoderConfig:
    """The configuration of a model whose table of words can be cut."""
    config = models.config_of(model)
    table = next((layer for layer in model.layers if layer.name == _TABLE), None)
    if table is None or len(table.get_weights()) != 1:
        raise errors.ShapeError(
            f"model {model.name!r} to prune",
            "a table of word vectors as build_encoder makes it",
            "a wrapped one",
            "Prune the vocabulary first, then make the model quantization-aware.",
        )
    return config


def count_pieces(texts: Iterable[str], tokenizer: Tokenizer, what: str = "corpus") -> np.ndarray:
    """Counts how often texts, read once, use each token: int64 (vocab_size,).

    The special tokens that frame a text are not counted. Refuses texts without a word, which a
    message calls `what`.
    """
    counts = np.zeros(tokenizer.vocab_size, np.int64)
    rest = iter(texts)
    while batch := list(itertools.islice(rest, _BATCH)):
        ids, _ = tokenizer.pieces(batch)
        counts += np.bincount(ids, minlength=tokenizer.vocab_size)
    if not counts.any():
        raise errors.DataError(what, "text, a line each", "no word")
    return counts


def choose_tokens(
    counts: np.ndarray,
    tokenizer: Tokenizer,
    *,
    min_count: int = 1,
    num_tokens: int | None = None,
) -> np.ndarray:
    """Chooses the ids to keep, ascending; see `prune_vocabulary` for which.

    Shapes: `counts` (vocab_size,), occurrences of each token.
    """
    ranked, needed, wanted = rank_tokens(counts, tokenizer, min_count=min_count)
    return np.sort(ranked[: wanted if num_tokens is None else max(num_tokens, needed)])


def rank_tokens(
    counts: np.ndarray,
    tokenizer: Tokenizer,
    *,
    min_count: int = 1,
    listed: np.ndarray | None = None,
) -> tuple[np.ndarray, int, int]:
    """Sorts all ids, those to keep first; see `choose_tokens`.

    After those that are needed come `listed`, ids to keep besides, the most important first.
    Returns the ids, how many are needed, and how many these and `listed` are.

    Shapes: `counts` (vocab_size,), occurrences of each token; `listed` (tokens,), each once.
    """
    used = np.where(counts >= min_count, counts, 0)
    is_letter = np.array([len(token) == 1 for token in tokenizer.vocab])
    is_spare = tokenizer.spare(counts)
    present, places = used.copy(), len(used) + np.where(is_spare, 2, ~is_letter)
    if listed is not None:
        present[listed] = np.maximum(present[listed], 1)
        places[listed] = np.arange(len(listed))
    places[(used > 0) | tokenizer.always_needed(present)] = -1
    needed, wanted = int(np.sum(places < 0)), int(np.sum(places < len(used)))
    return np.argsort(places, kind="stable"), needed, wanted


def _texts(corpus: files.Path | Iterable[str]) -> Iterable[str]:
    """Yields the texts of a corpus, one at a time from a file."""
    if not isinstance(corpus, str | os.PathLike):
        yield from corpus
        return
    try:
        with open(corpus, encoding="utf-8-sig") as lines:
            yield from lines
    except (OSError, UnicodeDecodeError) as error:
        raise errors.DataError(f"corpus {corpus}", "a text file in UTF-8", error) from error


def _with_rows(model: keras.Model, old_ids: np.ndarray, *, pad_token_id: int) -> keras.Model:
    """Copies a model with only some rows of its table, padded by a new id."""

    def copy(layer: keras.layers.Layer) -> keras.layers.Layer:
        settings = layer.get_config()
        if layer.name == _TABLE:
            settings.update(input_dim=len(old_ids), pad_token_id=pad_token_id)
        if layer.name == "mlm_extra_decoder":
            settings.update(units=len(old_ids))
        return type(layer).from_config(settings)

    pruned = keras.models.clone_model(model, clone_function=copy)
    for layer in pruned.layers:
        values = model.get_layer(layer.name).get_weights()
        if layer.name in _AXES:
            values = [value.take(old_ids, _AXES[layer.name]) for value in values]
        layer.set_weights(values)
    return pruned
