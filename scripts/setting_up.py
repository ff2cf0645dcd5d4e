"""What create_venv.py and create_runtimes.py share. Only the standard library is used."""

import contextlib
import fcntl
import os
import pathlib
import shutil
import sys
from collections.abc import Callable, Iterator

_MISLEADING = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_TARGET", "PIP_PREFIX")


class SetupError(Exception):
    """The set-up cannot go on; the message says what to do."""


def say(name: str, message: str) -> None:
    """Tells the user what a set-up does; stdout stays free for results."""
    print(f"{name}: {message}", file=sys.stderr, flush=True)


def environment(**more: str) -> dict[str, str]:
    """Returns the variables for pip: the user's, less those that lead it elsewhere, and `more`."""
    environment = {name: value for name, value in os.environ.items() if name not in _MISLEADING}
    return {**environment, **more, "PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def check_disk(folder: pathlib.Path, needed_bytes: int) -> None:
    """Finds out before the long work whether the disk of a folder has room for it."""
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise SetupError(
            f"disk space at {folder}: expected {needed_bytes / 1e9:.1f} GB free, "
            f"received {free / 1e9:.1f} GB."
        )


@contextlib.contextmanager
def only_one(name: str, lock: pathlib.Path) -> Iterator[None]:
    """Waits until no other set-up that takes this file is at work."""
    with open(lock, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(name, "waiting for another set-up of this folder to finish")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def exit_code(name: str, work: Callable[[], None]) -> int:
    """Does the work; says why it ended early, if it did, and returns the exit code."""
    try:
        work()
    except SetupError as error:
        say(name, str(error))
        return 1
    except KeyboardInterrupt:
        say(name, "interrupted; the next run starts where it is safe")
        return 130
    return 0
