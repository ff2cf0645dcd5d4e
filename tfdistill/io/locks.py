"""Locks of folders and outputs: one process at a time writes them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
from collections.abc import Iterator

from tfdistill import errors
from tfdistill.io import files, safe_paths
from tfdistill.io.files import Path

LOCK = ".lock"
VARIABLE = "TFDISTILL_NO_LOCK"  # what --no-lock sets: for file systems without locks


def check_unlocked(folder: Path) -> None:
    """Refuses a folder that another process holds by `exclusive_lock`."""
    with open(pathlib.Path(folder) / LOCK, encoding="utf-8") as lock:
        _lock(lock.fileno(), folder)


@contextlib.contextmanager
def exclusive_lock(folder: Path) -> Iterator[None]:
    """Locks a folder for this process while the block runs; makes it where it is absent.

    The lock is a file in it, `LOCK`, and ends with the process, however that ends. A block that
    fails and leaves nothing else behind leaves no folder. An address, a folder that another process
    holds, one of which a link leads out, and a file system without locks are refused.
    """
    path = files.check_local(folder)
    path.mkdir(parents=True, exist_ok=True)
    safe_paths.check_links(path)
    with open(path / LOCK, "a", encoding="utf-8") as lock:
        _lock(lock.fileno(), path)
        try:
            yield
        except BaseException:
            held = {child.name for child in path.iterdir()} - {LOCK} if path.is_dir() else set()
            if all(name.startswith(".") and name.endswith(".lock") for name in held):
                (path / LOCK).unlink(missing_ok=True)
                with contextlib.suppress(OSError):  # gone, or the lock of an output in it
                    path.rmdir()
            raise


@contextlib.contextmanager
def output_lock(path: Path) -> Iterator[None]:
    """Locks an output, a file or a folder, for this process while the block runs.

    The lock is the file ``.NAME.lock`` next to it. It ends with the process, however that ends, and
    is removed by the next one. Folders that were made for it alone are removed, too.
    """
    target = pathlib.Path(path).absolute()
    name = target.with_name(f".{target.name}.lock")
    new_folders = [folder for folder in target.parents if not folder.exists()]
    lock = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        files.sweep_once(target.parent)
        lock = _open_lock(name, path)
    except errors.TfdistillError:
        raise
    except OSError:
        pass  # who writes there reports it
    try:
        yield
    finally:
        if lock is not None:
            name.unlink(missing_ok=True)
            os.close(lock)
        with contextlib.suppress(OSError):  # the first that holds something
            for folder in new_folders:
                folder.rmdir()


def _open_lock(name: pathlib.Path, what: Path) -> int:
    while True:
        lock = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            _lock(lock, what)
        except BaseException:
            os.close(lock)
            raise
        if files.is_open_file(lock, name):
            return lock
        os.close(lock)  # the process before us has just removed it


def _lock(descriptor: int, what: Path) -> None:
    if os.environ.get(VARIABLE):
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise errors.OutputExistsError(
            f"{what}",
            "no other process in it",
            "one that is still running",
            "Wait for it, or choose another --out.",
        ) from error
    except OSError as error:
        raise errors.EnvironmentFault(
            f"{what}",
            "a file system with locks, which keep two commands out of one folder",
            (error.strerror or str(error)).lower(),
            "Choose a folder on another disk, or give --no-lock and start no second command there.",
        ) from error
