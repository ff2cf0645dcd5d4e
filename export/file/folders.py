"""Outputs of an export: never in place of something else, and failures to write in one form."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator

from tfdistill import errors, files


def check_free(folder: files.Path, *, mark: str, overwrite: bool) -> None:
    """Refuses to replace a folder unless `overwrite`, and one of another kind in any case.

    Args:
      folder: The folder that is to be written.
      mark: A file that every folder of this kind holds.
      overwrite: Whether a folder of this kind may be replaced.

    Raises:
      OutputExistsError: If the folder may not be replaced.
    """
    path = pathlib.Path(folder)
    if path.is_dir() and not any(path.iterdir()):
        return
    if path.exists() and not (path / mark).is_file():
        raise errors.OutputExistsError(
            path,
            f"nothing, or a folder with {mark}",
            "something else",
            "It is never replaced: choose another path.",
        )
    _check_absent(path, overwrite)


def check_file_free(path: files.Path, *, suffix: str, overwrite: bool) -> None:
    """Refuses to replace a file unless `overwrite`, and a name without the suffix of its kind.

    Raises:
      ConfigError: If the name does not end in `suffix`, or is that of a folder.
      OutputExistsError: If the file exists and `overwrite` is not given.
    """
    path = pathlib.Path(path)
    if path.suffix != suffix or path.is_dir():
        raise errors.ConfigError("path", f"a file that ends in {suffix}", path)
    _check_absent(path, overwrite)


def _check_absent(path: pathlib.Path, overwrite: bool) -> None:
    if path.exists() and not overwrite:
        raise errors.OutputExistsError(
            path, "nothing", "one", "Choose another path, or overwrite it."
        )


@contextlib.contextmanager
def writing(what: str, *also: type[Exception]) -> Iterator[None]:
    """Reports a failure to write as an ExportError.

    Args:
      what: What is written; nothing of it may be left when the block fails.
      *also: Exceptions that mean the same as OSError.

    Raises:
      ExportError: If the block raises OSError or one of `also`.
    """
    try:
        yield
    except (OSError, *also) as error:
        raise errors.ExportError(
            what,
            "space and permission to write it",
            getattr(error, "strerror", None) or error,
            "Nothing was replaced.",
        ) from error
