"""What a command gave: its output and the files that it wrote, place by place."""

from __future__ import annotations

import hashlib
import json
import pathlib
import re
from typing import Any

# Of a time, or of what is measured: two runs of one command differ in it.
_MEASURED = re.compile(r"created|started|seconds|_ms\b|rss|per_second|load|pid|command|samples")
_UNREAD = (".lock", ".log", ".html", ".md")  # pages hold times; their figures stand in JSON and CSV


def outcome(folder: pathlib.Path, source: pathlib.Path, command: str) -> dict[str, str]:
    """Place -> value of the standard output and of every file that was written or replaced.

    Args:
      folder: The folder of a case.
      source: The undamaged files, to which those that no command touched are hard links.
      command: Its name; what `benchmark` prints was measured.
    """
    printed = b"" if command == "benchmark" else (folder / "out.txt").read_bytes()
    places = _places("stdout", printed)
    work = folder / "work"
    for path in sorted(work.rglob("*")):
        name = path.relative_to(work).as_posix()
        original = source / name
        if not path.is_file() or path.is_symlink() or name.endswith(_UNREAD):
            continue
        if not (original.is_file() and original.samefile(path)):
            places |= _places(name, path.read_bytes())
    return places


def differences(
    first: dict[str, str], second: dict[str, str], other: dict[str, str], damaged: str
) -> list[str]:
    """Places in which a result differs from two undamaged ones that agree there.

    The content of the damaged file itself is no result.
    """
    names = [
        name
        for name in first.keys() | second.keys() | other.keys()
        if _is_stable(name)
        and not name.startswith((f"{damaged}/", f"{damaged},"))
        and name != damaged
    ]
    stable = [name for name in names if first.get(name) == second.get(name)]
    return sorted(name for name in stable if first.get(name) != other.get(name))


def _is_stable(place: str) -> bool:
    return not _MEASURED.search(place)


def _places(name: str, content: bytes) -> dict[str, str]:
    try:
        if name.endswith(".json"):
            return dict(_leaves(name, json.loads(content)))
        lines = content.decode().splitlines()
    except (ValueError, RecursionError):
        return {name: hashlib.sha256(content).hexdigest()}
    return {f"{name}, line {number}": line for number, line in enumerate(lines, start=1)}


def _leaves(name: str, value: Any):
    if isinstance(value, dict | list) and value:
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in parts:
            yield from _leaves(f"{name}/{key}", part)
    elif not name.endswith("/checksum"):
        yield name, repr(value)
