"""What a command gave: its output and the files that it wrote, place by place."""

from __future__ import annotations

import hashlib
import io
import json
import pathlib
import re
import zipfile
from typing import Any

from tfdistill.io.ledger import MARKER

# Of a time, or of what is measured: two runs of one command differ in it.
_MEASURED = re.compile(
    r"created|started|seconds|_ms\b|rss|per_second|load|pid|command|samples|outliers"
    r"|/history/\d+/sha256|report-tables/"  # of files with the seconds of a stage
)
_MEASURED_FILE = re.compile(r"benchmark[^/]*\.json$")
_UNREAD = re.compile(
    r"\.(lock|log|html|md)$|events\.out\."
)  # pages hold times; their figures stand in JSON and CSV


Outcome = dict[str, dict[str, str]]  # file -> place in it -> value


def outcome(folder: pathlib.Path, source: pathlib.Path, command: str) -> Outcome:
    """The standard output and every file that was written or replaced.

    Args:
      folder: The folder of a case.
      source: The undamaged files, to which those that no command touched are hard links.
      command: Its name; what `benchmark` prints was measured.
    """
    printed = b"" if command == "benchmark" else (folder / "out.txt").read_bytes()
    written = {"stdout": _places("stdout", printed)}
    work = folder / "work"
    for path in sorted(work.rglob("*")):
        name = path.relative_to(work).as_posix()
        original = source / name
        if not path.is_file() or path.is_symlink() or _UNREAD.search(name):
            continue
        if not (original.is_file() and original.samefile(path)):
            written[name] = _places(name, path.read_bytes())
    return written


def differences(
    first: Outcome, second: Outcome, other: Outcome, damaged: str, source: pathlib.Path
) -> list[str]:
    """Places in which a result differs from two undamaged ones that agree there.

    The content of the damaged file itself is no result, and the marker of a folder lists files
    only. What a command wrote once more because of the damage is compared with the file of
    `source`, unless it was measured.
    """
    places = []
    for file in sorted(first.keys() | second.keys() | other.keys()):
        if file == damaged or pathlib.PurePath(file).name == MARKER:
            continue
        before = [first.get(file, {}), second.get(file, {})]
        earlier = _places(file, (source / file).read_bytes()) if (source / file).is_file() else {}
        if file not in first and file not in second:
            if _MEASURED_FILE.search(file):
                continue
            before = [earlier] * 2
        after = other.get(file, earlier)
        places += [
            place
            for place in before[0].keys() | before[1].keys() | after.keys()
            if _is_stable(place)
            and before[0].get(place) == before[1].get(place) != after.get(place)
        ]
    return sorted(places)


def _is_stable(place: str) -> bool:
    return not _MEASURED.search(place)


def _places(name: str, content: bytes) -> dict[str, str]:
    try:
        if name.endswith(".keras"):  # an archive: config and metadata hold counters and a date
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                members = {
                    each.filename: each.CRC
                    for each in archive.infolist()
                    if each.filename.endswith(".h5")
                }
            return dict(_leaves(name, members))
        if name.endswith(".safetensors"):  # whose writer keeps no order of the metadata
            end = 8 + int.from_bytes(content[:8], "little")
            data = hashlib.sha256(content[end:]).hexdigest()
            return {**dict(_leaves(name, json.loads(content[8:end]))), f"{name}/data": data}
        if name.endswith(".json"):
            return dict(_leaves(name, json.loads(content)))
        lines = content.decode().splitlines()
    except (ValueError, RecursionError, zipfile.BadZipFile):
        return {name: hashlib.sha256(content).hexdigest()}
    return {f"{name}, line {number}": line for number, line in enumerate(lines, start=1)}


def _leaves(name: str, value: Any):
    if isinstance(value, dict | list) and value:
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in parts:
            yield from _leaves(f"{name}/{key}", part)
    elif not name.endswith("/checksum"):
        yield name, repr(value)
