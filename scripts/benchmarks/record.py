"""What a benchmark leaves behind: figures against targets, samples, circumstances."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import pathlib
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from tfdistill import _version
from tfdistill.benchmark import environment, result
from tfdistill.io import files

ROOT = pathlib.Path(__file__).resolve().parents[2]
FORMAT_VERSION = 1
PRODUCT = ("tfdistill", "export")
PACKAGES = ("tensorflow", "tf_keras", "tf_models_official", "ai_edge_litert", "numpy")


@dataclasses.dataclass(frozen=True)
class Figure:
    """One measured ratio.

    Attributes:
      name: What it is, in words.
      value: The ratio, or None where this machine cannot tell.
      target: What it should reach at least, or None for a figure without a target.
      unit: What stands behind the number, "x" for a speed-up.
      note: Why there is no value, or what else to know.
    """

    name: str
    value: float | None
    target: float | None = None
    unit: str = ""
    note: str = ""

    @property
    def reached(self) -> bool | None:
        """Whether the target is reached; None without a target or a value."""
        if self.value is None or self.target is None:
            return None
        return self.value >= self.target


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a benchmark measured.

    Attributes:
      title: One line: what ran.
      figures: The ratios, those with a target first.
      details: Absolute values to show, as (name, value with unit).
      settings: What was asked for.
      samples: Everything measured, as it came.
      notes: How to read it.
    """

    title: str
    figures: Sequence[Figure]
    details: Sequence[tuple[str, str]]
    settings: dict[str, Any]
    samples: dict[str, Any]
    notes: Sequence[str] = ()


def describe_machine() -> dict[str, Any]:
    """Describes machine and versions, with the load before the benchmark."""
    machine = environment.device().model_dump(mode="json")
    machine["python"] = environment.runtime().packages["python"]
    machine["packages"] = {name: environment.version_of(name) for name in PACKAGES}
    machine["load_average_before"] = environment.load_average()
    return machine


def assemble(
    kind: str, outcome: Outcome, machine: dict[str, Any], *, quick: bool
) -> dict[str, Any]:
    """Builds the value of ``<kind>.json``."""
    return {
        "format_version": FORMAT_VERSION,
        "kind": kind,
        "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "quick": quick,
        "title": outcome.title,
        "figures": [
            {**dataclasses.asdict(figure), "reached": figure.reached} for figure in outcome.figures
        ],
        "details": dict(outcome.details),
        "notes": list(outcome.notes),
        "tfdistill_version": _version.__version__,
        **source(),
        "command": ["scripts/bench", *sys.argv[1:]],
        "environment": {**machine, "load_average_after": environment.load_average()},
        "settings": outcome.settings,
        "samples": outcome.samples,
    }


def write(value: dict[str, Any], path: files.Path) -> None:
    """Writes a record so that it is whole or unchanged."""
    files.atomic_write_text(path, result.to_json(value))


def source() -> dict[str, Any]:
    """Says which code was measured: the commit, and a digest of the product as it lay there."""
    digest = hashlib.sha256()
    for file in sorted(path for name in PRODUCT for path in (ROOT / name).rglob("*.py")):
        digest.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes() + b"\0")
    changes = _git("status", "--porcelain", "--", *PRODUCT)
    return {
        "commit": _git("rev-parse", "HEAD") or None,
        "uncommitted_changes": None if changes is None else bool(changes),
        "product_sha256": digest.hexdigest(),
    }


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):  # an unpacked archive
        return None
    return done.stdout.strip()


def format_table(value: dict[str, Any]) -> str:
    """Shows a record: each figure with its target and whether it was reached."""
    rows = [("", "target", "reached", "")]
    for figure in value["figures"]:
        target, measured = figure["target"], figure["value"]
        rows.append(
            (
                figure["name"],
                "-" if target is None else f">= {target:g}{figure['unit']}",
                "-" if measured is None else f"{measured:.2f}{figure['unit']}",
                "" if value["quick"] else _verdict(figure),
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    lines = [value["title"]]
    for name, target, measured, verdict in rows:
        cells = (name.ljust(widths[0]), target.rjust(widths[1]), measured.rjust(widths[2]))
        lines.append("  ".join(("", *cells, verdict)).rstrip())
    lines += [f"  {name}: {shown}" for name, shown in value["details"].items()]
    lines += [f"  note: {note}" for note in value["notes"]]
    if value["quick"]:
        lines.append("  note: --quick only shows that it runs; the figures mean nothing")
    return "\n".join(lines)


def _verdict(figure: dict[str, Any]) -> str:
    words = {True: "ok", False: "MISSED", None: ""}[figure["reached"]]
    return f"{words} ({figure['note']})".strip() if figure["note"] else words
