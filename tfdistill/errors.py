"""The error tree of tfdistill.

Every error that a user can cause is a `TfdistillError`, and also the built-in exception that a
caller would expect (`ValueError`, `FileExistsError`, ...). Messages follow one form:
``what: expected E, received R. Remedy.``
"""

from __future__ import annotations

import difflib
import errno
import os
from collections.abc import Iterable
from typing import Any, overload

MAX_LINE = 1_000  # characters of a line of a message
MAX_LINES = 200


class TfdistillError(Exception):
    """Base class of every error that tfdistill raises on purpose.

    Args:
      what: The thing that is wrong, see `explain`; alone, the whole message.
      *parts: Expected, received and, optionally, a remedy.

    Examples:
      >>> try:
      ...     tfdistill.load_recipe("no_such_recipe")
      ... except tfdistill.TfdistillError as error:
      ...     print(type(error).__name__)
      ConfigError
    """

    @overload
    def __init__(self, message: object = "", /) -> None: ...

    @overload
    def __init__(
        self, what: object, expected: object, received: object, remedy: object = "", /
    ) -> None: ...

    def __init__(self, what: object = "", *parts: Any) -> None:
        message = explain(what, *parts) if parts else what
        # One argument for the base class: pickle makes the error again from it.
        super().__init__(bounded(message) if isinstance(message, str) else message)


class ConfigError(TfdistillError, ValueError):
    """A recipe, preset or option is not valid."""


class WrongTypeError(ConfigError, TypeError):
    """An argument has another type than the function takes."""


class ShapeError(TfdistillError, ValueError):
    """Tensors or architectures do not fit together."""


class DataError(TfdistillError, ValueError):
    """A data file is missing, malformed or does not fit its task."""


class VocabularyError(DataError):
    """A vocabulary is malformed, or two vocabularies differ."""


class WeightsError(TfdistillError, ValueError):
    """A checkpoint is missing, corrupt or does not fit the model."""


class AbsentSplitError(DataError):
    """A task has no files of a split."""


class TeacherError(TfdistillError, ValueError):
    """A teacher is not fit to teach, for example one that answers near chance."""


class StudentError(TfdistillError, ValueError):
    """A student is not fit to ship, for example one that answers near chance."""


class NonFiniteLossError(TfdistillError, ArithmeticError):
    """A loss became NaN or infinite; the last good checkpoint is kept."""


class OutputExistsError(TfdistillError, FileExistsError):
    """An output is already there, and neither --overwrite nor --resume was given."""


class ExportError(TfdistillError, RuntimeError):
    """A model could not be exported."""


class ParityError(ExportError):
    """An exported file does not answer like the model; it was not written."""


class ManifestError(TfdistillError, ValueError):
    """A model.json is missing, malformed or points outside its folder."""


class BenchmarkError(TfdistillError, RuntimeError):
    """A measurement could not be taken."""


class DeviceLostError(BenchmarkError):
    """A device went away while it was measured, or does not answer any more."""


class ModelFileError(ExportError, BenchmarkError):
    """A .tflite file is missing, is no such file, or is damaged."""


class EnvironmentFault(TfdistillError, RuntimeError):
    """Something that tfdistill needs is not installed or does not work on this machine."""


def explain(what: object, expected: object, received: object, remedy: object = "") -> str:
    """Writes an error message in the form ``what: expected E, received R. Remedy.``.

    `what` is wrong, as the user named it ("student vocabulary"); the remedy is a sentence.
    """
    message = f"{what}: expected {expected}, received {received}."
    return f"{message} {remedy}" if remedy else message


def check_types(**arguments: tuple[object, type | tuple[type, ...]]) -> None:
    """Refuses arguments of other types: ``check_types(student=(student, keras.Model))``.

    Raises:
      WrongTypeError: With the first argument that is none of its types.
    """
    for name, (value, expected) in arguments.items():
        if not isinstance(value, expected):
            kinds = expected if isinstance(expected, tuple) else (expected,)
            shown = " or ".join(map(_type_name, kinds))
            received = shortened(f"{value!r}, a {_type_name(type(value))}")
            raise WrongTypeError(name, f"a {shown}", received)


def _type_name(kind: type) -> str:
    name = kind.__qualname__
    return name if kind.__module__ == "builtins" else f"{kind.__module__.partition('.')[0]} {name}"


def bounded(message: str) -> str:
    """Shortens a message that quotes megabytes of a file, so that a person can read it.

    It has at most `MAX_LINES` lines, and of a line longer than `MAX_LINE` characters the beginning
    and the end, which holds the remedy.
    """
    lines = message.split("\n", MAX_LINES)
    if len(lines) > MAX_LINES:
        lines[-1] = f"... and {lines[-1].count(chr(10)) + 1} more lines."
    head, tail = MAX_LINE * 3 // 5, MAX_LINE // 3
    return "\n".join(
        f"{line[:head]} [... {len(line) - head - tail} characters ...] {line[-tail:]}"
        if len(line) > MAX_LINE
        else line
        for line in lines
    )


_OS_REMEDIES = {
    errno.ENOENT: "Check the path.",
    errno.EEXIST: "The path already exists: choose another one.",
    errno.EISDIR: "It is a folder: give the path of a file.",
    errno.ENOTDIR: "Part of the path is a file: choose a folder.",
    errno.EACCES: "Change its permissions, or choose another path.",
    errno.EPERM: "Change its permissions, or choose another path.",
    errno.EROFS: "The file system is read-only: choose another path.",
    errno.ENOSPC: "Free disk space, or choose another path; finished files are kept.",
    errno.EDQUOT: "Free disk space, or choose another path; finished files are kept.",
    errno.EFBIG: "Raise the file size limit (`ulimit -f`), or choose another path.",
    errno.ENAMETOOLONG: "Choose a shorter name.",
}


# Of the system, where something cannot be written.
FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
WRITE_FAULTS = (*FULL_DISK, errno.EROFS, errno.EACCES, errno.EIO)


def errno_of(error: BaseException) -> int | None:
    """The error of the system inside an exception of a library that writes in C++ or Rust.

    None where the message names no error about space or permission.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    text = str(error)
    if isinstance(error, RuntimeError) and text.startswith("Symlink loop"):  # of pathlib
        return errno.ELOOP
    return next((number for number in WRITE_FAULTS if os.strerror(number) in text), None)


def explain_os_error(error: OSError) -> str:
    """Says what the system refused, about which file, and what to do about it."""
    if error.errno is None or error.strerror is None:
        return str(error)
    where = f"{error.filename}: " if error.filename is not None else ""
    remedy = _OS_REMEDIES.get(error.errno)
    reason = error.strerror[0].lower() + error.strerror[1:]
    return f"{where}{reason}." + (f" {remedy}" if remedy else "")


def shortened(text: str, longest: int = 60) -> str:
    """A text of the data as a message shows it: of at most so many characters."""
    return text if len(text) <= longest else text[: longest - 3] + "..."


def nearest(name: object, choices: Iterable[str]) -> str:
    """Suggests what a misspelt name meant: "Did you mean 'x'?", else "Valid choices: a, b, c."."""
    valid = sorted(choices)
    close = difflib.get_close_matches(str(name), valid, n=1)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"Valid choices: {', '.join(valid)}."
