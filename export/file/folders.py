"""Outputs of an export: never in place of something else, and failures to write in one form."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator

from tfdistill import errors, files, work_folder


def check_file_free(path: files.Path, *, suffix: str, overwrite: bool) -> None:
    """Refuses to replace a file unless `overwrite`, and a name without the suffix of its kind."""
    path = pathlib.Path(path)
    if path.suffix != suffix or path.is_dir():
        raise errors.ConfigError("path", f"a file that ends in {suffix}", path)
    work_folder.check_file(path, overwrite=overwrite)


@contextlib.contextmanager
def writing(what: str, *also: type[Exception]) -> Iterator[None]:
    """Reports a failure to write `what`, OSError or one of `also`, as an ExportError.

    Nothing of it may be left when the block fails.
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
