"""The likeness of a text to those that a file was trained on: its pieces, two by two."""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence

import numpy as np
import pydantic

from tfdistill.manifest.parts import ManifestPart
from tfdistill.tasks.encoded import EncodedExamples

FEWEST_TEXTS, FEWEST_ROWS = 1000, 100  # training texts and rows that chose nothing
PASSING = 0.95  # of the rows that chose nothing
_MOST = 2000  # pieces and pairs that are listed
_PAIRS, _PIECES = 2.0, 15_000.0  # that count where none was seen
_RANKS = 10.0  # that the most frequent words share
_SHIFT = 32  # bits of a piece in a pair

_log = logging.getLogger(__name__)


def _in_rows_of(width: int) -> str:
    """A pattern of numbers below 10^9 with blanks between them, `width` or a multiple of it."""
    row = " ".join(["[0-9]{1,9}"] * width)
    return f"^{row}( {row})*$"


class Familiarity(ManifestPart):
    """The ratio by which training texts join the pieces of a text more often than any text does.

    The score of a text is the mean over its pieces b, each after a piece a, of
    ``log((n(a, b) + 2 p(b)) / (n(a) + 2)) + log(max(b - first_word, 0) + 10)`` with
    ``p(b) = (n(b) + 0.5) / (num_pieces + 15,000)``. n counts pieces and pairs in the training
    texts and is 0 of those that are not listed. The second logarithm says how rare a piece is in
    any text: the words of a vocabulary begin with the frequent ones. [CLS] and [SEP] are pieces.

    Attributes:
      threshold: A text that scores less is of another kind: 5% of the texts that gave the promises
        do.
      first_word: Id of the first token of several letters.
      num_pieces: Pieces of the training texts without the first of each.
      pieces: The most frequent pieces: id and count in turn.
      pairs: The most frequent pairs: id, id and count in turn.
    """

    threshold: float = pydantic.Field(allow_inf_nan=False)
    first_word: int = pydantic.Field(ge=0)
    num_pieces: int = pydantic.Field(gt=0)
    pieces: str = pydantic.Field(pattern=_in_rows_of(2))
    pairs: str = pydantic.Field(pattern=_in_rows_of(3))

    def covers(self, examples: EncodedExamples) -> np.ndarray:
        """Whether texts are of the kind of the training texts: bool (n,)."""
        return self.scores(examples) >= self.threshold

    def scores(self, examples: EncodedExamples) -> np.ndarray:
        """The score of each text: float64 (n,)."""
        before, piece, rows = _pairs_of(examples)
        pieces, pairs = self._counts
        share = (_looked_up(pieces, piece) + 0.5) / (self.num_pieces + _PIECES)
        joined = _looked_up(pairs, (before << _SHIFT) + piece) + _PAIRS * share
        logs = np.log(joined / (_looked_up(pieces, before) + _PAIRS))
        logs += np.log((piece - self.first_word).clip(0) + _RANKS)
        sums = np.bincount(rows, weights=logs, minlength=len(examples))
        return sums / np.bincount(rows, minlength=len(examples)).clip(1)

    @functools.cached_property
    def _counts(self) -> tuple[np.ndarray, np.ndarray]:
        """Keys and counts of pieces and of pairs, int64 (2, listed) each, keys rising."""
        pieces = np.array(self.pieces.split(), np.int64).reshape(-1, 2)
        pairs = np.array(self.pairs.split(), np.int64).reshape(-1, 3)
        keys = (pairs[:, 0] << _SHIFT) + pairs[:, 1]
        tables = np.stack([pieces[:, 0], pieces[:, 1]]), np.stack([keys, pairs[:, 2]])
        return tables[0][:, tables[0][0].argsort()], tables[1][:, tables[1][0].argsort()]


def fit_familiarity(
    trained_on: EncodedExamples, rows: EncodedExamples, tokens: Sequence[str]
) -> Familiarity | None:
    """Counts training texts, and finds the threshold on held-out texts.

    None where there are too few of either, which it logs. `tokens` are the vocabulary's.
    """
    if len(trained_on) < FEWEST_TEXTS or len(rows) < FEWEST_ROWS:
        _log.warning(
            f"texts of another kind cannot be recognised: that takes {FEWEST_TEXTS:,} training "
            f"texts and {FEWEST_ROWS} held-out ones, not {len(trained_on):,} and {len(rows)}."
        )
        return None
    before, piece, _ = _pairs_of(trained_on)
    pieces = _most_frequent(trained_on.ids.astype(np.int64))
    pairs = _most_frequent((before << _SHIFT) + piece)
    mask = (1 << _SHIFT) - 1
    counted = Familiarity(
        threshold=0.0,
        first_word=next((i for i, t in enumerate(tokens) if len(t) > 1 and t.isalpha()), 0),
        num_pieces=len(piece),
        pieces=" ".join(f"{key} {count}" for key, count in pieces),
        pairs=" ".join(f"{key >> _SHIFT} {key & mask} {count}" for key, count in pairs),
    )
    threshold = float(np.quantile(counted.scores(rows), 1 - PASSING, method="midpoint"))
    return counted.model_copy(update={"threshold": threshold})


def _pairs_of(examples: EncodedExamples) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each piece after another, the pieces before them, and their texts: int64 (pairs,)."""
    ids = examples.ids.astype(np.int64)
    rows = np.repeat(np.arange(len(examples)), examples.lengths)
    inside = rows[1:] == rows[:-1]
    return ids[:-1][inside], ids[1:][inside], rows[1:][inside]


def _most_frequent(keys: np.ndarray) -> list[tuple[int, int]]:
    values, counts = np.unique(keys, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_MOST]
    return list(zip(values[order].tolist(), counts[order].tolist(), strict=True))


def _looked_up(table: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """The counts of keys in a table of (keys, counts), 0 of those that it lacks."""
    places = np.searchsorted(table[0], keys).clip(max=table.shape[1] - 1)
    return np.where(table[0][places] == keys, table[1][places], 0)
