"""The result of a search: search.json, and the same as a table of text."""

from __future__ import annotations

import statistics
from typing import Any, Literal

from tfdistill.benchmark import schema
from tfdistill.results import CandidateMetrics, quantities, tables

FORMAT_VERSION = 1
FILE_NAME = "search.json"
Role = Literal["anchor", "proposal"]
_UNTRAINED = "Accuracy is not predicted: its proxies are parameters in layers and depth."


class MeasuredShape(schema.Part):
    """A file that was measured, with random weights, and what was predicted of it before.

    An "anchor" is spread over all shapes; a "proposal" was within the budget by prediction. The
    predicted latency is that of the longest length.
    """

    role: Role
    name: str
    p50_ms: dict[int, float]  # by length
    busy_lengths: tuple[int, ...] = ()  # whose latency other programs disturbed
    size_bytes: int
    predicted_ms: float | None = None
    predicted_size_bytes: int | None = None


class Proposal(schema.Part):
    """A student whose measured file is within the budget."""

    name: str
    preset: str  # pruned:layers=3,ffn=384,...
    config: dict[str, Any]  # as `models.EncoderConfig` takes it
    recipe: str  # relative to search.json
    latency_ms: float  # the median of the file with random weights, at the longest length
    busy: bool = False  # whether other programs disturbed that measurement
    size_bytes: int  # of that file
    capacity: int  # parameters of its layers: the proxy of an accuracy that is not measured
    parameters: int
    metric: float | None = None  # on the development set, after a short distillation


class ShortDistillation(schema.Part):
    """The updates that each proposal was trained for, and what came of it."""

    updates: int
    figures: CandidateMetrics


class SearchResult(schema.Part):
    """The whole of search.json.

    Attributes:
      latency_ms: The budget.
      size_mb: The budget, millions of bytes; None for any.
      lengths: Of the files; the budget is for each of them.
      measurements: Of all files, the teacher's first.
      proposals: Those of the largest capacity first, or those with the best metric.
      over_budget: Names that were left out because their measured file breaks the budget.
      distillation: What the proposals reach after a few updates, or None.
    """

    format_version: Literal[1] = FORMAT_VERSION
    created: str
    tfdistill_version: str
    command: tuple[str, ...] = ()
    kind: schema.Kind
    device: schema.Device
    task: str
    teacher: str
    quantize: str
    threads: int
    latency_ms: float
    size_mb: float | None
    lengths: tuple[int, ...]
    measurements: tuple[MeasuredShape, ...]
    proposals: tuple[Proposal, ...]
    over_budget: tuple[str, ...] = ()
    distillation: ShortDistillation | None = None

    @property
    def prediction_errors(self) -> list[float]:
        """|predicted / measured - 1| of the latency of each file that was predicted before."""
        length = max(self.lengths)
        return [
            abs(shape.predicted_ms / shape.p50_ms[length] - 1)
            for shape in self.measurements
            if shape.predicted_ms is not None
        ]

    @property
    def chosen(self) -> Proposal | None:
        """The fastest proposal that is within chance of the best; the first without a metric."""
        if self.distillation is None:
            return next(iter(self.proposals), None)
        names = self.distillation.figures.within_chance
        equal = [proposal for proposal in self.proposals if proposal.name in names]
        return min(equal, key=lambda proposal: proposal.latency_ms, default=None)


def format_text(result: SearchResult, *, width: int | None = None) -> str:
    """Writes the proposals as a table, with what they rest on.

    Args:
      result: The result.
      width: Characters of a line of the table, see `tables.table`.
    """
    size = "" if result.size_mb is None else f", {result.size_mb:g} MB"
    trained, wrong = result.distillation, result.prediction_errors
    heads = ("student", "ms", "MB", "parameters", "in layers")
    rows = [
        (
            proposal.name,
            tables.marked(f"{proposal.latency_ms:.2f}", proposal.busy),
            quantities.megabytes(proposal.size_bytes),
            quantities.count(proposal.parameters),
            quantities.count(proposal.capacity),
            *([] if proposal.metric is None else [f"{proposal.metric:.4f}"]),
        )
        for proposal in result.proposals
    ]
    lines = [
        f"{result.device.name} ({result.kind}), {result.threads} thread(s), "
        f"{max(result.lengths)} tokens, {result.quantize}: at most {result.latency_ms:g} ms{size}",
        *([_errors(wrong)] if wrong else []),
        "",
        *tables.table(
            [(*heads, *([trained.figures.metric] if trained else [])), *rows], width=width
        ),
        "",
        *(_trained(result, trained) if trained is not None else [_UNTRAINED]),
    ]
    if result.over_budget:
        lines.append(f"left out, over the budget when measured: {', '.join(result.over_budget)}")
    return "\n".join(lines)


def _errors(wrong: list[float]) -> str:
    return (
        f"latencies of {len(wrong)} students, predicted before they were measured: median error "
        f"{statistics.median(wrong):.1%}, worst {max(wrong):.1%}"
    )


def _trained(result: SearchResult, trained: ShortDistillation) -> list[str]:
    """What the metrics are, and the teacher and the baselines."""
    figures = trained.figures
    whole = result.measurements[0]
    lines = [
        f"{figures.metric} on {figures.num_examples} development examples after "
        f"{trained.updates} updates; the whole training takes more and reaches more",
    ]
    if figures.teacher is not None:
        length = max(result.lengths)
        latency = tables.marked(f"{whole.p50_ms[length]:.2f} ms", length in whole.busy_lengths)
        lines.append(
            f"  teacher: {figures.teacher:.4f}, {latency}, {quantities.size(whole.size_bytes)}"
        )
    for row in figures.baselines:
        value = row.metrics.get(figures.metric)
        if value is not None:
            lines.append(f"  {row.name}: {value:.4f}" + (f" ({row.note})" if row.note else ""))
    if result.chosen is not None:
        lines.append(f"fastest within chance of the best: {result.chosen.name}")
    return lines
