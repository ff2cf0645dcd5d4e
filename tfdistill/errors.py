"""The error tree of tfdistill.

Every error that a user can cause is a `TfdistillError`, and also the built-in exception that a
caller would expect (`ValueError`, `FileExistsError`, ...). Messages follow one form, written by
`explain`: ``what: expected E, received R. Remedy.``
"""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable


class TfdistillError(Exception):
    """Base class of every error that tfdistill raises on purpose."""


class ConfigError(TfdistillError, ValueError):
    """A recipe, preset or option is not valid."""


class ShapeError(TfdistillError, ValueError):
    """Tensors or architectures do not fit together."""


class DataError(TfdistillError, ValueError):
    """A data file is missing, malformed or does not fit its task."""


class VocabularyError(DataError):
    """A vocabulary is malformed, or two vocabularies differ."""


class WeightsError(TfdistillError, ValueError):
    """A checkpoint is missing, corrupt or does not fit the model."""


class TeacherError(TfdistillError, ValueError):
    """A teacher is not fit to teach, for example one that answers near chance."""


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


class EnvironmentFault(TfdistillError, RuntimeError):
    """Something that tfdistill needs is not installed or does not work on this machine."""


def explain(what: str, expected: object, received: object, remedy: str = "") -> str:
    """Writes an error message in the form ``what: expected E, received R. Remedy.``.

    Args:
      what: The thing that is wrong, as the user named it ("student vocabulary").
      expected: What would have been right.
      received: What came instead.
      remedy: What to do about it, a sentence.

    Returns:
      The message, one line unless an argument has several.
    """
    message = f"{what}: expected {expected}, received {received}."
    return f"{message} {remedy}" if remedy else message


_OS_REMEDIES = {
    errno.ENOENT: "Check the path.",
    errno.EEXIST: "Something stands there already: choose another place.",
    errno.EISDIR: "A folder stands where a file should be.",
    errno.ENOTDIR: "A file stands where a folder should be.",
    errno.EACCES: "Change its permissions, or choose another place.",
    errno.EPERM: "Change its permissions, or choose another place.",
    errno.EROFS: "Nothing can be written there: choose another place.",
    errno.ENOSPC: "Make room there, or choose another place; what is finished is kept.",
    errno.EDQUOT: "Make room there, or choose another place; what is finished is kept.",
    errno.EFBIG: "Raise the limit of file sizes (`ulimit -f`), or choose another place.",
    errno.ENAMETOOLONG: "Choose a shorter name.",
}


def explain_os_error(error: OSError) -> str:
    """Says what the system refused, about which file, and what to do about it."""
    if error.errno is None or error.strerror is None:
        return str(error)
    where = f"{error.filename}: " if error.filename is not None else ""
    remedy = _OS_REMEDIES.get(error.errno)
    reason = error.strerror[0].lower() + error.strerror[1:]
    return f"{where}{reason}." + (f" {remedy}" if remedy else "")


def nearest(name: object, choices: Iterable[str]) -> str:
    """Suggests the choice that a misspelt name probably meant.

    Args:
      name: What the user wrote.
      choices: The valid names.

    Returns:
      "Did you mean 'x'?" when one is close, otherwise "Valid choices: a, b, c."
    """
    valid = sorted(choices)
    close = difflib.get_close_matches(str(name), valid, n=1)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"Valid choices: {', '.join(valid)}."
