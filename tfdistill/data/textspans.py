"""Text files of any size in pieces that fit into memory, cut where text may be cut."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Literal

from tfdistill import errors
from tfdistill.io import storage
from tfdistill.tasks import tables

Path = str | os.PathLike[str]
OnInvalid = Literal["error", "replace"]

_LOOK_AHEAD = 1 << 16  # bytes in which a good cut is looked for
_BLANK_LINE = re.compile(rb"\n[ \t\r]*\n")
_LINE_END = re.compile(rb"\n")
_SPACE = re.compile(rb"[ \t]")
_CHARACTER = re.compile(rb"(?=[\x00-\x7f\xc0-\xff])")  # the first byte of a UTF-8 character
_BYTE_ORDER_MARK = "\ufeff"


@dataclasses.dataclass(frozen=True)
class TextSpan:
    """A piece of a text file."""

    path: str
    begin: int
    end: int  # the byte after its last one


def plan_spans(paths: Path | Sequence[Path], span_bytes: int) -> list[TextSpan]:
    """Cuts files into pieces of about `span_bytes`, in order, with all of their bytes.

    Each cut is the first blank line after a multiple of `span_bytes`; where none comes within 64
    KiB, the first line end, else the first space, else the end of a character. So a piece has a
    bounded size whatever the file holds, also a single line of gigabytes.
    """
    if span_bytes < 1:
        raise errors.DataError("span_bytes", "at least 1", span_bytes)
    spans = []
    for path in as_list(paths):
        size = file_size(path)
        with storage.located(path).open("rb") as file:
            begin = 0
            for wish in range(span_bytes, size + span_bytes, span_bytes):
                end = _cut(file, wish, min(_LOOK_AHEAD, span_bytes), size)
                if end > begin:
                    spans.append(TextSpan(str(path), begin, end))
                    begin = end
    return spans


def read_span(span: TextSpan, on_invalid: OnInvalid = "error") -> str:
    r"""Reads a piece as text; line breaks become "\n", a byte order mark is dropped.

    Args:
      span: The piece.
      on_invalid: "error" refuses bytes that are not UTF-8; "replace" reads U+FFFD for them, which
        the tokenizer drops.

    Returns:
      Its text.

    Raises:
      DataError: If the file is gone or shorter than it was, or holds other bytes; the message
        names the file, the line and the byte.
    """
    file_size(span.path)
    with storage.located(span.path).open("rb") as file:
        file.seek(span.begin)
        data = file.read(span.end - span.begin)
    if len(data) != span.end - span.begin:
        raise errors.DataError(
            f"text {span.path}",
            f"at least {span.end} bytes, as when the work began",
            span.begin + len(data),
            "The file changed; prepare it again.",
        )
    try:
        text = data.decode("utf-8", "strict" if on_invalid == "error" else "replace")
    except UnicodeDecodeError as error:
        offset = span.begin + error.start
        raise errors.DataError(
            f"text {span.path}, line {_line_of(span.path, offset)} (byte {offset})",
            "UTF-8",
            f"byte 0x{data[error.start]:02x}",
            "Convert the file, for example with `iconv -t utf-8`, or pass on_invalid='replace'.",
        ) from None
    if span.begin == 0:
        text = text.removeprefix(_BYTE_ORDER_MARK)
    return text.replace("\r\n", "\n")


def documents(text: str) -> Iterator[list[str]]:
    """Splits text into documents, which blank lines separate: their stripped lines."""
    lines: list[str] = []
    for line in [*text.split("\n"), ""]:
        stripped = line.strip()
        if stripped:
            lines.append(stripped)
        elif lines:
            yield lines
            lines = []


def as_list(paths: Path | Sequence[Path]) -> list[Path]:
    """Returns one path or several as a list; refuses tables, whose rows are no plain text."""
    files = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    for path in files:
        if str(path).lower().endswith(tables.SUFFIXES):
            remedy = "Write the column of its texts into a .txt file."
            raise errors.DataError(f"corpus {path}", "plain text", "a table", remedy)
    return files


def file_size(path: Path) -> int:
    """Returns the bytes of a file."""
    file = storage.located(path)
    if not file.is_file():
        raise errors.DataError(f"text {path}", "a file", f"{path}: not there")
    return file.stat().st_size


def _cut(file: BinaryIO, wish: int, look_ahead: int, size: int) -> int:
    if wish >= size:
        return size
    file.seek(wish)
    window = file.read(max(look_ahead, 4))  # a character has at most 4 bytes
    for pattern in (_BLANK_LINE, _LINE_END, _SPACE, _CHARACTER):
        if match := pattern.search(window):
            return wish + match.end()
    return min(wish + len(window), size)


def _line_of(path: Path, offset: int) -> int:
    """Counts the lines up to a byte, a block at a time."""
    line = 1
    with storage.located(path).open("rb") as file:
        while offset > 0 and (block := file.read(min(offset, 1 << 20))):
            line += block.count(b"\n")
            offset -= len(block)
    return line
