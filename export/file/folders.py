"""Folders that an export writes beside the TFLite file: never in place of something else."""

from __future__ import annotations

import pathlib

from tfdistill import errors, files


def check_free(folder: files.Path, *, mark: str, overwrite: bool) -> None:
    """Refuses to replace a folder unless told to, and one of another kind in any case.

    Args:
      folder: The folder that is to be written.
      mark: A file that every folder of this kind holds.
      overwrite: Whether a folder of this kind may be replaced.

    Raises:
      OutputExistsError: If something is there that may not be replaced.
    """
    place = pathlib.Path(folder)
    if place.is_dir() and not any(place.iterdir()):
        return
    if place.exists() and not (place / mark).is_file():
        raise errors.OutputExistsError(
            f"{place}",
            f"nothing, or a folder with {mark}",
            "something else",
            "It is never replaced: choose another place.",
        )
    if place.exists() and not overwrite:
        raise errors.OutputExistsError(
            f"{place}", "nothing", "one", "Choose another place, or overwrite it."
        )


def check_file_free(path: files.Path, *, suffix: str, overwrite: bool) -> None:
    """Refuses to replace a file unless told to, and a name that does not say what is in it.

    Raises:
      ConfigError: If the name does not end in `suffix`, or a folder is there.
      OutputExistsError: If a file is there and `overwrite` is not given.
    """
    place = pathlib.Path(path)
    if place.suffix != suffix or place.is_dir():
        raise errors.ConfigError("path", f"a file that ends in {suffix}", place)
    if place.exists() and not overwrite:
        raise errors.OutputExistsError(
            f"{place}", "nothing", "one", "Choose another place, or overwrite it."
        )
