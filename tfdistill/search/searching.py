"""`search`: measure a few shapes, estimate the others, measure and distil the best a little."""

from __future__ import annotations

import dataclasses
import datetime
import math
import pathlib
from collections.abc import Callable, Mapping, Sequence

from tfdistill import config, errors, files, models, work_folder
from tfdistill._version import __version__
from tfdistill.benchmark.settings import Settings
from tfdistill.search import estimating, measuring, recipes, result, shapes
from tfdistill.search.estimating import Effort, Estimate, Learned
from tfdistill.search.measuring import MeasuredStudent, StudentBench

KIND = "search"
_FILE_WIDTH = 200  # of search.txt, which no terminal limits
_TRIES = 3  # times as many students as are asked for are measured at most
_LARGEST_RESERVE = 0.1  # of a prediction, below the budget
# Name -> short form of students -> what each reaches after so many updates; of no student: the
# teacher and the baselines alone.
Distil = Callable[[Mapping[str, str]], result.ShortDistillation]


@dataclasses.dataclass(frozen=True)
class Budget:
    """What a student may cost.

    Attributes:
      latency_ms: Of one inference, at every length.
      size_mb: Of the file, in units of 1,000,000 bytes; None for any.
    """

    latency_ms: float
    size_mb: float | None = None

    def allows(self, latency_ms: float, size_bytes: float) -> bool:
        """Whether a student is within the budget."""
        small = self.size_mb is None or size_bytes <= self.size_mb * 1e6
        return small and latency_ms <= self.latency_ms


def search(
    out: files.Path,
    recipe: config.Recipe,
    budget: Budget,
    *,
    measure: measuring.Measure,
    convert: measuring.Convert | None = None,
    settings: Settings | None = None,
    count: int = 6,
    effort: Effort | None = None,
    distil: Distil | None = None,
    command: Sequence[str] = (),
    overwrite: bool = False,
    progress: bool = False,
) -> result.SearchResult:
    """Proposes parts of a teacher within a budget, each as a recipe that is ready to run.

    A few files with random weights are exported and measured on the device; latency and size of
    all other shapes are fitted to them. Of those within the budget that no other beats in latency,
    size, parameters of the layers and depth, a few of different depths are exported, measured and
    written as recipes. Groups of measurements are kept: a stopped search continues from there.

    Args:
      out: The folder: search.json, search.txt, recipes/*.yaml, measurements/.
      recipe: That of all proposals, but for the student: its teacher, which students are cut out
        of, its data, lengths, quantization and threads.
      budget: What a student may cost.
      measure: Measures files on the device, see `devices`.
      convert: Writes files with random weights; the export by default.
      settings: How to measure; its threads and lengths are those of `recipe`.
      count: How many students to propose.
      effort: How much to measure.
      distil: Trains the proposals a little, which then are ranked by what they reach; None where
        nothing is trained.
      command: The command line, for the record.
      overwrite: Whether an earlier search is replaced.
      progress: Whether to draw progress bars on stderr, if that is a terminal.

    Returns:
      The result, as written to search.json.

    Raises:
      ConfigError: If an argument is not valid, or no student can keep the budget: the message
        names the fastest and the smallest.
      OutputExistsError: If there is a result and `overwrite` is not given.
      BenchmarkError: If something cannot be measured.
      ExportError: If a file cannot be made.
    """
    folder, effort = pathlib.Path(out), effort or Effort()
    quantize, lengths = recipe.export.quantize, recipe.export_lengths
    threads, length = recipe.benchmark.threads[0], max(lengths)
    _check(folder, budget, lengths, count, overwrite)
    teacher = shapes.teacher_shape(recipe.teacher.source)
    candidates = shapes.candidates(teacher, quantize=quantize)
    head = _head(recipe.data)
    with work_folder.WorkFolder(folder, KIND).open(resume=not overwrite, overwrite=overwrite):
        if distil is not None:
            distil({})  # a teacher that answers near chance is refused before anything is measured
        settings = dataclasses.replace(
            settings or Settings(), threads=(threads,), lengths=lengths, texts=False
        )
        convert = convert or measuring.converter(quantize, lengths, head)
        place = folder / "measurements"
        device = StudentBench(place, measure, convert, settings, quantize, progress=progress)
        learned = estimating.learn(
            device, candidates, teacher, budget.latency_ms, length, head, effort
        )
        estimates = list(learned.estimates.values())
        reserve = 1 + min(learned.errors.median, _LARGEST_RESERVE)
        within = [e for e in estimates if budget.allows(reserve * e.latency_ms, e.size_bytes)]
        if not within:
            raise errors.ConfigError(_impossible(estimates, budget))
        best = estimating.front(within)
        within_budget, over_budget = _within_when_measured(
            device, estimating.by_depth(best), budget, count
        )
        learned.files["proposal"] = [*within_budget, *over_budget]
        trained = None
        if distil is not None and within_budget:
            trained = distil(
                {file.candidate.name: str(file.candidate.part) for file in within_budget}
            )
        first = device.results[0]
        outcome = result.SearchResult(
            created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            tfdistill_version=__version__,
            command=tuple(command),
            kind=first.kind,
            backend=first.backend,
            device=first.device,
            runtime=first.runtime,
            settings=dataclasses.asdict(settings),
            task=recipe.data.task or "",
            teacher=recipe.teacher.source,
            quantize=quantize,
            threads=threads,
            latency_ms=budget.latency_ms,
            size_mb=budget.size_mb,
            lengths=lengths,
            coefficients=learned.coefficients,
            errors=learned.errors,
            num_candidates=len(candidates),
            num_within_budget=len(within),
            measurements=_measurements(learned),
            pareto=tuple(estimate.candidate.name for estimate in best),
            proposals=_proposals(within_budget, learned, length, trained),
            over_budget=tuple(file.candidate.name for file in over_budget),
            distillation=trained,
        )
        recipes.write_recipes(folder, outcome, recipe)
        text = result.format_text(outcome, width=_FILE_WIDTH)
        files.atomic_write_text(folder / "search.txt", text + "\n")
        files.atomic_write_json(folder / result.FILE_NAME, outcome.model_dump(mode="json"))
        return outcome


