"""Files that are whole or absent: atomic writes, checksums, paths that stay in a folder."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

from tfdistill import errors

Path = str | os.PathLike[str]
LOCK = ".lock"
_LONGEST_NAME = 100  # bytes: a file name has at most 255, and others are made from it


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[pathlib.Path]:
    """Yields a temporary path next to `path` and renames it over `path` when the block succeeds.

    Whatever happens inside the block (an exception, a full disk, a kill), `path` holds either its
    old content or the whole new one.

    Args:
      path: The file to write.

    Yields:
      The temporary path (same folder, same suffix) to write to.
    """
    target = pathlib.Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(
        prefix=f".{target.stem}-", suffix=target.suffix, dir=target.parent
    )
    os.close(handle)
    temporary = pathlib.Path(name)
    try:
        yield temporary
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(path: Path) -> Iterator[pathlib.Path]:
    """Yields a temporary folder next to `path` that replaces it when the block succeeds.

    A folder cannot be replaced in one system call, so an existing one is moved aside first and
    comes back if the second rename fails, or Ctrl-C comes between the two.

    Args:
      path: The folder to write.

    Yields:
      The temporary folder to fill.
    """
    target = pathlib.Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = pathlib.Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    aside = temporary.with_name(temporary.name + "-old")
    try:
        yield temporary
        temporary.chmod(0o755)
        try:
            if target.exists():
                os.replace(target, aside)
            os.replace(temporary, target)
        except BaseException:
            if aside.exists() and not target.exists():
                os.replace(aside, target)
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if target.exists():  # the old folder is removed where a new one replaced it
            shutil.rmtree(aside, ignore_errors=True)


@contextlib.contextmanager
def exclusive_lock(folder: Path) -> Iterator[None]:
    """Locks a folder for this process while the block runs; makes it where it is absent.

    The lock is a file in it, `LOCK`, and ends with the process, however that ends. A block that
    fails and leaves nothing else behind leaves no folder.

    Args:
      folder: The folder.

    Raises:
      OutputExistsError: If another process holds the lock, or a link in the folder leads out of it.
    """
    path = pathlib.Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    check_links(path)
    with open(path / LOCK, "a", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise errors.OutputExistsError(
                f"{path}",
                "no other process in it",
                "one that is still running",
                "Wait for it, or choose another --out.",
            ) from error
        try:
            yield
        except BaseException:
            if path.is_dir() and {child.name for child in path.iterdir()} == {LOCK}:
                shutil.rmtree(path)
            raise


def atomic_write_text(path: Path, text: str) -> None:
    """Writes UTF-8 text so that the file is either whole or unchanged."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def atomic_write_json(path: Path, value: Any) -> None:
    """Writes JSON (sorted as given, indented, no NaN) so that the file is whole or unchanged."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    atomic_write_text(path, text + "\n")


def sha256_of(path: Path) -> str:
    """Returns the SHA-256 of a file as 64 lower-case hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def inside(folder: Path, name: str) -> pathlib.Path:
    """Resolves a file name that came from outside, and refuses one that leaves its folder.

    Args:
      folder: The folder that must hold the file.
      name: A relative path, for example from a manifest.

    Returns:
      The resolved path.

    Raises:
      ManifestError: If `name` is absolute or leads out of `folder`, also through a link.
    """
    root = pathlib.Path(folder).resolve()
    try:
        path = (root / name).resolve()
        held = path != root and path.is_relative_to(root)
    except (ValueError, RuntimeError, OSError):  # a null character, a ring of links
        path, held = root, False
    if pathlib.PurePath(name).is_absolute() or not held:
        raise errors.ManifestError("file name", f"a path inside {root.name}/", repr(name))
    return path


def is_plain_name(name: str) -> bool:
    """Whether a name from outside can name a file or a folder: one part of a path, printable.

    Blanks and letters of any alphabet are plain; separators, control characters, a leading dot or
    dash, and more than 100 bytes are not.
    """
    return (
        0 < len(name.encode(errors="replace")) <= _LONGEST_NAME
        and name.isprintable()
        and name == name.strip()
        and not name.startswith((".", "-"))
        and not set(name) & set("/\\")
    )


def check_links(folder: Path) -> None:
    """Refuses to work in a folder of which a link leads elsewhere: writing would follow it.

    Raises:
      OutputExistsError: If there is one, at any depth.
    """
    root = pathlib.Path(folder).resolve()
    for parent, folders, names in os.walk(root):
        for path in (pathlib.Path(parent, name) for name in (*folders, *names)):
            if path.is_symlink():
                held = str(path.relative_to(root))
                try:
                    inside(root, held)
                except errors.ManifestError:
                    raise errors.OutputExistsError(
                        f"{folder}",
                        "links that stay in it",
                        f"{held}, which leads to {os.readlink(path)}",
                        "Put the files themselves there, or choose another folder.",
                    ) from None
