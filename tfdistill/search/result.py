"""search.json: what was measured, how well the latency is known, and what is proposed."""

from __future__ import annotations

import pathlib
from typing import Any, Literal

import pydantic

from tfdistill import errors, files, tables
from tfdistill.benchmark import schema
from tfdistill.results import CandidateMetrics

FORMAT_VERSION = 1
FILE_NAME = "search.json"
# Beyond this median error on files that it has not seen, the model of the latency is no guide.
LARGEST_MEDIAN_ERROR = 0.1


class HeldOut(schema.Part):
    """How far predictions were from measurements, relative, on files that the fit has not seen.

    Attributes:
      n: Files.
      median: Median of |predicted / measured - 1|.
      p90: Its 90th percentile.
      worst: The largest.
    """

    n: int
    median: float
    p90: float
    worst: float


class LengthModel(schema.Part):
    """The latency at one length.

    Attributes:
      sequence_length: Tokens.
      coefficients: Milliseconds a unit of work, see `work.Work`.
      margin: Relative half-width of the 90% interval of a prediction.
      held_out: Its errors.
      anchor_spread: Slowest / fastest - 1 of the file that was measured with every batch.
    """

    sequence_length: int
    coefficients: dict[str, float]
    margin: float
    held_out: HeldOut
    anchor_spread: float


class Measured(schema.Part):
    """A file that was measured, with the prediction of the fit.

    Attributes:
      role: "block" (the fit knows it), "held_out" or "proposal".
      key: Of its reading in the folder of measurements.
      name: The candidate's.
      p50_ms: Length -> measured median.
      predicted_ms: Length -> what the fit says.
      size_bytes: Of the file.
      predicted_size_bytes: What the fit says.
    """

    role: Literal["block", "held_out", "proposal"]
    key: str
    name: str
    p50_ms: dict[int, float]
    predicted_ms: dict[int, float]
    size_bytes: int
    predicted_size_bytes: int


class Proposal(schema.Part):
    """A student whose measured file is within the budget.

    Attributes:
      name: Says its shape.
      kind: See `space.KINDS`.
      config: Its shape, as `models.EncoderConfig` takes it.
      recipe: Its recipe, relative to search.json.
      latency_ms: Predicted, at the longest length.
      interval_ms: 90% of the latencies are in it.
      measured_ms: The median of the exported file with random weights.
      measured_ci_ms: Its 95% interval.
      size_bytes: Predicted.
      measured_size_bytes: Of that file.
      capacity: Parameters of its layers; the proxy of an accuracy that nobody has measured.
      parameters: All of them.
      flops: Of one example at the longest length.
      metric: What it reaches on the development set after a short distillation; None without one.
    """

    name: str
    kind: str
    config: dict[str, Any]
    recipe: str
    latency_ms: float
    interval_ms: schema.Interval
    measured_ms: float
    measured_ci_ms: schema.Interval
    size_bytes: int
    measured_size_bytes: int
    capacity: int
    parameters: int
    flops: int
    metric: float | None = None


class MeasuredTeacher(schema.Part):
    """The teacher's shape in a file like those of the students, with random weights.

    Attributes:
      measured_ms: Its median at the longest length.
      measured_ci_ms: Its 95% interval.
      measured_size_bytes: Of the file.
    """

    measured_ms: float
    measured_ci_ms: schema.Interval
    measured_size_bytes: int


class ShortDistillation(schema.Part):
    """What the proposals were trained with, to rank them, and what they are compared with.

    Attributes:
      updates: Batches that each was trained on.
      figures: What came of it.
    """

    updates: int
    figures: CandidateMetrics


