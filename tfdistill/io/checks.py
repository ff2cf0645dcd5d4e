"""Checks of what is about to be written: a visible list, and one refusal that names every fault."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from tfdistill import errors


@dataclasses.dataclass(frozen=True)
class Check:
    """One thing that must be true of an output."""

    name: str
    run: Callable[[Any], list[str]]  # takes the evidence and lists the faults, a line each
    # The checks without which it makes no sense, or may end the process.
    needs: tuple[str, ...] = ()
    error: type[errors.ExportError] = errors.ParityError  # what a fault is raised as


def verdicts(checks: Sequence[Check], evidence: Any) -> dict[str, list[str]]:
    """Makes the checks of a list; returns the faults of those that fail, by name."""
    faults: dict[str, list[str]] = {}
    for check in checks:
        if faults.keys() & set(check.needs):
            continue
        if lines := check.run(evidence):
            faults[check.name] = lines
    return faults


def require(what: str, checks: Sequence[Check], evidence: Any) -> None:
    """Makes the checks of a list and refuses the output if one fails, with every fault."""
    faults = verdicts(checks, evidence)
    if faults:
        lines = "".join(f"\n  - {line}" for lines in faults.values() for line in lines)
        raise errors.ParityError(
            f"{what} does not answer like the model and was not written:{lines}"
        )