def _head(data: config.DataConfig) -> str:
    """What files of a task answer; a task that is not known is about whole texts."""
    from tfdistill.data import from_config

    try:
        task = from_config.declared_task(data)
    except errors.TfdistillError:
        return "sequence"
    return models.head_for(task.head, 2).kind


def _check(
    folder: pathlib.Path, budget: Budget, lengths: tuple[int, ...], count: int, overwrite: bool
) -> None:
    faults = [
        errors.explain(name, "more than 0", value)
        for name, value in (("latency_ms", budget.latency_ms), ("size_mb", budget.size_mb))
        if value is not None and not (math.isfinite(value) and value > 0)
    ]
    if min(lengths) < 3 or len(set(lengths)) < len(lengths):
        faults.append(
            errors.explain("export.lengths", "different ones of 3 tokens and more", lengths)
        )
    if count < 1:
        faults.append(errors.explain("count", "at least 1", count))
    if faults:
        raise errors.ConfigError("\n".join(faults))
    work_folder.WorkFolder(folder, KIND).check(resume=not overwrite, overwrite=overwrite)
    if (folder / result.FILE_NAME).exists() and not overwrite:
        raise errors.OutputExistsError(
            str(folder / result.FILE_NAME),
            "an absent file",
            "an earlier result",
            "Use --overwrite or another --out.",
        )
    work_folder.check_ours(folder, ["recipes/"])


def _within_when_measured(
    device: StudentBench, ordered: list[Estimate], budget: Budget, count: int
) -> tuple[list[MeasuredStudent], list[MeasuredStudent]]:
    """Measures the first ones; where some break the budget, the next ones replace them."""
    within_budget: list[MeasuredStudent] = []
    over_budget: list[MeasuredStudent] = []
    ordered = ordered[: _TRIES * count]
    while ordered and len(within_budget) < count:
        room = count - len(within_budget)
        chosen, ordered = ordered[:room], ordered[room:]
        for file in device.measure([estimate.candidate for estimate in chosen], "proposals"):
            allowed = budget.allows(max(file.p50_ms.values()), file.size_bytes)
            (within_budget if allowed else over_budget).append(file)
    return within_budget, over_budget


def _impossible(estimates: Sequence[Estimate], budget: Budget) -> str:
    fastest = min(estimates, key=lambda estimate: estimate.latency_ms)
    smallest = min(estimates, key=lambda estimate: estimate.size_bytes)
    size_mb = "any size" if budget.size_mb is None else f"{budget.size_mb:g} MB"
    return errors.explain(
        "budget",
        "one that a student can keep",
        f"{budget.latency_ms:g} ms and {size_mb}",
        f"The fastest is {fastest.candidate.name}: {fastest.latency_ms:.3g} ms; the smallest is "
        f"{smallest.candidate.name}: {smallest.size_bytes / 1e6:.1f} MB. Most of a small file is "
        "the word table.",
    )


def _measurements(learned: Learned) -> tuple[result.MeasuredShape, ...]:
    return tuple(
        result.MeasuredShape(
            role=role,
            name=file.candidate.name,
            p50_ms=file.p50_ms,
            predicted_ms=learned.estimates[file.candidate.name].latency_ms,
            size_bytes=file.size_bytes,
            predicted_size_bytes=round(learned.estimates[file.candidate.name].size_bytes),
        )
        for role, measured in learned.files.items()
        for file in measured
    )


def _proposals(
    students: Sequence[MeasuredStudent],
    learned: Learned,
    length: int,
    trained: result.ShortDistillation | None,
) -> tuple[result.Proposal, ...]:
    """The students, those with the best metric first, or those of the largest capacity."""
    reached = {} if trained is None else trained.figures.students
    proposals = [
        result.Proposal(
            name=file.candidate.name,
            preset=str(file.candidate.part),
            config=dataclasses.asdict(file.candidate.config),
            recipe=f"recipes/{file.candidate.name}.yaml",
            latency_ms=estimate.latency_ms,
            measured_ms=file.p50_ms[length],
            measured_ci_ms=file.p50_ci_ms[length],
            size_bytes=round(estimate.size_bytes),
            measured_size_bytes=file.size_bytes,
            capacity=estimate.capacity,
            parameters=models.count_parameters(file.candidate.config),
            flops=models.flops(file.candidate.config, length),
            metric=reached.get(file.candidate.name),
        )
        for file, estimate in ((f, learned.estimates[f.candidate.name]) for f in students)
    ]
    return tuple(sorted(proposals, key=lambda p: (-(p.metric or 0.0), -p.capacity)))