class SearchResult(schema.Part):
    """The whole of search.json.

    Attributes:
      latency_ms: The budget.
      size_mb: The budget, millions of bytes; None for any.
      lengths: Of the files; the budget is for the longest.
      num_candidates: Students that could be proposed.
      num_within_budget: Of these, within the budget by prediction.
      pareto: Names of those that no other of their kind dominates.
      proposals: Those of the largest capacity first, or those with the best metric.
      over_budget: Names that were left out because their measured file breaks the budget.
      measured_teacher: The teacher as a file, where its shape is known and students are pruned.
      distillation: What the proposals reach after a few updates, or None.
      warnings: What a reader of the figures has to know.
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
    method: str
    task: str
    teacher: dict[str, Any]
    quantize: str
    threads: int
    latency_ms: float
    size_mb: float | None
    lengths: tuple[int, ...]
    num_candidates: int
    num_within_budget: int
    models: tuple[LengthModel, ...]
    measurements: tuple[Measured, ...]
    pareto: tuple[str, ...]
    proposals: tuple[Proposal, ...]
    over_budget: tuple[str, ...] = ()
    measured_teacher: MeasuredTeacher | None = None
    distillation: ShortDistillation | None = None
    warnings: tuple[str, ...] = ()

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
    found = pathlib.Path(path)
    found = found / FILE_NAME if found.is_dir() else found
    try:
        return SearchResult.model_validate_json(found.read_bytes())
    except FileNotFoundError:
        received: object = "none"
    except pydantic.ValidationError as error:
        received = f"{error.error_count()} faults, the first: {error.errors()[0]['msg']}"
    raise errors.BenchmarkError(
        str(found), f"the result of a search, format_version {FORMAT_VERSION}", received
    )


def format_text(result: SearchResult, *, width: int | None = None) -> str:
    """Writes the proposals as a table, with what they rest on.

    Args:
      result: The result.
      width: Characters of a line of the table, see `tables.table`.
    """
    longest = max(result.lengths)
    size = "" if result.size_mb is None else f", {result.size_mb:g} MB"
    heads = ("student", "predicted ms", "measured ms", "MB", "parameters", "in layers", "GFLOPs")
    trained = result.distillation
    if trained is not None:
        heads = (*heads, trained.figures.metric)
    lines = [
        f"{result.device.name} ({result.kind}), {result.threads} thread(s), {longest} tokens, "
        f"{result.quantize}: at most {result.latency_ms:g} ms{size}",
        *(
            f"latency at {model.sequence_length} tokens, on {model.held_out.n} students that the "
            f"fit has not seen: median error {model.held_out.median:.1%}, p90 "
            f"{model.held_out.p90:.1%}"
            for model in result.models
        ),
        f"{result.num_within_budget} of {result.num_candidates} students within the budget, "
        f"{len(result.pareto)} of them on the Pareto front",
        "",
        *tables.table(
            [heads, *(_row(proposal, trained) for proposal in result.proposals)], width=width
        ),
        "",
        *(_trained(result) if trained is not None else _UNTRAINED),
        *(f"warning: {warning}" for warning in result.warnings),
    ]
    return "\n".join(lines)


_UNTRAINED = (
    "Accuracy is not predicted: its proxies are parameters in layers and depth, within a kind.",
)


def _trained(result: SearchResult) -> list[str]:
    """What the metrics are, and the teacher and the baselines."""
    trained = result.distillation
    assert trained is not None
    figures = trained.figures
    lines = [
        f"{figures.metric} on {figures.num_examples} development examples after "
        f"{trained.updates} updates; the whole training takes more and reaches more",
    ]
    if figures.teacher is not None:
        measured = result.measured_teacher
        shown = "" if measured is None else f", {measured.measured_ms:.2f} ms"
        shown += "" if measured is None else f", {measured.measured_size_bytes / 1e6:.1f} MB"
        lines.append(f"  teacher: {figures.teacher:.4f}{shown}")
    for row in figures.baselines:
        value = row.metrics.get(figures.metric)
        if value is not None:
            lines.append(f"  {row.name}: {value:.4f}" + (f" ({row.note})" if row.note else ""))
    chosen = result.chosen
    if chosen is not None:
        lines.append(f"fastest within chance of the best: {chosen.name}")
    return lines


def _row(proposal: Proposal, trained: ShortDistillation | None) -> tuple[str, ...]:
    low, high = proposal.interval_ms
    found = (
        proposal.name,
        f"{proposal.latency_ms:.2f} [{low:.2f}, {high:.2f}]",
        f"{proposal.measured_ms:.2f}",
        f"{proposal.measured_size_bytes / 1e6:.1f}",
        f"{proposal.parameters / 1e6:.1f} M",
        f"{proposal.capacity / 1e6:.1f} M",
        f"{proposal.flops / 1e9:.2f}",
    )
    if trained is None:
        return found
    return (*found, "-" if proposal.metric is None else f"{proposal.metric:.4f}")
