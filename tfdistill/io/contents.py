"""Contents of files that are read once, while the file is the same on the disk."""

from __future__ import annotations

import functools
import os
import pathlib
import time
from collections.abc import Callable
from typing import Any, TypeVar

from tfdistill.io import safe_paths, storage

Path = safe_paths.Path
Reader = TypeVar("Reader", bound=Callable[..., Any])
_TICK_NS = 50_000_000  # more than a tick of the clock of a file system
_SMALL_BYTES = 4_000_000


def once(max_files: int) -> Callable[[Reader], Reader]:
    """Makes a reader of a file remember what it returned, while the file is the same on the disk.

    A process reads a file again where its size, times or place on the disk differ. A file that has
    just been written is not remembered: another write in the same tick of the clock would not show.
    What the reader returns is shared, and must not be changed. The last `max_files` that were used
    are kept.
    """

    def decorate(read: Reader) -> Reader:
        remembered: dict[str, tuple[tuple[int, ...], Any]] = {}  # the last used one is the last

        @functools.wraps(read)
        def reader(path: Path) -> Any:
            path = os.path.abspath(path)
            began, state = time.time_ns(), state_of(path)
            earlier, content = remembered.pop(path, (None, None))
            if earlier != state:
                content = read(path)
            if began - max(state[:2]) > _TICK_NS:
                remembered[path] = state, content
            for oldest in list(remembered)[:-max_files]:
                remembered.pop(oldest, None)
            return content

        return reader  # pyright: ignore[reportReturnType]

    return decorate


def state_of(path: Path) -> tuple[int, ...]:
    """The times, the size and the place of a file on the disk, which another write changes."""
    status = os.stat(path)
    times = (status.st_mtime_ns, status.st_ctime_ns)
    return (*times, status.st_size, status.st_ino, status.st_dev)


def content_of(path: Path) -> bytes:
    """Returns the content of a file; a small one is read once while it is the same on the disk."""
    source = storage.located(path)
    return _small_content(source) if is_small(source) else source.read_bytes()


def is_small(source: Any) -> bool:
    """Whether the content of a file is kept: that of all kept files fits into 128 MB."""
    return not storage.is_remote(source) and source.stat().st_size <= _SMALL_BYTES


@once(max_files=32)
def _small_content(path: Path) -> bytes:
    return pathlib.Path(path).read_bytes()
