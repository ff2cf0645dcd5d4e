"""Word vectors from a text file: look a word up, or find the words nearest to it."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import numpy as np

from tfdistill import errors
from tfdistill.data import text_index
from tfdistill.io.files import Path

_MAX_PRODUCTS = 1 << 25  # similarities that are held at a time


class WordVectors:
    """Vectors of n words.

    `words` are each once, in the order of the file; `values` float32 (n, width).
    """

    def __init__(self, words: Sequence[str], values: np.ndarray):
        """Keeps words and vectors; refuses words that come twice."""
        self.words = tuple(words)
        self.values = np.asarray(values, np.float32)
        self._index = {word: row for row, word in enumerate(self.words)}
        if self.values.ndim != 2 or not len(self._index) == len(self.words) == len(self.values):
            raise errors.ShapeError(
                "word vectors",
                "different words and a row for each",
                f"{len(self._index)} different words of {len(self.words)}, "
                f"values of shape {self.values.shape}",
            )
        self.width = self.values.shape[1]
        self._unit: np.ndarray | None = None

    def __len__(self) -> int:
        """Returns n."""
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        """Whether the word has a vector; case matters."""
        return word in self._index

    def __getitem__(self, word: str) -> np.ndarray:
        """Returns the word's vector, float32 (width,)."""
        return self.values[self._index[word]]

    def nearest(self, words: Sequence[str], count: int) -> list[list[str]]:
        """Finds the words whose vectors have the largest cosine with the vectors of given words.

        At most `count` neighbours of each, the nearest first (of equally near ones that which comes
        first in the file), never the word itself; none of a word without a vector.
        """
        answers: dict[str, list[str]] = {word: [] for word in words}
        listed = [word for word in answers if word in self]
        count = min(count, len(self) - 1)
        if not listed or count < 1:
            return [answers[word] for word in words]
        unit = self._unit_vectors()
        step = max(1, _MAX_PRODUCTS // len(self))
        for start in range(0, len(listed), step):
            chunk = listed[start : start + step]
            rows = np.array([self._index[word] for word in chunk])
            cosines = unit[rows] @ unit.T  # (chunk, n)
            cosines[np.arange(len(rows)), rows] = -np.inf
            for word, row in zip(chunk, cosines, strict=True):
                answers[word] = [self.words[index] for index in text_index.best(row, count)]
        return [answers[word] for word in words]

    def _unit_vectors(self) -> np.ndarray:
        unit = self._unit
        if unit is None:  # once: a large table takes a second
            norms = np.linalg.norm(self.values, axis=1, keepdims=True)
            unit = self._unit = self.values / np.maximum(norms, np.finfo(np.float32).tiny)
        return unit


def read_vectors(path: Path, *, limit: int | None = None) -> WordVectors:
    """Reads vectors in the text format of GloVe and word2vec: a word and its numbers on each line.

    A first line of two whole numbers is word2vec's header (words, width), and the file must then
    hold that many words. Of a word that comes twice the first vector counts. `limit` reads only so
    many lines, the first ones (usually the most frequent words).
    """
    file = pathlib.Path(path)
    if not file.is_file():
        raise errors.DataError(
            "word vectors",
            "a text file with a word and its numbers on each line",
            f"{str(file)!r}, which is not a file",
            "GloVe's glove.6B.300d.txt is such a file.",
        )
    words: dict[str, None] = {}
    rows: list[np.ndarray] = []
    expected: int | None = None
    width = lines = 0
    with open(file, "rb") as stream:
        for number, line in enumerate(stream, start=1):
            cells = line.rstrip(b"\r\n").rstrip(b" ").split(b" ")
            if number == 1 and len(cells) == 2 and all(cell.isdigit() for cell in cells):
                expected, width = int(cells[0]), int(cells[1])
                continue
            if cells == [b""]:
                continue
            if limit is not None and lines == limit:
                break
            lines += 1
            width = width or len(cells) - 1
            word, row = _parse(cells, width, f"{file}, line {number}")
            if word not in words:
                words[word] = None
                rows.append(row)
    if not rows or (expected is not None and limit is None and lines != expected):
        raise errors.DataError(
            f"word vectors {file}",
            f"{expected} words, as its first line says" if expected else "a word on each line",
            lines or "an empty file",
            "The file is cut short; fetch it again." if expected else "",
        )
    return WordVectors(list(words), np.stack(rows))


def _parse(cells: list[bytes], width: int, where: str) -> tuple[str, np.ndarray]:
    # A few words of large GloVe files hold spaces themselves (". . .").
    word = b" ".join(cells[: len(cells) - width])
    try:
        if not word or not width:
            raise ValueError("no word or no number")
        row = np.array([float(cell) for cell in cells[len(cells) - width :]], np.float32)
        text = word.decode("utf-8")
    except ValueError as error:
        raise errors.DataError(
            where, f"a word in UTF-8 and {max(width, 1)} numbers", error
        ) from None
    if not np.isfinite(row).all():
        raise errors.DataError(where, "finite numbers", f"those of {text!r}")
    return text, row
