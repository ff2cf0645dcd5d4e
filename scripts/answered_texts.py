"""The texts that `answers_from_transformers.py` answers: rows of tables, sentences."""

from __future__ import annotations

import csv
import json
import pathlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

Row = tuple[Any, ...]  # of texts, or a tuple of words
_TABLES = (".jsonl", ".csv", ".tsv")


def read_rows(path: pathlib.Path, columns: Sequence[str]) -> Iterator[Row]:
    """Reads the columns of a .tsv (nothing quoted, as GLUE), .csv or .jsonl file, or its lines.

    Args:
      path: The file; any other suffix is plain text, one text a line.
      columns: One, or two of pairs.

    Yields:
      The cells of each row.

    Raises:
      SystemExit: If a column is missing, or plain text is given for pairs.
    """
    with path.open(encoding="utf-8-sig", newline="") as file:
        if path.suffix == ".jsonl":
            table: Any = _json_rows(path, file)
        elif path.suffix == ".csv":
            table = csv.DictReader(file, strict=True)
        elif path.suffix == ".tsv":
            table = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        elif len(columns) == 1:
            yield from ((line.strip(),) for line in file if line.strip())
            return
        else:
            sys.exit(f"{path}: expected a table with {', '.join(columns)}, received plain text.")
        try:
            for number, row in enumerate(table, start=1):
                if any(row.get(column) is None for column in columns):
                    sys.exit(
                        f"{path}, row {number}: expected {', '.join(columns)}, received "
                        f"{', '.join(map(str, row))}."
                    )
                yield tuple(str(row[column]) for column in columns)
        except (csv.Error, UnicodeDecodeError) as fault:  # of .csv and .tsv
            sys.exit(f"{path}: expected a table, received {fault}.")


def read_texts(path: pathlib.Path, columns: Sequence[str]) -> Iterator[Row]:
    """Reads the texts of a table or its lines, of pairs each text by itself."""
    for row in read_rows(path, columns if path.suffix in _TABLES else columns[:1]):
        yield from ((cell,) for cell in row)


def read_sentences(path: pathlib.Path) -> Iterator[Row]:
    """Reads the words of a CoNLL file: the first column of its lines, sentences between empty ones.

    Yields:
      A tuple of words, as the only cell.
    """
    words: list[str] = []
    for line in [*path.read_text(encoding="utf-8-sig").split("\n"), ""]:
        cells = [c for c in (line.split("\t") if "\t" in line else line.split(" ")) if c.strip()]
        if cells and cells[0].strip() != "-DOCSTART-":
            words.append(cells[0].strip())
        elif words:
            yield (tuple(words),)
            words = []


def _json_rows(path: pathlib.Path, file: Iterable[str]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(file, start=1):
        if line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as fault:
                sys.exit(f"{path}, line {number}: expected a JSON object, received {fault}.")
            if not isinstance(row, dict):
                sys.exit(f"{path}, line {number}: expected a JSON object, received {line.strip()}.")
            yield row
