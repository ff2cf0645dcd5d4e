"""An index of texts by their vectors: int8 rows, the texts, and the model file that they belong to.

A folder holds::

    index.json      format_version, the model file, the files below, threshold, checks
    vectors.int8    count x width bytes, int8, row by row
    texts.jsonl     {"text": ..., "answer": ...} for each row; no "answer" where there are none

A vector v becomes ``q = rint(127 v / max|v|)``, halves to even: an error of at most half a step,
max|v| / 254, in each feature. A query becomes int8 in the same way, and its score with row i is the
cosine of both, ``sum(x q_i) / sqrt(sum(x^2) sum(q_i^2))``, so that 1 / sqrt(sum(q^2)) is the scale
of a row. All sums are of integers, and so exact: every program gets the same scores, bit for bit.
"""

from __future__ import annotations

import functools
import json
import os
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pydantic

from tfdistill import errors, manifest
from tfdistill.data.routes import Route, Routes, decide, rows_by_label
from tfdistill.io import files, reading, safe_paths
from tfdistill.manifest import parts

FILE_NAME = "index.json"
VECTORS = "vectors.int8"
TEXTS = "texts.jsonl"
FOLDER = "search"  # where an index stands in the folder of its model
MOST_BYTES = 2**31 - 1  # of a file that a phone maps
MOST_FEATURES = 4096  # up to here products of two sums are exact in float64
LARGEST = 127
_LONGEST_MANIFEST = 1 << 20
_BLOCK_BYTES = 1 << 26
_EXACT = {np.float32: 2**24, np.float64: 2**53}  # integers that each type holds


class Spread(parts.ManifestPart):
    """A distribution of scores."""

    p05: float
    p50: float
    p95: float


class Checks(parts.ManifestPart):
    """The index's vectors compared with the vectors that the file gave, on `num_queries` rows."""

    num_queries: int = pydantic.Field(ge=1)
    # Share of the ten nearest by float vectors of the same width that are found.
    recall_at_10: float
    whole_recall_at_10: float | None  # against vectors of the whole width, where they were cut
    mean_cosine_error: float  # mean of 1 - cosine of a vector and its int8 form, over all rows
    max_score_error: float  # largest error of a score between two rows


class Scores(parts.ManifestPart):
    """The scores of the index's texts, over `Checks.num_queries` of them."""

    others: Spread | None  # two texts, of other answers where there are answers
    nearest_other: Spread | None  # the nearest such text of each
    # The nearest other text with the same answer; None where no two share one.
    nearest_same: Spread | None


class IndexManifest(parts.ManifestFile):
    """The whole of index.json."""

    name: str  # of the model's export
    created: str  # ISO 8601, UTC
    tfdistill_version: str
    model: manifest.FileRecord  # the file that gave the vectors; queries need the same one
    count: int = pydantic.Field(ge=1)  # rows
    # Features of a row, the first of the file's `model_width`.
    width: int = pydantic.Field(ge=1, le=MOST_FEATURES)
    model_width: int = pydantic.Field(ge=1)
    answers: bool  # whether rows have answers
    vectors: manifest.FileRecord
    texts: manifest.FileRecord
    # A best score below it means that no row answers; None if nothing tells. See
    # `run.index_checks.threshold_of`.
    threshold: float | None = pydantic.Field(ge=-1, le=1)
    checks: Checks | None
    scores: Scores
    routes: Routes | None = None  # where the answers are labels, when one is sure


class Match(NamedTuple):
    """A row that was found."""

    row: int  # from 0
    score: float  # the cosine, -1 to 1
    text: str
    answer: str | None


def quantize(vectors: np.ndarray) -> np.ndarray:
    """Rounds vectors, none of zeros alone, to int8, each by its largest feature; see the module."""
    values = np.asarray(vectors, np.float64)
    largest = np.abs(values).max(axis=1, keepdims=True)
    return np.rint(values * LARGEST / largest).astype(np.int8)


