"""What create_venv.py and create_runtimes.py share. Only the standard library is used."""

import ast
import contextlib
import fcntl
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator

_MISLEADING = (
    *("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_TARGET", "PIP_PREFIX"),
    *("UV_CONSTRAINT", "UV_EXCLUDE", "UV_OVERRIDE", "UV_PROJECT", "UV_WORKING_DIR"),
)
# A setting of pip -> what uv, which reads none of them, calls it, and how it separates several.
_IN_UV = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "no-index": ("UV_NO_INDEX", " "),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "timeout": ("UV_HTTP_TIMEOUT", " "),
    "default-timeout": ("UV_HTTP_TIMEOUT", " "),
    "cert": ("SSL_CERT_FILE", " "),
    "proxy": ("ALL_PROXY", " "),
}


class SetupError(Exception):
    """The set-up cannot go on; the message says what to do."""


def say(name: str, message: str) -> None:
    """Tells the user what a set-up does; stdout stays free for results."""
    print(f"{name}: {message}", file=sys.stderr, flush=True)


def environment(**more: str) -> dict[str, str]:
    """Returns the variables for pip: the user's, less those that lead it elsewhere, and `more`."""
    environment = {name: value for name, value in os.environ.items() if name not in _MISLEADING}
    return {**environment, **more, "PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def for_uv(python: str | pathlib.Path, variables: dict[str, str]) -> dict[str, str]:
    """Returns variables with the settings that the pip of this Python would follow.

    A variable of uv's own that is set already stays. Of several values of one setting, pip's
    variable counts before its files.
    """
    command = [str(python), "-m", "pip", "config", "list"]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    settings = {"UV_SYSTEM_CERTS": "1"}  # as pip
    for line in sorted(done.stdout.splitlines(), key=lambda line: line.startswith(":env:")):
        key, _, value = line.partition("=")
        if (name := key.rpartition(".")[2]) in _IN_UV:
            variable, separator = _IN_UV[name]
            settings[variable] = separator.join(ast.literal_eval(value).split())
    return {**settings, **variables}


def uv_install(
    uv: pathlib.Path, python: str | pathlib.Path, *options: str | pathlib.Path
) -> list[str]:
    """Returns the command that installs exactly what the options name for a Python."""
    # Hashes say which file counts, so several indexes are as good as one.
    exact = ("--no-deps", "--index-strategy", "unsafe-best-match", "--no-config")
    return [str(part) for part in (uv, "pip", "install", "--python", python, *exact, *options)]


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
