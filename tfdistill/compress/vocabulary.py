"""Vocabulary pruning: a model that keeps only the pieces that its texts are made of.

Half of a small student is its table of word vectors, and a task uses a fraction of the rows. The
pruned model has the rows of the special tokens, of the pieces that a corpus uses, and of the single
characters that any other word over the same alphabet can be spelt with.

A text whose pieces are all kept, none of them [UNK], has the same pieces as before, because
WordPiece takes the longest token that fits and no longer one was removed in front of it; its rows
are the same, so its answers are the same bit for bit. Any other text falls into other pieces, or
has an [UNK] where a character is outside the alphabet; `PrunedVocabulary.coverage` counts them.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import string
from collections.abc import Iterable, Sequence

import numpy as np
import tf_keras as keras

from tfdistill import errors, models
from tfdistill.data import vocab as vocabularies
from tfdistill.io import files
from tfdistill.tokenization.library import SPECIAL_TOKENS, SUFFIX_INDICATOR
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
        """Writes the new vocab.txt, whole or not at all."""
        vocabularies.write_vocab(self.tokenizer.vocab, path)

    def coverage(self, texts: Sequence[str]) -> VocabularyCoverage:
        """Counts how texts fare, for example those of the development set.

        Args:
          texts: Any texts, at least one.

        Returns:
          The counts.

        Raises:
          DataError: If there is no text.
        """
        if not len(texts):
            raise errors.DataError("texts", "at least one", "none")
        before, after = self.tokenizer_before, self.tokenizer
        old_ids, old_counts = before.pieces(texts)
        new_ids, new_counts = after.pieces(texts)
        old_rows = np.split(old_ids, np.cumsum(old_counts)[:-1])
        new_rows = np.split(self.old_ids[new_ids], np.cumsum(new_counts)[:-1])
        changed = [not np.array_equal(a, b) for a, b in zip(old_rows, new_rows, strict=True)]
        return VocabularyCoverage(
            num_texts=len(texts),
            num_changed=sum(changed),
            num_pieces=len(new_ids),
            num_pieces_before=len(old_ids),
            num_unknown=int(np.sum(new_ids == after.unk_id)),
            num_unknown_before=int(np.sum(old_ids == before.unk_id)),
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
    has at least `min_count` times, and each character of these (alone and as a "##" piece). Further
    ones up to `num_tokens` are those that come first in the vocabulary: vocabularies of BERTs are
    in the order of how frequent a piece is, so that words of texts to come stay whole.

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
    config = models.config_of(model)
    table = next((layer for layer in model.layers if layer.name == _TABLE), None)
    if table is None or len(table.get_weights()) != 1:
        raise errors.ShapeError(
            f"model {model.name!r} to prune",
            "a table of word vectors as build_encoder makes it",
            "a wrapped one",
            "Prune the vocabulary first, then make the model quantization-aware.",
        )
    tokenizer = as_tokenizer(tokenizer)
    tokenizer.check_rows(config.vocab_size)
    counts = count_pieces(_texts(corpus), tokenizer)
    old_ids = choose_tokens(counts, tokenizer.vocab, min_count=min_count, num_tokens=num_tokens)
    return PrunedVocabulary(
        model=_with_rows(
            model, old_ids, pad_token_id=int(np.searchsorted(old_ids, tokenizer.pad_id))
        ),
        old_ids=old_ids,
        num_before=config.vocab_size,
        tokenizer=tokenizer.subset(old_ids),
        tokenizer_before=tokenizer,
    )


def count_pieces(texts: Iterable[str], tokenizer: Tokenizer) -> np.ndarray:
    """Counts how often texts, read once, use each token: int64 (vocab_size,).

    The special tokens that frame a text are not counted. Refuses texts without a word.
    """
    counts = np.zeros(tokenizer.vocab_size, np.int64)
    rest = iter(texts)
    while batch := list(itertools.islice(rest, _BATCH)):
        ids, _ = tokenizer.pieces(batch)
        counts += np.bincount(ids, minlength=tokenizer.vocab_size)
    if not counts.any():
        raise errors.DataError("corpus", "text, a line each", "no word")
    return counts


def choose_tokens(
    counts: np.ndarray,
    vocab: Sequence[str],
    *,
    min_count: int = 1,
    num_tokens: int | None = None,
) -> np.ndarray:
    """Chooses the ids to keep, ascending; see `prune_vocabulary` for which.

    Shapes: `counts` (vocab_size,), occurrences of each token.
    """
    mark = SUFFIX_INDICATOR
    special = set(SPECIAL_TOKENS)
    used = {token for token, count in zip(vocab, counts, strict=True) if count >= min_count}
    alphabet = set(string.ascii_letters + string.digits + string.punctuation)
    for token in used - special:
        alphabet.update(token.removeprefix(mark))
    letters = {form for character in alphabet for form in (character, mark + character)}
    wanted = special | used | letters
    needed = np.array([token in wanted for token in vocab])
    if num_tokens is None:
        return np.flatnonzero(needed)
    first = np.argsort(~needed, kind="stable")[: max(num_tokens, int(needed.sum()))]
    return np.sort(first)


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
