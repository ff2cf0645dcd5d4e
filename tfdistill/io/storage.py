"""Files of object stores and clusters: addresses such as s3://bucket/x, through fsspec.

`located` opens an address, and the rest works on what it returns as on a `pathlib.Path`, which a
path of this machine becomes. `files.atomic_write` writes both. A mere text with an address in it
that reaches a function which writes is refused there: what takes addresses opens them on purpose.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pathlib
import re
import shutil
import uuid
from collections.abc import Iterator
from typing import Any, TypeGuard

from tfdistill import errors
from tfdistill.io import safe_paths

Path = safe_paths.Path
_ADDRESS = re.compile(r"(?P<protocol>[A-Za-z][A-Za-z0-9+.-]*)://")
# What pip installs for them; `memory` is a store inside the process.
_PACKAGES = {
    "s3": "'tfdistill[remote]'",
    "gs": "'tfdistill[remote]' gcsfs",
    "hdfs": "'tfdistill[remote]' pyarrow",
    "memory": "'tfdistill[remote]'",
}
_OBJECT_STORES = ("s3", "gs", "memory")  # an object appears there when all of it has arrived


def is_address(path: Any) -> bool:
    """Whether a text or an opened path is an address, of whatever protocol."""
    return _ADDRESS.match(str(path)) is not None


def is_remote(path: Any) -> TypeGuard[Any]:
    """Whether `located` opened this as an address."""
    return not isinstance(path, str | os.PathLike)


def located(path: Any) -> pathlib.Path:
    """Opens an address as a `UPath`; anything else becomes a `pathlib.Path`.

    A `UPath` works like one on the other storage. What was listed there is not remembered: other
    machines write, too. What this function returned is returned as it is.
    """
    if is_remote(path):
        return path
    match = _ADDRESS.match(os.fspath(path))
    if match is None:
        return pathlib.Path(path)
    protocol = match["protocol"].lower()
    if protocol not in _PACKAGES:
        raise errors.ConfigError(
            f"{path}",
            "a path on this machine, or an address that begins with s3://, gs:// or hdfs://",
            f"{protocol}://",
        )
    try:
        opened: Any = importlib.import_module("upath").UPath(path, use_listings_cache=False)
        _ = opened.fs
    except ImportError as error:
        raise errors.EnvironmentFault(
            f"{path}",
            f"a file system for {protocol}:// to be installed",
            f"{error}",
            f"pip install {_PACKAGES[protocol]}",
        ) from error
    except (OSError, ValueError) as error:
        raise _unreachable(path, error) from error
    return opened


def check(path: Path) -> None:
    """Refuses an address that cannot be read, before any long work."""
    with reaching(path):
        located(path).exists()


def absolute(path: Any) -> str:
    """The text by which another process finds a path: an address, or an absolute path."""
    return str(path) if is_address(path) else os.path.abspath(path)


def upload(source: pathlib.Path, target: Any) -> None:
    """Puts a file to an opened address, whole or not at all.

    Object stores show an object once all of it has arrived; elsewhere it is written under another
    name and renamed.
    """
    with reaching(target):
        if target.protocol in _OBJECT_STORES:
            target.fs.put_file(str(source), target.path)
            return
        name = f".{target.stem}.tfdistill-{uuid.uuid4().hex[:8]}{target.suffix}"
        temporary = target.with_name(name)
        try:
            target.fs.makedirs(target.parent.path, exist_ok=True)
            target.fs.put_file(str(source), temporary.path)
            target.fs.mv(temporary.path, target.path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise


def download(source: Any, target: pathlib.Path) -> None:
    """Copies an opened address to a file of this machine; FileNotFoundError if there is none."""
    with reaching(source):
        try:
            source.fs.get_file(source.path, str(target))
        except FileNotFoundError as error:
            absent = error
        else:
            return
    raise absent


def remove_folder(path: Any) -> None:
    """Removes a folder with all that is in it; one that is not there is no fault."""
    if not is_remote(path):
        shutil.rmtree(path, ignore_errors=True)
    elif path.is_dir():
        path.fs.rm(path.path, recursive=True)


def sizes(folder: Any) -> dict[str, int]:
    """The bytes of each file directly in an opened folder, in one request; empty without one."""
    try:
        entries = folder.fs.ls(folder.path, detail=True)
    except FileNotFoundError:
        return {}
    return {
        pathlib.PurePosixPath(entry["name"]).name: entry["size"]
        for entry in entries
        if entry["type"] == "file"
    }


@contextlib.contextmanager
def reaching(path: Any) -> Iterator[None]:
    """Turns what the libraries of a storage raise inside the block into one EnvironmentFault."""
    try:
        yield
    except errors.TfdistillError:
        raise
    except Exception as error:
        if not is_address(path):
            raise
        raise _unreachable(path, error) from error


def _unreachable(path: Any, error: Exception) -> errors.EnvironmentFault:
    lines = str(error).strip().splitlines()
    return errors.EnvironmentFault(
        f"{path}",
        "storage that answers",
        f"{type(error).__name__}: {lines[0] if lines else ''}",
        "Check the address and the credentials of the environment.",
    )
