"""The marker of a folder of ours: its kind, and the files in it that tfdistill wrote."""

from __future__ import annotations

import os
import pathlib

from tfdistill import errors
from tfdistill.io import contents, files, locks, reading

MARKER = ".tfdistill.json"
FORMAT = "tfdistill folder"
FORMAT_VERSION = 1
SAVED_MODEL = "Hugging Face folder"  # the kind of a folder with weights
# Path -> state and content of the markers that this process wrote; each is a new file on the disk.
_WRITTEN: dict[str, tuple[tuple[int, ...], tuple[str, set[str]]]] = {}
NOT_LISTED = (MARKER, locks.LOCK, ".report.html.lock")


def read_marker(folder: files.Path) -> tuple[str, set[str]] | None:
    """The kind of a folder of ours and the names in its list; None without a valid marker."""
    path = pathlib.Path(folder) / MARKER
    if path.is_symlink() or not path.is_file():
        return None
    state, content = _WRITTEN.get(os.path.abspath(path), (None, None))
    if state == contents.state_of(path):
        return content
    try:
        content = reading.read_json_object(path)
        version = (content["format"], content["format_version"])
        kind, listed = content["kind"], content["files"]
    except (errors.TfdistillError, OSError, ValueError, KeyError):
        return None
    if version != (FORMAT, FORMAT_VERSION) or not isinstance(kind, str):
        return None
    if not isinstance(listed, list) or not all(map(_is_plain, listed)):
        return None
    return kind, set(listed)


def entries(folder: files.Path) -> set[str]:
    """All files and folders below a folder, these with "/" at the end; links are not followed."""
    root = pathlib.Path(folder)
    names = set()
    for parent, folders, held in os.walk(root):
        folders[:] = [name for name in folders if not files.is_unfinished(name)]
        for name in (*folders, *filter(lambda name: not files.is_unfinished(name), held)):
            path = pathlib.Path(parent, name)
            names.add(
                relative_name(path.relative_to(root), name in folders and not path.is_symlink())
            )
    return names - set(NOT_LISTED)


def relative_name(relative: pathlib.Path, is_folder: bool) -> str:
    """The name in the list of a path below the folder."""
    return relative.as_posix() + ("/" if is_folder else "")


def _is_plain(name: object) -> bool:
    if not isinstance(name, str):
        return False
    parts = name.removesuffix("/").split("/")
    return not any(part in ("", ".", "..") or "\0" in part for part in parts)


def write_marker(folder: pathlib.Path, kind: str, listed: set[str]) -> None:
    """Writes the marker of a folder of this kind, with the names that it lists."""
    files.atomic_write_json(
        folder / MARKER,
        {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "kind": kind,
            "files": sorted(listed),
        },
    )
    path = os.path.abspath(folder / MARKER)
    _WRITTEN[path] = contents.state_of(path), (kind, set(listed))
