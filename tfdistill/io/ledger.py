"""What tfdistill records in its folders: kind and files, SHA-256, what the work began with."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from tfdistill import errors
from tfdistill.io import contents, files, locks, reading, storage

MARKER = ".tfdistill.json"
FORMAT = ("tfdistill folder", 1)  # and its version
SAVED_MODEL = "Hugging Face folder"  # the kind of a folder with weights
NOT_LISTED = (MARKER, locks.LOCK, ".report.html.lock")
CHECKSUMS = ".tfdistill-sha256.json"
# Path -> state and content of the markers that this process wrote; each is a new file on the disk.
_WRITTEN: dict[str, tuple[tuple[int, ...], tuple[str, set[str]]]] = {}
_REMEDY = (
    "Restore the file from a copy; or delete {folder} and the result of its step, and continue the "
    "run with --resume, which makes it again."
)
_LONG_VALUES = 80  # letters of two values in a message


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
    plain = isinstance(kind, str) and isinstance(listed, list) and all(map(_is_plain, listed))
    return (kind, set(listed)) if plain and version == FORMAT else None


def _is_plain(name: object) -> bool:
    parts = name.removesuffix("/").split("/") if isinstance(name, str) else [""]
    return not any(part in ("", ".", "..") or "\0" in part for part in parts)


def write_marker(folder: pathlib.Path, kind: str, listed: set[str]) -> None:
    """Writes the marker of a folder of this kind, with the names that it lists."""
    version = dict(zip(("format", "format_version"), FORMAT, strict=True))
    content = {**version, "kind": kind, "files": sorted(listed)}
    files.atomic_write_json(folder / MARKER, content)
    path = os.path.abspath(folder / MARKER)
    _WRITTEN[path] = contents.state_of(path), (kind, set(listed))


def entries(folder: files.Path) -> set[str]:
    """All files and folders below a folder, these with "/" at the end; links are not followed."""
    root = pathlib.Path(folder)
    names = set()
    for parent, folders, held in os.walk(root):
        folders[:] = [name for name in folders if not files.is_unfinished(name)]
        for name in (*folders, *(name for name in held if not files.is_unfinished(name))):
            names.add(name_below(root, pathlib.Path(parent, name)))
    return names - set(NOT_LISTED)


def name_below(root: pathlib.Path, path: pathlib.Path) -> str:
    """The name of a path in the list of a folder around it."""
    is_folder = path.is_dir() and not path.is_symlink()
    return path.relative_to(root).as_posix() + ("/" if is_folder else "")


def digest_of(path: Any, suffixes: tuple[str, ...] = ("",)) -> str:
    """The SHA-256 of a file, or of the names and contents of a folder's files; "" of neither.

    Of a folder only files count whose name ends in one of `suffixes`, and none with a leading dot;
    nor do those of a folder in it that tfdistill wrote, such as a run with this model, unless that
    is a saved model.
    """
    if storage.is_remote(path):
        names = sorted(path.iterdir(), key=str) if path.is_dir() else []
        shown = [(n.name, n) for n in names if n.name.endswith(suffixes) and n.is_file()]
        is_file = not shown
    else:
        path = pathlib.Path(path).expanduser()
        is_file, names = path.is_file(), [n for n in _files_in(path) if n.name[0] != "."]
        shown = [(n.relative_to(path).as_posix(), n) for n in names if n.name.endswith(suffixes)]
    if is_file:
        return files.sha256_of(path)
    parts = [(name, files.sha256_of(file)) for name, file in shown]
    return hashlib.sha256(repr(parts).encode()).hexdigest() if parts else ""


def _files_in(folder: pathlib.Path) -> list[pathlib.Path]:
    """The files of a folder and of the folders in it, but for ours without a model, sorted."""
    paths: list[pathlib.Path] = []
    for parent, folders, names in os.walk(folder):
        markers = {name: read_marker(pathlib.Path(parent, name)) for name in folders}
        folders[:] = [n for n, marker in markers.items() if not marker or marker[0] == SAVED_MODEL]
        paths += [pathlib.Path(parent, name) for name in names]
    return sorted(path for path in paths if path.is_file())


def write_checksums(folder: files.Path, *, but: tuple[str, ...] = ()) -> None:
    """Records the files of a folder, in it, but for those named in `but` and with a leading dot."""
    root = pathlib.Path(folder)
    names = sorted(
        path.relative_to(root).as_posix()
        for path in root.rglob("*")
        if path.is_file() and not path.name.startswith(".") and path.name not in but
    )
    record = {name: files.sha256_of(root / name) for name in names}
    files.atomic_write_json(root / CHECKSUMS, {"format_version": 1, "files": record})


def recorded(folder: files.Path) -> dict[str, str]:
    """Name -> SHA-256 of the files in the record of a folder; {} without one."""
    path = pathlib.Path(folder) / CHECKSUMS
    if not path.is_file():
        return {}
    content = reading.read_json_object(path, error=errors.WeightsError)
    record = content.get("files")
    if content.get("format_version") != 1 or not isinstance(record, dict):
        remedy = _REMEDY.format(folder=folder)
        raise errors.WeightsError(f"{path}", "a record of files", "other content", remedy)
    return record


def check_folder(folder: files.Path) -> None:
    """Refuses a folder, or a part of one, with a file that is not as the folder's record says.

    Folders without a record pass.
    """
    path = pathlib.Path(folder)
    for root, prefix in ((path, ""), (path.parent, f"{path.name}/")):
        remedy, record = _REMEDY.format(folder=root), recorded(root)
        for name in sorted(name for name in record if name.startswith(prefix)):
            file = root / name
            received = files.sha256_of(file) if file.is_file() else "no such file"
            if received != record[name]:
                expected = f"the file that was saved, sha256 {str(record[name])[:12]}"
                raise errors.WeightsError(f"{file}", expected, received[:12], remedy)


def check_same(
    before: Mapping[str, Any],
    now: Mapping[str, Any],
    expected: str,
    remedy: str,
    *,
    what: str = "--resume",
) -> None:
    """Refuses to continue `expected`, which began with other settings, as JSON has them.

    The message names what differs, with values that are short.
    """
    changed = _differences(before, json.loads(json.dumps(now)))
    if changed:
        raise errors.ConfigError(what, expected, f"others: {', '.join(changed)}", remedy)


def check_same_file(path: files.Path, now: Mapping[str, Any], expected: str, remedy: str) -> None:
    """Does `check_same` with the JSON of an earlier session; an absent file is no beginning."""
    if os.path.isfile(path):
        before = reading.read_json_object(path, error=errors.ConfigError)
        check_same(before, now, expected, remedy)


def _differences(before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> list[str]:
    names = []
    for key in dict.fromkeys([*before, *now]):
        left, right = before.get(key), now.get(key)
        if isinstance(left, dict) and isinstance(right, dict):
            names += _differences(left, right, f"{prefix}{key}.")
        elif left != right:
            values = f" {right!r} instead of {left!r}"
            names.append(f"{prefix}{key}{values if len(values) < _LONG_VALUES else ''}")
    return names
