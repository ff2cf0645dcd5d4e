"""The word table beside a file that starts at the embeddings: int8 rows, a scale for each.

A compiler without lookups takes such a file: its signatures have `word_rows`, float32
(1, length, width), instead of ids, and the program that runs it looks the rows up. The table is a
safetensors file of `codes`, int8 (words, width), and `scales`, float32 (words,): row i is
codes[i] * scales[i] in float32, which every program computes alike.
"""

from __future__ import annotations

import dataclasses
import pathlib

import numpy as np
import safetensors.numpy

from tfdistill import arrays, errors, files, manifest, safe_paths

INPUT = "word_rows"
FORMAT_VERSION = "1"
_VERSION = "format_version"
_LARGEST = 127
_MOST_WORDS, _MOST_FEATURES = 1 << 22, 1 << 14


@dataclasses.dataclass(frozen=True, eq=False)
class WordTable:
    """Rows by id.

    Attributes:
      codes: int8 (words, width).
      scales: float32 (words,), at least 0.
    """

    codes: np.ndarray
    scales: np.ndarray

    @property
    def num_words(self) -> int:
        """Number of rows."""
        return len(self.codes)

    def rows(self, ids: np.ndarray) -> np.ndarray:
        """Looks rows up: int (...,) -> float32 (..., width).

        Raises:
          ShapeError: If an id is none of the table's.
        """
        chosen = checked_ids(ids, self.num_words)
        return self.codes[chosen].astype(np.float32) * self.scales[chosen, None]


def checked_ids(ids: np.ndarray, num_words: int) -> np.ndarray:
    """Returns ids that are those of a table.

    Raises:
      ShapeError: If one is not.
    """
    if ids.size and not 0 <= ids.min() <= ids.max() < num_words:
        raise errors.ShapeError(
            "input_ids",
            f"ids from 0 to {num_words - 1}, the rows of the word table",
            f"{ids.min()} to {ids.max()}",
            "Check that the text was tokenized with the vocabulary of the model.",
        )
    return ids


def rounded(table: np.ndarray) -> WordTable:
    """Rounds a table: with s_i = max_j |t_ij| / 127, codes are rint(t_ij / s_i); 0 where s_i is.

    Args:
      table: float32 (words, width).
    """
    scales = (np.abs(table).max(axis=1) / _LARGEST).astype(np.float32)
    steps = np.where(scales > 0, scales, 1).astype(np.float64)[:, None]
    codes = np.clip(np.rint(table / steps), -_LARGEST, _LARGEST).astype(np.int8)
    return WordTable(codes, scales)


def to_bytes(table: WordTable) -> bytes:
    """Returns the content of the file of a table."""
    content = {"codes": table.codes, "scales": table.scales}
    return safetensors.numpy.save(content, metadata={_VERSION: FORMAT_VERSION})


def read(path: files.Path) -> WordTable:
    """Reads a file with what `to_bytes` returned.

    Raises:
      ManifestError: If it is missing, damaged, of another version or no such table.
    """
    name, remedy = pathlib.Path(path).name, "Export again."
    held, header = arrays.read_with_metadata(  # the manifest has the checksum
        path, error=errors.ManifestError, remedy=remedy, has_checksum=False
    )
    version = header.get(_VERSION)
    if version != FORMAT_VERSION:
        raise errors.ManifestError(
            f"word table {name}", f"{_VERSION} {FORMAT_VERSION}", version, remedy
        )
    kinds = {key: (value.dtype.name, value.ndim) for key, value in held.items()}
    if kinds != {"codes": ("int8", 2), "scales": ("float32", 1)}:
        raise errors.ManifestError(
            f"word table {name}", "int8 codes (words, width) and float32 scales (words,)", kinds
        )
    codes, scales = held["codes"], held["scales"]
    words, width = codes.shape
    if not (1 <= words <= _MOST_WORDS and 1 <= width <= _MOST_FEATURES and len(scales) == words):
        raise errors.ManifestError(
            f"word table {name}",
            f"a scale for each of at most {_MOST_WORDS} rows of at most {_MOST_FEATURES}",
            f"{words} x {width}, {len(scales)} scales",
            remedy,
        )
    if not (np.isfinite(scales) & (scales >= 0)).all():
        raise errors.ManifestError(f"word table {name}", "scales of at least 0", "others", remedy)
    return WordTable(codes, scales)


def of(described: manifest.Manifest | None, folder: files.Path) -> WordTable | None:
    """Reads the table that a manifest names, from its folder; None if it names none.

    Raises:
      ManifestError: As `read`.
    """
    if described is None or described.word_table is None:
        return None
    return read(safe_paths.inside(pathlib.Path(folder), described.word_table.file))


def faults(table: WordTable, expected: np.ndarray) -> list[str]:
    """Lists where a table is not the int8 rounding of a model's.

    Args:
      table: The table.
      expected: The model's, float32 (words, width).
    """
    if table.codes.shape != expected.shape:
        return [errors.explain("word table", f"shape {expected.shape}", table.codes.shape)]
    values = expected.astype(np.float64)
    needed = np.abs(values).max(axis=1) / _LARGEST
    found = []
    scales = np.flatnonzero(~np.isclose(table.scales, needed, rtol=1e-6, atol=0))
    if len(scales):
        what = f"word table, {len(scales)} scales, first of row {scales[0]}"
        found.append(errors.explain(what, f"{needed[scales[0]]:.7g}", table.scales[scales[0]]))
    steps = np.where(needed > 0, needed, 1)[:, None]
    off = np.abs(values / steps - table.codes).max(axis=1) > 0.5 + 1e-4  # scales are float32
    rows = np.flatnonzero(off)
    if len(rows):
        what = f"word table, {len(rows)} rows, first {rows[0]}"
        found.append(errors.explain(what, "the model's row within half a step", "another"))
    return found
