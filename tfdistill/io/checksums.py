"""SHA-256 of files and folders, and the record of a saved model that finds a changed file."""

from __future__ import annotations

import hashlib
import os
import pathlib
from typing import Any

from tfdistill import errors
from tfdistill.io import files, marker_file, reading, storage

FILE_NAME = ".tfdistill-sha256.json"
_REMEDY = (
    "Restore the file from a copy; or delete {folder} and the result of its step, and continue the "
    "run with --resume, which makes it again."
)


def digest_of(path: Any, suffixes: tuple[str, ...] = ("",)) -> str:
    """The SHA-256 of a file, or of the names and contents of a folder's files; "" of neither.

    Of a folder only files count whose name ends in one of `suffixes`, and none with a leading dot;
    nor do those of a folder in it that tfdistill wrote, such as a run with this model, unless that
    is a saved model.
    """
    if storage.is_remote(path):
        names = sorted(path.iterdir(), key=str) if path.is_dir() else []
        names = [name for name in names if name.name.endswith(suffixes) and name.is_file()]
        parts = [(name.name, files.sha256_of(name)) for name in names]
        return _combined(parts) if names else files.sha256_of(path)
    path = pathlib.Path(path).expanduser()
    if path.is_file():
        return files.sha256_of(path)
    shown = [n for n in _files_in(path) if n.name.endswith(suffixes) and n.name[0] != "."]
    parts = [(name.relative_to(path).as_posix(), files.sha256_of(name)) for name in shown]
    return _combined(parts) if parts else ""


def _files_in(folder: pathlib.Path) -> list[pathlib.Path]:
    """The files of a folder and of the folders in it, but for ours without a model, sorted."""
    paths: list[pathlib.Path] = []
    for parent, folders, names in os.walk(folder):
        place = pathlib.Path(parent)
        markers = {name: marker_file.read_marker(place / name) for name in folders}
        ours = {name: marker[0] for name, marker in markers.items() if marker is not None}
        folders[:] = [n for n in folders if ours.get(n) in (None, marker_file.SAVED_MODEL)]
        paths += [place / name for name in names]
    return sorted(path for path in paths if path.is_file())


def _combined(parts: list[tuple[str, str]]) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def write_checksums(folder: files.Path, *, but: tuple[str, ...] = ()) -> None:
    """Records the files of a folder, in it, but for those named in `but` and with a leading dot."""
    root = pathlib.Path(folder)
    names = sorted(
        path.relative_to(root).as_posix()
        for path in root.rglob("*")
        if path.is_file() and not path.name.startswith(".") and path.name not in but
    )
    record = {name: files.sha256_of(root / name) for name in names}
    files.atomic_write_json(root / FILE_NAME, {"format_version": 1, "files": record})


def check_folder(folder: files.Path) -> None:
    """Refuses a folder, or a part of one, with a file that is not as the folder's record says.

    Folders without a record pass.
    """
    path = pathlib.Path(folder)
    for root, prefix in ((path, ""), (path.parent, f"{path.name}/")):
        if not (root / FILE_NAME).is_file():
            continue
        remedy = _REMEDY.format(folder=root)
        content = reading.read_json_object(root / FILE_NAME, error=errors.WeightsError)
        record = content.get("files")
        if content.get("format_version") != 1 or not isinstance(record, dict):
            received = "other content"
            raise errors.WeightsError(f"{root / FILE_NAME}", "a record of files", received, remedy)
        for name in sorted(name for name in record if name.startswith(prefix)):
            file = root / name
            received = files.sha256_of(file) if file.is_file() else "no such file"
            if received != record[name]:
                expected = f"the file that was saved, sha256 {str(record[name])[:12]}"
                raise errors.WeightsError(f"{file}", expected, received[:12], remedy)