def scores_of(queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The cosine of each query with each row, float64 (n, m), exact but for three roundings.

    Both are int8, as `quantize` gives them.
    """
    width = rows.shape[1]
    kind = next(t for t, most in _EXACT.items() if LARGEST * LARGEST * width <= most)
    vectors = queries.astype(kind)
    squares = (vectors.astype(np.float64) ** 2).sum(axis=1)[:, None]
    scores = np.empty((len(queries), len(rows)))
    step = max(1, _BLOCK_BYTES // (8 * width))
    for start in range(0, len(rows), step):
        block = np.asarray(rows[start : start + step]).astype(kind)
        norms = (block.astype(np.float64) ** 2).sum(axis=1)
        products = (vectors @ block.T).astype(np.float64)
        scores[:, start : start + step] = products / np.sqrt(squares * norms)
    return scores


def best(scores: np.ndarray, count: int) -> np.ndarray:
    """The places of the largest scores, the largest first, of equal ones the first."""
    count = min(count, len(scores))
    least = np.partition(scores, len(scores) - count)[len(scores) - count]
    rows = np.flatnonzero(scores >= least)
    return rows[np.argsort(-scores[rows], kind="stable")][:count]


class TextIndex:
    """An index that was read; its rows, int8 (count, width), are mapped."""

    def __init__(self, card: IndexManifest, rows: np.ndarray, lines: Sequence[bytes]) -> None:
        self.card = card
        self.rows = rows
        self._lines = lines

    def search(self, vector: np.ndarray, count: int = 10) -> list[Match]:
        """Finds the nearest rows of a vector that the model file gave, by an exact search.

        The vector is float (model_width,), of which the first features count. The nearest row comes
        first; of equal scores the first row.
        """
        if count < 1:
            raise errors.ShapeError("count", "at least 1", count)
        scores = self._scores(vector)
        return [Match(int(row), float(scores[row]), *self.text(row)) for row in best(scores, count)]

    def route(self, vector: np.ndarray) -> Route:
        """Finds the label of a text by its nearest rows, and says whether it is sure.

        The vector is the text's, float (model_width,). Rows without labels raise
        ManifestError.
        """
        if self.card.routes is None:
            raise errors.ManifestError(
                f"index of {self.card.name}",
                "labels, of two rows each on average",
                "texts without" if not self.card.answers else "answers that are no labels",
                "`tfdistill index FILE --answer-column LABEL` makes one with labels.",
            )
        return decide(self._scores(vector), self._rows_of, self.card.routes, self.card.threshold)

    def _scores(self, vector: np.ndarray) -> np.ndarray:
        vector = np.asarray(vector)
        if vector.shape != (self.card.model_width,):
            raise errors.ShapeError("query", f"shape ({self.card.model_width},)", vector.shape)
        cut = vector[: self.card.width]
        if not np.isfinite(cut).all() or not cut.any():
            raise errors.DataError("query", "finite numbers that are not all 0", "others")
        return scores_of(quantize(cut[None]), self.rows)[0]

    @functools.cached_property
    def _rows_of(self) -> dict[str, np.ndarray]:
        rows_of = rows_by_label([self.text(row)[1] or "" for row in range(self.card.count)])
        assert self.card.routes is not None
        if unknown := rows_of.keys() - set(self.card.routes.thresholds):
            raise errors.ManifestError(
                "routes.thresholds", f"one for {min(unknown)!r}, which rows have", "none"
            )
        return rows_of

    def text(self, row: int) -> tuple[str, str | None]:
        """The text and the answer of a row."""
        where = f"{TEXTS}, line {row + 1}"
        value = reading.parse_json(self._lines[row], where, error=errors.ManifestError)
        keys = {"text", "answer"} if self.card.answers else {"text"}
        if not isinstance(value, dict) or value.keys() != keys:
            raise errors.ManifestError(where, f"an object with {sorted(keys)}", "something else")
        if not all(isinstance(part, str) for part in value.values()):
            raise errors.ManifestError(where, "texts", "other values")
        return value["text"], value.get("answer")


def write_index(
    folder: files.Path,
    rows: np.ndarray,
    texts: Sequence[str],
    answers: Sequence[str] | None,
    **facts: Any,
) -> IndexManifest:
    """Writes the files of an index into an empty folder; `facts` are the rest of its manifest."""
    place = pathlib.Path(folder)
    (place / VECTORS).write_bytes(np.ascontiguousarray(rows, np.int8).tobytes())
    with open(place / TEXTS, "w", encoding="utf-8", newline="\n") as file:
        for index, text in enumerate(texts):
            line = {"text": text} | ({} if answers is None else {"answer": answers[index]})
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    card = IndexManifest(
        count=len(rows),
        width=rows.shape[1],
        answers=answers is not None,
        vectors=_record(place / VECTORS),
        texts=_record(place / TEXTS),
        **facts,
    )
    files.atomic_write_json(place / FILE_NAME, card.model_dump(mode="json"))
    return card


def _record(file: pathlib.Path) -> manifest.FileRecord:
    with open(file, "rb") as written:
        os.fsync(written.fileno())
    return manifest.FileRecord(
        file=file.name, sha256=files.sha256_of(file), size_bytes=file.stat().st_size
    )


def read_index(folder: files.Path) -> TextIndex:
    """Reads an index and checks that its files are the ones that were written."""
    place = pathlib.Path(folder)
    path = place / FILE_NAME
    try:
        with open(path, "rb") as file:
            content = file.read(_LONGEST_MANIFEST + 1)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise errors.ManifestError(
            "index", path, "no such file", "`tfdistill index` makes it."
        ) from error
    card = reading.read_model(
        content[:_LONGEST_MANIFEST],
        IndexManifest,
        f"{path}",
        error=errors.ManifestError,
        expected=f"an index of version {parts.FORMAT_VERSION}",
    )
    for record in (card.vectors, card.texts):
        file = safe_paths.inside(place, record.file)
        received = files.sha256_of(file) if file.is_file() else "no such file"
        if received != record.sha256:
            raise errors.ManifestError(
                f"{file}", f"sha256 {record.sha256}", received, "Make the index again."
            )
    size = (place / card.vectors.file).stat().st_size
    if size != card.count * card.width:
        what = f"{card.count} x {card.width} bytes"
        raise errors.ManifestError(f"{place / card.vectors.file}", what, size)
    rows = np.memmap(place / card.vectors.file, np.int8, "r", shape=(card.count, card.width))
    if rows.min() < -LARGEST or not rows.any(axis=1).all():
        raise errors.ManifestError(
            f"{place / card.vectors.file}", f"-{LARGEST} to {LARGEST}, not 0 alone", "other rows"
        )
    lines = (place / card.texts.file).read_bytes().split(b"\n")
    if lines.pop() or len(lines) != card.count:
        raise errors.ManifestError(
            f"{place / card.texts.file}", f"{card.count} lines, each ended", len(lines)
        )
    return TextIndex(card, rows, lines)


def check_model(card: IndexManifest, model: manifest.Manifest) -> None:
    """Refuses an index of another model file: its vectors mean something else."""
    if card.model.sha256 != model.model.sha256:
        raise errors.ManifestError(
            f"index of {card.name}",
            f"the model file with sha256 {card.model.sha256}",
            f"{model.model.sha256}, of {model.name}",
            "Make the index again with this model file.",
        )
