"""What was found of a file on an accelerator, and how a terminal shows it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

from tfdistill import quantities

from .comparison import AcceleratorAnswers

Verdict = Literal["whole", "partial", "compiled", "wrong", "failed", "unavailable"]
GOOD: tuple[Verdict, ...] = ("whole", "partial", "compiled")


@dataclasses.dataclass(frozen=True)
class SignatureOnAccelerator:
    """One signature."""

    signature: str  # its key
    operators: int  # number of its operators
    delegated: int | None  # how many of them the accelerator takes; None where LiteRT does not say
    partitions: int | None  # chains of operators that it takes; None where LiteRT does not say
    # operators that stay on the CPU for a reason of their own: name -> reason ("" where LiteRT
    # gives none)
    left: dict[str, str]
    layers: tuple[str, ...]  # the layers that these belong to
    # the answers beside the CPU's; None where they were not computed
    answers: AcceleratorAnswers | None


@dataclasses.dataclass(frozen=True)
class AcceleratorReport:
    """One accelerator."""

    name: str  # such as "gpu"
    title: str  # what it is, and the chip that was compiled for
    # "whole": it takes all operators and answers as the CPU does. "partial": the answers are right,
    # the CPU computes a part. "compiled": it compiles; the answers need the device. "wrong": it
    # answers something else. "failed": it does not compile or run. "unavailable": its libraries are
    # missing
    verdict: Verdict
    # shortest first; empty where it does not compile
    signatures: tuple[SignatureOnAccelerator, ...]
    fault: str | None  # why it failed or is wrong

    @property
    def good(self) -> bool:
        """Whether nothing speaks against shipping the file to it."""
        return self.verdict in GOOD


def format_text(reports: Sequence[AcceleratorReport]) -> str:
    """Writes reports for a terminal, without a final line break."""
    lines = []
    for report in reports:
        lines.append(f"{report.name}: {report.verdict}  {report.title}")
        for row in report.signatures:
            taken = "?" if row.delegated is None else str(row.delegated)
            line = f"  {row.signature}: {taken} of {row.operators} operators"
            if row.partitions is not None:
                line += f" in {quantities.plural(row.partitions, 'partition')}"
            if row.answers is None:
                line += ", answers not computed on this host"
            else:
                line += f", {_agreement(row.answers)}"
            lines.append(line)
            for operator, reason in row.left.items():
                lines.append(f"    on the CPU: {operator}{f' ({reason})' if reason else ''}")
            if row.layers:
                lines.append(f"    in {', '.join(row.layers[:6])}")
        if report.fault:
            lines.append(f"  {report.fault}")
    return "\n".join(lines)


def _agreement(answers: AcceleratorAnswers) -> str:
    if answers.sqnr_db is None and answers.fault is None:
        return f"{answers.num_examples} answers equal to the CPU's"
    ratio = "?" if answers.sqnr_db is None else f"{answers.sqnr_db:.1f}"
    least = f"(at least {answers.least_sqnr_db:g})"
    return f"{answers.num_examples} answers, {ratio} dB to the CPU's {least}"
