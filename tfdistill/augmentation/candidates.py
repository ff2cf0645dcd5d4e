"""What may replace a word: a masked language model's guesses, or the nearest word vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfdistill import errors, models, weights
from tfdistill.augmentation import variants
from tfdistill.data import vectors, vocab
from tfdistill.io import files
from tfdistill.tasks.encoded import join, pad, runs_of
from tfdistill.tokenization.tokenizer import Tokenizer

_NO_LIMIT = np.iinfo(np.int32).max
_LEAST_LENGTH = 8  # tokens that a masked text needs: [CLS], [MASK], [SEP], [SEP] and some context


class _Query(NamedTuple):
    """One word to guess: `[CLS] first [SEP] second [SEP]`, first[position] masked."""

    first: np.ndarray
    second: np.ndarray
    position: int

    @property
    def length(self) -> int:
        """Tokens, the special ones of a BERT included."""
        return len(self.first) + len(self.second) + 3


class CandidateFinder:
    """Finds the candidates of every word of many texts.

    A word that is one piece of the vocabulary is masked in ``[CLS] masked text [SEP] text [SEP]``;
    its candidates are the K most probable tokens, without "##" pieces and special tokens. A word
    of several pieces has the K words whose vectors have the largest cosine with its own. A word
    for which nothing is left has itself as its only candidate.

    All masked texts of a call go through the model together, in batches of like length, and only
    the masked position gets logits. The candidates of a word are in the order of their ids: a
    difference in the last digit of a logit, such as another batch makes, changes nothing unless
    it decides which token is the K-th.

    Args:
      model: A masked language model (`models.build_masked_lm`).
      tokenizer: Its tokenizer. Where it lower-cases, augmented texts are in lower case.
      word_vectors: For words of several pieces; None keeps such words as they are.
      num_candidates: K.
      stop_words: Words that get no candidates.
      max_length: The most tokens of a masked text, special ones included; None: as many as the
        model has positions. Of a longer one the repeated text is cut at its end, and if the
        masked text alone is longer, it is what surrounds the word.
      token_budget: About how many tokens, padding included, go through the model at a time.

    Raises:
      ShapeError: If `model` is no masked language model.
      VocabularyError: If the vocabulary has more tokens than the model.
      ConfigError: If `max_length` or `num_candidates` is out of range.

    Reference: Jiao et al. 2020, TinyBERT, section 3.3 and algorithm 1.
    """

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Tokenizer,
        word_vectors: vectors.WordVectors | None,
        *,
        num_candidates: int = 15,
        stop_words: AbstractSet[str] = frozenset(),
        max_length: int | None = None,
        token_budget: int = 4096,
    ):
        """Checks that model and tokenizer fit, and builds the graph; see the class."""
        config = _checked_config(model, tokenizer)
        longest = config.max_positions if max_length is None else max_length
        if not _LEAST_LENGTH <= longest <= config.max_positions:
            raise errors.ConfigError(
                "max_length",
                f"{_LEAST_LENGTH} to {config.max_positions}, the model's positions",
                longest,
            )
        if not 1 <= num_candidates <= config.vocab_size:
            raise errors.ConfigError("num_candidates", f"1 to {config.vocab_size}", num_candidates)
        self.num_candidates = num_candidates
        self.stop_words = frozenset(stop_words)
        self.max_length = longest
        self._model, self._vectors = model, word_vectors
        self._tokenizer = tokenizer.replace(prompt="")  # queries are found by their places
        self._token_budget = token_budget
        self._words = [tokenizer.word_of(token) for token in tokenizer.vocab]
        self._words += [""] * (config.vocab_size - tokenizer.vocab_size)
        self._best = _best_tokens(model, num_candidates)

    def identity(self) -> dict[str, Any]:
        """Returns what decides the candidates, as hashes and numbers: for a manifest."""
        weights = hashlib.sha256()
        for variable in sorted(self._model.weights, key=lambda variable: variable.name):
            weights.update(variable.name.encode() + np.ascontiguousarray(variable.numpy()).data)
        vectors_digest = hashlib.sha256()
        if self._vectors is not None:
            vectors_digest.update("\n".join(self._vectors.words).encode())
            vectors_digest.update(np.ascontiguousarray(self._vectors.values).data)
        return {
            "masked_lm_sha256": weights.hexdigest(),
            "vocabulary_sha256": self._tokenizer.digest,
            "lower_case": self._tokenizer.lower_case,
            "vectors_sha256": None if self._vectors is None else vectors_digest.hexdigest(),
            "stop_words_sha256": _sha256("\n".join(sorted(self.stop_words))),
            "num_candidates": self.num_candidates,
            "max_length": self.max_length,
        }

    def find(self, texts: Sequence[str]) -> list[variants.ReplaceableText]:
        """Splits texts into words and finds the candidates of each.

        Args:
          texts: Any number of texts; equal ones are looked at once.

        Returns:
          Words and candidates of each text, in order.
        """
        unique = list(dict.fromkeys(texts))
        words = self._tokenizer.words(unique)
        pieces = self._pieces({word for row in words for word in row})
        candidates_of: list[dict[int, list[str]]] = []
        queries: list[_Query] = []
        room = self.max_length - 2 - self._tokenizer.template.separators
        guessed: list[tuple[int, int]] = []  # text and position of each query
        composed: list[tuple[int, int]] = []  # and of each word of several pieces
        for index, row in enumerate(words):
            positions = variants.replaceable_positions(row, self.stop_words)
            candidates_of.append({position: [row[position]] for position in positions})
            ids = [pieces[word] for word in row]
            starts = np.cumsum([0, *map(len, ids)])
            text = np.concatenate(ids) if ids else np.empty(0, np.int32)
            for position in positions:
                if len(ids[position]) == 1:
                    queries.append(_query(text, int(starts[position]), room))
                    guessed.append((index, position))
                else:
                    composed.append((index, position))
        for (index, position), guesses in zip(guessed, self._guesses(queries), strict=True):
            candidates_of[index][position] = guesses or candidates_of[index][position]
        if self._vectors is not None:
            near = self._vectors.nearest([words[i][p] for i, p in composed], self.num_candidates)
            for (index, position), neighbours in zip(composed, near, strict=True):
                candidates_of[index][position] = neighbours or candidates_of[index][position]
        answers = {
            text: variants.ReplaceableText(row, candidates)
            for text, row, candidates in zip(unique, words, candidates_of, strict=True)
        }
        return [answers[text] for text in texts]

    def _pieces(self, words: AbstractSet[str]) -> dict[str, np.ndarray]:
        """Returns the ids of each word's pieces."""
        ordered = sorted(words)
        encoded = self._tokenizer.encode_batch(ordered, None, _NO_LIMIT)
        return {word: encoded.row(index)[1:-1] for index, word in enumerate(ordered)}

    def _guesses(self, queries: Sequence[_Query]) -> list[list[str]]:
        """Returns what may replace each masked word: tokens in the order of their ids."""
        answers: list[list[str]] = [[] for _ in queries]
        for batch in _batches([query.length for query in queries], self._token_budget):
            features = _features([queries[i] for i in batch], self._tokenizer)
            batch_features = {name: tf.constant(features[name]) for name in self._model.input_names}
            best = np.sort(self._best(batch_features).numpy(), axis=1)  # (batch, K)
            for index, tokens in zip(batch, best, strict=True):
                answers[index] = [self._words[t] for t in tokens if self._words[t]]
        return answers


