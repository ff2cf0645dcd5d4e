"""What quickstart says before it starts: what it recognised, what it will do, how long it takes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfdistill import models
from tfdistill.commands.quickstart_recipe import QuickstartPlan
from tfdistill.results import quantities, tables

if TYPE_CHECKING:
    from tfdistill.budget.fitting import FittedShape
    from tfdistill.data.labelled_file import LabelledFile
    from tfdistill.run.durations import TimedPart

_MOST_LABELS = 12
_BUSY = 1.5  # a training that is alone waits for its own threads: up to 1.45


def label_note(data: LabelledFile) -> str:
    """The labels with their counts, the most frequent first; of a regression the range."""
    traits = data.task.traits
    gold = [examples.labels for examples in data.sets.values() if examples.labels is not None]
    labels = np.concatenate(gold)
    if traits.one_number:
        return f"labels: {labels.min():g} to {labels.max():g}, median {np.median(labels):g}"
    if traits.many_classes:
        counts = labels.sum(axis=0).astype(int)
    else:
        counts = np.bincount(labels, minlength=len(data.task.labels))
    order = np.argsort(-counts, kind="stable")
    shown = [f"{data.task.labels[i]} {counts[i]:,}" for i in order[:_MOST_LABELS]]
    more = len(order) - len(shown)
    return f"labels: {', '.join(shown)}" + (f" and {more} more" if more > 0 else "")


@dataclasses.dataclass(frozen=True)
class Page:
    """A run before it starts; `size_bytes` is None of students whose file cannot be estimated."""

    proposal: QuickstartPlan
    student: models.EncoderConfig
    parts: Sequence[TimedPart]
    size_bytes: float | None
    fitted: FittedShape | None = None
    load: float = 1.0  # how many times as long it takes beside the programs that run now

    @property
    def seconds(self) -> float:
        """The estimate of the whole."""
        return sum(part.seconds for part in self.parts)

    def lines(self) -> list[str]:
        """The page for a terminal."""
        recipe, shape = self.proposal.recipe, self.student
        facts = [
            f"{quantities.count(models.count_parameters(shape))} parameters in "
            f"{shape.num_layers} layers x {shape.hidden_size}"
        ]
        if self.size_bytes is not None:
            facts.append(f"about {quantities.size(self.size_bytes)} as {recipe.export.quantize}")
        if self.fitted is not None and self.fitted.latency_ms is not None:
            facts.append(
                f"{self.fitted.latency_ms:.3g} ms for {recipe.data.max_length} tokens with random "
                "weights"
            )
        slowed = f"; other programs make it {self.load:.1f} times as slow now"
        rows = [["step", "batches", "minutes"]]
        for number, part in enumerate(self.parts, start=1):
            steps = f"{part.steps:,}" if part.steps else "-"
            rows.append([f"{number}. {part.name}", steps, f"{part.seconds / 60:.1f}"])
        return [
            f"student: {', '.join(facts)}",
            "",
            *tables.table(rows),
            f"estimated: {self.seconds / 60:.1f} minutes on this machine"
            + (slowed if self.load >= _BUSY else ""),
        ]

    def as_json(self) -> dict[str, Any]:
        """The page as a value."""
        return {
            "recipe": self.proposal.recipe.model_dump(mode="json"),
            "notes": list(self.proposal.notes),
            "parts": [dataclasses.asdict(part) for part in self.parts],
            "estimated_seconds": self.seconds,
            "load": self.load,
            "student": {
                "parameters": models.count_parameters(self.student),
                "size_bytes": self.size_bytes,
                "latency_ms": None if self.fitted is None else self.fitted.latency_ms,
            },
        }


def page_of(
    proposal: QuickstartPlan,
    data: LabelledFile,
    parts: Sequence[TimedPart],
    fitted: FittedShape | None,
    load: float = 1.0,
) -> Page:
    """Puts together what is known before the start."""
    from tfdistill.budget import costs
    from tfdistill.run import durations

    student = durations.student_of(proposal.recipe, proposal.teacher)
    size = None if fitted is None else fitted.size_bytes
    if fitted is None and type(student) is models.EncoderConfig:
        lengths = durations.file_lengths(proposal.recipe, proposal.tokens, student)
        quantize = proposal.recipe.export.quantize
        size = costs.file_bytes(student, max(lengths), len(lengths), quantize)
        if (most := proposal.recipe.export.size_mb) is not None:
            small = costs.small_bytes(student, max(lengths), len(lengths), quantize)
            size = min(size, max(small, 1e6 * most))
    return Page(proposal, student, parts, size, fitted, load)
