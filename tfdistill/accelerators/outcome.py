"""What was found of a file on an accelerator, and how a terminal shows it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

from .comparison import AcceleratorAnswers

Verdict = Literal["whole", "partial", "compiled", "wrong", "failed", "unavailable"]
GOOD: tuple[Verdict, ...] = ("whole", "partial", "compiled")


@dataclasses.dataclass(frozen=True)
class SignatureOnAccelerator:
    """One signature.

    Attributes:
      signature: Its key.
      operators: Number of its operators.
      delegated: How many of them the accelerator takes; None where LiteRT does not say.
      partitions: Chains of operators that it takes; None where LiteRT does not say.
      left: Operators that stay on the CPU for a reason of their own: name -> reason ("" where
        LiteRT gives none).
      layers: The layers that these belong to.
      answers: The answers beside the CPU's; None where they were not computed.
    """

    signature: str
    operators: int
    delegated: int | None
    partitions: int | None
    left: dict[str, str]
    layers: tuple[str, ...]
    answers: AcceleratorAnswers | None


@dataclasses.dataclass(frozen=True)
class AcceleratorReport:
    """One accelerator.

    Attributes:
      name: Its name, "gpu".
      title: What it is, and the chip that was compiled for.
      verdict: "whole": it takes all operators and answers as the CPU does. "partial": the answers
        are right, the CPU computes a part. "compiled": it compiles; the answers need the device.
        "wrong": it answers something else. "failed": it does not compile or run. "unavailable":
        its libraries are missing.
      signatures: Shortest first; empty where it does not compile.
      fault: Why it failed or is wrong.
    """

    name: str
    title: str
    verdict: Verdict
    signatures: tuple[SignatureOnAccelerator, ...]
    fault: str | None

    @property
    def good(self) -> bool:
        """Whether nothing speaks against shipping the file to it."""
        return self.verdict in GOOD


def format_text(reports: Sequence[AcceleratorReport]) -> str:
    """Writes reports for a terminal, without a final line break."""
    lines = []
    for report in reports:
        lines.append(f"{report.name}: {report.verdict}  {report.title}")
        for found in report.signatures:
            taken = "?" if found.delegated is None else str(found.delegated)
            line = f"  {found.signature}: {taken} of {found.operators} operators"
            if found.partitions is not None:
                line += f" in {found.partitions} partition{'s' * (found.partitions != 1)}"
            if found.answers is None:
                line += ", answers not computed on this host"
            else:
                line += f", {_agreement(found.answers)}"
            lines.append(line)
            for operator, reason in found.left.items():
                lines.append(f"    on the CPU: {operator}{f' ({reason})' if reason else ''}")
            if found.layers:
                lines.append(f"    in {', '.join(found.layers[:6])}")
        if report.fault:
            lines.append(f"  {report.fault}")
    return "\n".join(lines)


def _agreement(answers: AcceleratorAnswers) -> str:
    if answers.sqnr_db is None and answers.fault is None:
        return f"{answers.num_examples} answers equal to the CPU's"
    ratio = "?" if answers.sqnr_db is None else f"{answers.sqnr_db:.1f}"
    least = f"(at least {answers.least_sqnr_db:g})"
    return f"{answers.num_examples} answers, {ratio} dB to the CPU's {least}"
