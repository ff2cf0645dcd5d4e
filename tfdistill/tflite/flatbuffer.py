"""The tables of a flatbuffer, a field of all of them at a time: an array instead of a call each.

The generated reader of the schema takes 10 us a field, and a file with eight signatures has ten
thousand. Everything that is read is checked to lie in the file.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

_COPIES = 16  # of the bytes of a file, that its vectors hold: equal ones are stored once
_BLOCK = 1 << 18  # bytes whose positions, 8 bytes each, are in memory together


class FileBytes:
    """The bytes of a file."""

    def __init__(self, buffer: Any) -> None:
        """Takes any buffer, and keeps it."""
        self.bytes = np.frombuffer(buffer, np.uint8)

    def numbers(self, positions: np.ndarray, dtype: str) -> np.ndarray:
        """Reads a number of a type at each position; IndexError if one lies outside."""
        if positions.size and positions.min() < 0:
            raise IndexError(f"position {positions.min()}")
        width = np.dtype(dtype).itemsize
        columns = [self.bytes[positions + place] for place in range(width)]
        return np.stack(columns, axis=1).view(dtype)[:, 0]


@dataclasses.dataclass(frozen=True)
class FieldVectors:
    """A vector of each of several tables."""

    content: FileBytes
    starts: np.ndarray  # position of the first element, by table
    counts: np.ndarray  # elements; 0 where the vector is absent
    width: int  # bytes of an element

    def __post_init__(self) -> None:
        """Checks that they lie in the file."""
        ends, size = self.starts + self.counts * self.width, len(self.content.bytes)
        if (ends > size).any() or self.counts.sum() * self.width > _COPIES * size:
            raise IndexError(f"a vector of a file of {size} bytes ends at {ends.max()}")

    def positions(self) -> np.ndarray:
        """The position of every element, vector after vector."""
        before = np.cumsum(self.counts) - self.counts
        starts = np.repeat(self.starts - before * self.width, self.counts)
        return starts + np.arange(len(starts)) * self.width

    def copied(self) -> FieldVectors:
        """The same of memory of their own: the file need not stay mapped."""
        sizes = self.counts * self.width
        return FieldVectors(
            FileBytes(self._joined()), np.cumsum(sizes) - sizes, self.counts, self.width
        )

    def numbers(self, dtype: str) -> np.ndarray:
        """Every element as a number, vector after vector."""
        return self._joined().view(dtype)

    def of(self, table: int, dtype: str = "<i4") -> list[int]:
        """The numbers of one table's vector."""
        return self._bytes(table).view(dtype).tolist()

    def text(self, table: int) -> str:
        """The text of one table's vector of bytes; "" for an absent one. It must be UTF-8."""
        return self._bytes(table).tobytes().decode("utf-8")

    def texts(self) -> list[str]:
        """The text of every table's vector."""
        return [self.text(table) for table in range(len(self.counts))]

    def _joined(self) -> np.ndarray:
        """The bytes of all elements, vector after vector; positions of a block at a time."""
        ends = np.cumsum(self.counts * self.width)
        before = ends - self.counts * self.width
        joined = np.empty(ends[-1] if len(ends) else 0, np.uint8)
        for first in range(0, len(joined), _BLOCK):
            last = min(first + _BLOCK, len(joined))
            some = slice(np.searchsorted(ends, first, "right"), np.searchsorted(before, last))
            sizes = np.minimum(ends[some], last) - np.maximum(before[some], first)
            offsets = np.repeat(self.starts[some] - before[some], sizes)
            joined[first:last] = self.content.bytes[offsets + np.arange(first, last)]
        return joined

    def _bytes(self, table: int) -> np.ndarray:
        start = self.starts[table]
        return self.content.bytes[start : start + self.counts[table] * self.width]


class Tables:
    """Tables of one type; their fields go by their place in the schema, from 0."""

    def __init__(self, content: FileBytes, positions: np.ndarray) -> None:
        """Reads where the fields of each table are listed."""
        self.content, self.positions = content, positions
        self._lists = positions - content.numbers(positions, "<i4")
        self._sizes = content.numbers(self._lists, "<u2")  # bytes of a list

    def __len__(self) -> int:
        """The number of elements."""
        return len(self.positions)

    def numbers(self, field: int, dtype: str) -> np.ndarray:
        """The number in a field of each table; 0 where it is absent."""
        places = self._places(field)
        return np.where(places > 0, self.content.numbers(places, dtype), np.zeros((), dtype))

    def vectors(self, field: int, width: int) -> FieldVectors:
        """The vector in a field of each table."""
        places = self._places(field)
        starts = places + self.content.numbers(places, "<u4")
        counts = self.content.numbers(np.where(places > 0, starts, 0), "<u4").astype(np.int64)
        absent = np.zeros_like(places)
        return FieldVectors(
            self.content,
            np.where(places > 0, starts + 4, absent),
            np.where(places > 0, counts, absent),
            width,
        )

    def tables(self, field: int) -> Tables:
        """The tables in a field of all of them, those of the first one first."""
        positions = self.vectors(field, 4).positions()
        return Tables(self.content, positions + self.content.numbers(positions, "<u4"))

    def table_numbers(self, field: int, inner: int, dtype: str) -> np.ndarray:
        """The number in field `inner` of the table in a field; 0 where either is absent."""
        places = self._places(field)
        present, numbers = places > 0, np.zeros(len(places), dtype)
        positions = places[present] + self.content.numbers(places[present], "<u4")
        numbers[present] = Tables(self.content, positions).numbers(inner, dtype)
        return numbers

    def _places(self, field: int) -> np.ndarray:
        """The position of a field in each table; 0 where it has its default."""
        entry = 4 + 2 * field  # after the sizes of the list and of the table
        present = self._sizes > entry
        offsets = self.content.numbers(np.where(present, self._lists + entry, 0), "<u2")
        return np.where(present & (offsets > 0), self.positions + offsets, 0)
