"""What runs on this machine for a phone, and what a process wrote."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Callable, Iterable
from typing import Any

_TRIES, _PAUSE_S = 1200, 0.05


def alive(pid: int) -> bool:
    """Tells whether a process is there and has not ended."""
    return _facts(pid)[0] not in ("", "Z")


def wait_until(condition: Callable[[], Any]) -> Any:
    """Waits until a condition holds, and returns its value."""
    for _ in range(_TRIES):
        if value := condition():
            return value
        time.sleep(_PAUSE_S)
    raise AssertionError("it did not come to that")


def ends(pid: int) -> bool:
    """Waits until a process has ended."""
    return wait_until(lambda: not alive(pid))


def of_groups(groups: Iterable[int]) -> list[int]:
    """Returns the processes of some groups that have not ended."""
    wanted = {str(group) for group in groups}
    pids = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        state, group = _facts(int(folder.name))
        if group in wanted and state != "Z":
            pids.append(int(folder.name))
    return pids


def with_variable(variable: str, *, but: int) -> list[int]:
    """Returns the processes that have a variable, such as "DEVICE=/phone", but for one of them."""
    pids = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        pid = int(folder.name)
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if variable.encode() in variables and pid != but and alive(pid):
            pids.append(pid)
    return pids


def written(path: pathlib.Path) -> str:
    """Waits until a file holds something, and returns it."""
    return wait_until(lambda: path.exists() and path.read_text())


def _facts(pid: int) -> tuple[str, str]:
    """State and group of a process; nothing of one that is not there."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "", ""
    state, _, group = text.rpartition(")")[2].split()[:3]
    return state, group
