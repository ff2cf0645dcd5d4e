"""What reaches the terminal: text, never the control characters that a name from a file may hold.

An escape sequence in the name of a model could rename the window, hide lines or type keys. So the
program's output streams write the number of a control character, as JSON does.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import re
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from tfdistill import errors

# C0 without line feed and tab, DEL, C1, and what reorders text or breaks lines in Unicode.
_CONTROL = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_ALL = re.compile(f"[{_CONTROL}]")
# A progress bar returns to the start of its line, moves up to it, and clears it.
_BUT_BARS = re.compile(rf"\x1b\[[AK]|(?!\r)[{_CONTROL}]")
_PACKAGES = ("tfdistill", "export")  # whose messages are printed


def plain(text: str) -> str:
    """Writes control characters, but for line feed and tab, as JSON does."""
    return _ALL.sub(_escaped, text)


@contextlib.contextmanager
def plain_streams() -> Iterator[None]:
    """Lets stdout and stderr write plain text while the block runs.

    What their encoding cannot hold, as in the locale C, is escaped, too.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    out, err = PlainStream(sys.stdout, bars=False), PlainStream(sys.stderr, bars=True)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            yield
        finally:
            out.flush()


class PlainStream:
    """A text stream that writes control characters as text, and nothing where nobody reads it.

    A reader that has seen enough, as ``head`` has, ends no command: what it began is finished, and
    the exit code is that of its result. `is_read` says whether no reader has closed it yet.
    """

    def __init__(self, stream: TextIO, *, bars: bool) -> None:
        self._stream, self._bars = stream, bars
        self.is_read = True

    def write(self, text: str) -> int:
        """Writes text; returns its length."""
        with self._open_or_discarded():
            if self._bars:
                self._stream.write(_BUT_BARS.sub(_escaped_but_bars, text))
            else:
                self._stream.write(plain(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Writes several texts."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Passes on what the stream holds back."""
        with self._open_or_discarded():
            self._stream.flush()

    @contextlib.contextmanager
    def _open_or_discarded(self) -> Iterator[None]:
        """Sends what follows nowhere if the reader has closed the stream, or it cannot be written.

        Otherwise Python would try again at its end, and end with an exit code of its own.
        """
        try:
            yield
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
            self.is_read = False
            if isinstance(error, BrokenPipeError):
                return
            name = "messages" if self._bars else "standard output"
            raise OSError(error.errno, error.strerror, name) from error

    def __getattr__(self, name: str) -> Any:
        """Everything else is the stream's own."""
        return getattr(self._stream, name)


def is_read() -> bool:
    """Whether somebody may still read what the command prints."""
    return not isinstance(sys.stdout, PlainStream) or sys.stdout.is_read


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _escaped_but_bars(match: re.Match[str]) -> str:
    return match[0] if len(match[0]) > 1 else _escaped(match)


class _Messages(logging.Handler):
    """Prints the bare messages of tfdistill on stderr, and the errors of other libraries."""

    def __init__(self, *, verbose: bool) -> None:
        super().__init__()
        self._verbose = verbose

    def emit(self, record: logging.LogRecord) -> None:
        """Prints a line on what is `sys.stderr` now: --quiet exchanges it."""
        ours = record.name.partition(".")[0] in _PACKAGES
        if ours or self._verbose or record.levelno >= logging.ERROR:
            mark = "WARNING: " if ours and record.levelno == logging.WARNING else ""
            text = errors.bounded(record.getMessage())
            print(f"{mark}{text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def messages(*, verbose: bool = False) -> Iterator[None]:
    """Prints what modules log while the block runs; inside another such block nothing changes."""
    root, handler = logging.getLogger(), _Messages(verbose=verbose)
    if any(isinstance(other, _Messages) for other in root.handlers):
        yield
        return
    loggers = [logging.getLogger(name) for name in _PACKAGES]
    levels = [logger.level for logger in loggers]
    root.addHandler(handler)
    try:
        for logger in loggers:
            logger.setLevel(logging.INFO)
        yield
    finally:
        root.removeHandler(handler)
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