def load_finder(
    source: files.Path,
    *,
    vectors_file: files.Path | None = None,
    tokenizer: Tokenizer | None = None,
    max_length: int,
    dtype_policy: str = "float32",
    **options: Any,
) -> CandidateFinder:
    """Loads a masked language model and word vectors as a `CandidateFinder`.

    Args:
      source: A Hugging Face folder or hub id.
      vectors_file: Word vectors, see `vectors.read_vectors`.
      tokenizer: The tokenizer; None: that of the model.
      max_length: The most tokens of a text: of a masked text and its repetition twice as many, and
        at most as many as the model has positions.
      dtype_policy: In which the model computes.
      **options: Others of `CandidateFinder`.

    Raises:
      WeightsError: If the model cannot be read, has no head for masked words, or no vocabulary.
      VocabularyError: If its vocabulary is not that of `tokenizer`.
      DataError: If the vectors cannot be read.
    """
    word_vectors = None if vectors_file is None else vectors.read_vectors(vectors_file)
    loaded = weights.load_masked_lm(source)
    if tokenizer is not None:
        if loaded.tokenizer is not None:
            vocab.check_same_vocabulary(loaded.tokenizer.vocab, tokenizer.vocab)
    else:
        tokenizer = weights.existing_tokenizer(loaded.tokenizer, source)
    model = loaded.model
    if dtype_policy != "float32":
        model = models.with_policy(model, dtype_policy)
    longest = min(2 * max_length, loaded.config.max_positions)
    return CandidateFinder(model, tokenizer, word_vectors, max_length=longest, **options)


def _checked_config(model: keras.Model, tokenizer: Tokenizer) -> models.EncoderConfig:
    if not models.read_head(model).traits.predicts_words:
        raise errors.ShapeError(
            f"model {model.name!r}",
            "a masked language model",
            f"a model with the head {models.head_of(model)!r}",
            "Load it with weights.load_masked_lm, or train one with `tfdistill pretrain`.",
        )
    config = models.config_of(model)
    tokenizer.check_rows(config.vocab_size)
    return config


def _best_tokens(model: keras.Model, count: int) -> Any:
    """Builds the graph from features to the ids of the most probable tokens, int32 (N, count)."""
    specs = {name: tf.TensorSpec((None, None), tf.int32) for name in model.input_names}

    @tf.function(input_signature=[specs], autograph=False)
    def best(features: dict[str, tf.Tensor]) -> tf.Tensor:
        logits = model(features, training=False)["mlm_logits"]  # (N, V)
        return tf.math.top_k(logits, count).indices

    return best


def _query(text: np.ndarray, position: int, room: int) -> _Query:
    """Cuts a masked text and its repetition to `room` tokens, special ones not counted."""
    if len(text) <= room:
        return _Query(text, text[: room - len(text)], position)
    start = min(max(position - room // 2, 0), len(text) - room)
    return _Query(text[start : start + room], text[:0], position - start)


def _batches(lengths: Sequence[int], token_budget: int) -> Iterator[np.ndarray]:
    """Yields the indices of queries of like length, the longest first."""
    order = np.argsort(-np.asarray(lengths, np.int64), kind="stable")
    start = 0
    while start < len(order):
        count = max(1, token_budget // lengths[order[start]])
        yield order[start : start + count]
        start += count


def _features(queries: Sequence[_Query], tokenizer: Tokenizer) -> dict[str, np.ndarray]:
    """Puts queries side by side: arrays (batch, longest), int32."""
    rows = join(
        runs_of([query.first for query in queries]),
        runs_of([query.second for query in queries]),
        tokenizer.template,
    )
    masked = rows.offsets[:-1] + 1 + np.array([query.position for query in queries])
    rows.ids[masked] = tokenizer.mask_id
    is_masked = np.zeros(len(rows.ids), np.int32)
    is_masked[masked] = 1
    return pad(rows, range(len(queries)), tokens={"prediction_mask": (is_masked, 0)})


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
