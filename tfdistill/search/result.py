"""The result of a search: search.json, and the same as a table of text."""

from __future__ import annotations

import pathlib
from typing import Any, Literal

import pydantic

from tfdistill import errors, files, tables
from tfdistill.benchmark import schema
from tfdistill.results import CandidateMetrics

FORMAT_VERSION = 1
FILE_NAME = "search.json"
Role = Literal["teacher", "anchor", "near", "proposal"]
_UNTRAINED = "Accuracy is not predicted: its proxies are parameters in layers and depth."


class PredictionErrors(schema.Part):
    """How far predictions were from measurements: |predicted / measured - 1| of n files."""

    n: int
    median: float
    worst: float


class MeasuredShape(schema.Part):
    """A file that was measured, with random weights, and what the fit says of it.

    An "anchor" is spread over all shapes, a "near" one near the budget; `predicted_ms` is of the
    longest length.
    """

    role: Role
    name: str
    p50_ms: dict[int, float]  # by length
    predicted_ms: float
    size_bytes: int
    predicted_size_bytes: int


class Proposal(schema.Part):
    """A student whose measured file is within the budget; latencies are of the longest length."""

    name: str
    preset: str  # pruned:layers=3,ffn=384,...
    config: dict[str, Any]  # as `models.EncoderConfig` takes it
    recipe: str  # relative to search.json
    latency_ms: float  # predicted
    measured_ms: float  # the median of the file with random weights
    measured_ci_ms: schema.Interval  # its 95% interval
    size_bytes: int  # predicted
    measured_size_bytes: int
    capacity: int  # parameters of its layers: the proxy of an accuracy that is not measured
    parameters: int
    flops: int
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
      coefficients: Milliseconds a unit of work, see `costs.work`.
      errors: Those of predictions, of files near the budget.
      num_candidates: Students that could be proposed.
      num_within_budget: Of these, within the budget by prediction.
      pareto: Names of those that no other dominates.
      proposals: Those of the largest capacity first, or those with the best metric.
      over_budget: Names that were left out because their measured file breaks the budget.
      distillation: What the proposals reach after a few updates, or None.
    """

    format_version: Literal[1] = FORMAT_VERSION
    created: str
    tfdistill_version: str
    command: tuple[str, ...] = ()
    kind: schema.Kind
    backend: schema.BackendName
    device: schema.Device
    runtime: schema.Runtime
    settings: dict[str, Any]
    task: str
    teacher: str
    quantize: str
    threads: int
    latency_ms: float
    size_mb: float | None
    lengths: tuple[int, ...]
    coefficients: tuple[float, ...]
    errors: PredictionErrors
    num_candidates: int
    num_within_budget: int
    measurements: tuple[MeasuredShape, ...]
    pareto: tuple[str, ...]
    proposals: tuple[Proposal, ...]
    over_budget: tuple[str, ...] = ()
    distillation: ShortDistillation | None = None

    @property
    def chosen(self) -> Proposal | None:
        """The fastest proposal that is within chance of the best; the first without a metric."""
        if self.distillation is None:
            return next(iter(self.proposals), None)
        names = self.distillation.figures.within_chance
        equal = [proposal for proposal in self.proposals if proposal.name in names]
        return min(equal, key=lambda proposal: proposal.measured_ms, default=None)


def read_result(path: files.Path) -> SearchResult:
    """Reads a search.json, or that of a folder.

    Raises:
      BenchmarkError: If it is missing or malformed.
    """
    file = pathlib.Path(path)
    file = file / FILE_NAME if file.is_dir() else file
    try:
        return SearchResult.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        received = "none"
    except pydantic.ValidationError as error:
        received = f"{error.error_count()} faults, the first: {error.errors()[0]['msg']}"
    raise errors.BenchmarkError(
        str(file), f"the result of a search, format_version {FORMAT_VERSION}", received
    )


def format_text(result: SearchResult, *, width: int | None = None) -> str:
    """Writes the proposals as a table, with what they rest on.

    Args:
      result: The result.
      width: Characters of a line of the table, see `tables.table`.
    """
    size = "" if result.size_mb is None else f", {result.size_mb:g} MB"
    trained, wrong = result.distillation, result.errors
    heads = ("student", "predicted ms", "measured ms", "MB", "parameters", "in layers", "GFLOPs")
    rows = [
        (
            proposal.name,
            f"{proposal.latency_ms:.2f}",
            f"{proposal.measured_ms:.2f}",
            f"{proposal.measured_size_bytes / 1e6:.1f}",
            f"{proposal.parameters / 1e6:.1f} M",
            f"{proposal.capacity / 1e6:.1f} M",
            f"{proposal.flops / 1e9:.2f}",
            *([] if proposal.metric is None else [f"{proposal.metric:.4f}"]),
        )
        for proposal in result.proposals
    ]
    lines = [
        f"{result.device.name} ({result.kind}), {result.threads} thread(s), "
        f"{max(result.lengths)} tokens, {result.quantize}: at most {result.latency_ms:g} ms{size}",
        f"latency of {wrong.n} students near the budget, each predicted without its own "
        f"measurement: median error {wrong.median:.1%}, worst {wrong.worst:.1%}",
        f"{result.num_within_budget} of {result.num_candidates} students within the budget, "
        f"{len(result.pareto)} of them on the Pareto front",
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


def _trained(result: SearchResult, trained: ShortDistillation) -> list[str]:
    """What the metrics are, and the teacher and the baselines."""
    figures = trained.figures
    (whole,) = (shape for shape in result.measurements if shape.role == "teacher")
    lines = [
        f"{figures.metric} on {figures.num_examples} development examples after "
        f"{trained.updates} updates; the whole training takes more and reaches more",
    ]
    if figures.teacher is not None:
        lines.append(
            f"  teacher: {figures.teacher:.4f}, {whole.p50_ms[max(result.lengths)]:.2f} ms, "
            f"{whole.size_bytes / 1e6:.1f} MB"
        )
    for row in figures.baselines:
        value = row.metrics.get(figures.metric)
        if value is not None:
            lines.append(f"  {row.name}: {value:.4f}" + (f" ({row.note})" if row.note else ""))
    if result.chosen is not None:
        lines.append(f"fastest within chance of the best: {result.chosen.name}")
    return lines
