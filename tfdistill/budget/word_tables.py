"""What a smaller word table keeps: of fewer pieces, in four bits, in two factors. Pure.

With the rows e_w of the whole table and the shares p_w of the pieces in running text, a table of
rows f_w, 0 where a piece is left out, keeps

    10 log10(sum_w p_w |e_w|^2 / sum_w p_w |e_w - f_w|^2) dB.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from tfdistill import models
from tfdistill.budget import costs
from tfdistill.compress import factorisation

LEAST_DB = 10.0
"""What the table of a student keeps at least.

Vectors of multilingual-e5-small with such tables have mean cosines of 0.988 and more to those with
the whole table, in German and in Hindi; below 9 dB they have 0.956 to 0.983.
"""
_ROUND = 100  # pieces
_BLOCK = 32  # numbers of a row that share a scale
_LOST_IN_8_BITS = 1e-4


class TableForm(NamedTuple):
    """A word table: its pieces, width (a rank where it has two factors), bits of a number, bytes.

    `decibels` are what it keeps.
    """

    num_pieces: int
    rank: int
    bits: int
    size_bytes: float
    decibels: float


class WordTable:
    """The whole table of a vocabulary that is cut.

    `vectors` (pieces, d) are its rows, the most important first, of which the first `least` always
    stay and no more than `most` may; `shares` (pieces,) are those in running text.
    """

    def __init__(self, vectors: np.ndarray, shares: np.ndarray, *, least: int, most: int) -> None:
        """Measures the table."""
        width, shares = vectors.shape[1], shares.astype(np.float32)
        energy = np.einsum("ij,ij,i->i", vectors, vectors, shares, dtype=np.float64)
        spectrum = np.linalg.eigvalsh((vectors * shares[:, None]).T @ vectors)[::-1]
        blocks = vectors.reshape(-1, width if width % _BLOCK else _BLOCK)
        steps = np.maximum(np.abs(blocks).max(axis=1, keepdims=True), 1e-30) / 7
        errors = (blocks - np.round(blocks / steps) * steps).reshape(vectors.shape)
        self.least, self.most = least, most
        self._left_out = 1 - np.cumsum(energy) / energy.sum()
        self._beyond = 1 - np.cumsum(spectrum) / spectrum.sum()
        self._rounded = np.einsum("ij,ij,i->", errors, errors, shares) / energy.sum()

    def fit(self, shape: Any, room: float, quantize: str) -> TableForm | None:
        """The table of a student that keeps most in so many bytes, or None."""
        forms, width = [], shape.embedding_size or shape.hidden_size
        for rank, bits, fixed, a_piece in _stored(width, quantize):
            fitting = _ROUND * int((room - fixed) // (_ROUND * a_piece))
            num = max(self.least, min(self.most, fitting))
            if (size := fixed + num * a_piece) <= room:
                decibels = self.decibels(rank / width, bits)[num - 1]
                forms.append(TableForm(num, rank, bits, size, float(decibels)))
        return max(forms, key=lambda form: form.decibels, default=None)

    def least_bytes(self, shape: models.EncoderConfig, quantize: str) -> float:
        """The bytes of a student's smallest table that keeps `LEAST_DB`, or of the nearest."""
        sizes, width = [], shape.embedding_size or shape.hidden_size
        for rank, bits, fixed, a_piece in _stored(width, quantize):
            decibels = self.decibels(rank / width, bits)[: self.most]
            num = max(self.least, 1 + int(np.argmax(decibels >= min(LEAST_DB, decibels[-1]))))
            sizes.append((decibels[num - 1] < LEAST_DB, fixed + num * a_piece))
        return min(sizes)[1]

    def decibels(self, part: float, bits: int) -> np.ndarray:
        """What tables of the first 1, 2, ... pieces keep, of a rank of `part` of the width."""
        beyond = self._beyond[round(part * len(self._beyond)) - 1]
        lost = (1 - self._left_out) * (beyond + (self._rounded if bits == 4 else 0.0))
        return -10 * np.log10(np.maximum(self._left_out + lost, _LOST_IN_8_BITS))


def _stored(width: int, quantize: str) -> Iterator[tuple[int, int, float, float]]:
    """Yields rank, bits, the bytes of a second factor, and those of a piece."""
    weight = costs.bytes_of_weight(quantize)
    if weight >= 1:
        yield width, round(8 * weight), 0, weight * width
    for rank in [width, *factorisation.ranks(width)]:
        second = rank * width * weight if rank < width else 0
        yield rank, 4, second, costs.word_bytes_in_4_bits(rank)
