"""`search`: measure a few shapes, estimate the others, measure and distil the best a little."""

from __future__ import annotations

import dataclasses
import datetime
import math
import pathlib
from collections.abc import Callable, Mapping, Sequence

from tfdistill import config, errors, models
from tfdistill._version import __version__
from tfdistill.benchmark.settings import Settings
from tfdistill.io import files, work_folder
from tfdistill.results import quantities
from tfdistill.search import costs, estimating, measuring, recipes, result, shapes
from tfdistill.search.estimating import CostModel, Estimate
from tfdistill.search.measuring import StudentBench

KIND = "search"
_FILE_WIDTH = 200  # of search.txt, which no terminal limits
_ROUNDS = 3  # of measuring the best, each by a fit to all earlier measurements
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
    distil: Distil | None = None,
    command: Sequence[str] = (),
    overwrite: bool = False,
    progress: bool = False,
) -> result.SearchResult:
    """Proposes parts of a teacher within a budget, each as a recipe that is ready to run.

    A few files with random weights are exported and measured on the device; latency and size of
    all other shapes are fitted to them. Of those within the budget that no other beats in latency,
    size, parameters of the layers and depth, a few of different depths are exported and measured;
    the fit takes them in, and other ones may take the place of those that break the budget. The
    best measured ones are written as recipes. Groups of measurements are kept: a stopped search
    continues from there.

    Args:
      out: The folder: search.json, search.txt, recipes/*.yaml, measurements/.
      recipe: That of all proposals, but for the student: its teacher, which students are cut out
        of, its data, lengths, quantization and threads.
      budget: What a student may cost.
      measure: Measures files on the device.
      convert: Writes files with random weights; the export by default.
      settings: How to measure; its threads and lengths are those of `recipe`.
      count: How many students to propose.
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
    folder = pathlib.Path(out)
    # Where none are named, the run of a proposal gets lengths that fit its texts: none is slower
    # than the longest, which is measured.
    quantize, lengths = recipe.export.quantize, recipe.export.lengths or (recipe.data.max_length,)
    threads, length = recipe.benchmark.threads[0], max(lengths)
    _check(folder, budget, min(lengths), count, overwrite)
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
        device = StudentBench(place, measure, convert, settings, quantize, head, progress)
        model = CostModel(candidates, length, head)
        device.measure(model.anchors(teacher), "anchor")
        within = _measure_best(device, model, budget, count)
        chosen = estimating.by_depth(estimating.front(within))[:count]
        trained = None
        if distil is not None and chosen:
            trained = distil({e.candidate.name: str(e.candidate.part) for e in chosen})
        first = device.results[0]
        outcome = result.SearchResult(
            created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            tfdistill_version=__version__,
            command=tuple(command),
            kind=first.kind,
            device=first.device,
            task=recipe.data.task or "",
            teacher=recipe.teacher.source,
            quantize=quantize,
            threads=threads,
            latency_ms=budget.latency_ms,
            size_mb=budget.size_mb,
            lengths=lengths,
            measurements=tuple(device.measured.values()),
            proposals=_proposals(chosen, device.measured, length, trained),
            over_budget=tuple(
                name
                for name, file in device.measured.items()
                if file.role == "proposal" and name not in {e.candidate.name for e in within}
            ),
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
    folder: pathlib.Path, budget: Budget, shortest: int, count: int, overwrite: bool
) -> None:
    faults = [
        errors.explain(name, "more than 0", value)
        for name, value in (("latency_ms", budget.latency_ms), ("size_mb", budget.size_mb))
        if value is not None and not (math.isfinite(value) and value > 0)
    ]
    if shortest < 3:
        faults.append(errors.explain("export.lengths", "3 tokens and more", shortest))
    if count < 1:
        faults.append(errors.explain("count", "at least 1", count))
    if faults:
        raise errors.ConfigError("\n".join(faults))
    work_folder.WorkFolder(folder, KIND).check(resume=not overwrite, overwrite=overwrite)
    work_folder.check_file(folder / result.FILE_NAME, overwrite=overwrite)
    work_folder.check_ours(folder, ["recipes/"])


def _measure_best(
    device: StudentBench, model: CostModel, budget: Budget, count: int
) -> list[Estimate]:
    """Measures the best by prediction until those are measured; lists what is within the budget."""
    for _ in range(_ROUNDS):
        best = _best(model.estimates(device.measured), budget, count)
        predicted = {e.candidate.name: e for e in best if not e.measured}
        if not predicted:
            break
        device.measure([estimate.candidate for estimate in predicted.values()], "proposal")
        for name, estimate in predicted.items():
            costs_before = {
                "predicted_ms": estimate.latency_ms,
                "predicted_size_bytes": round(estimate.size_bytes),
            }
            device.measured[name] = device.measured[name].model_copy(update=costs_before)
    estimates = [e for e in model.estimates(device.measured) if e.measured]
    return [e for e in estimates if budget.allows(e.latency_ms, e.size_bytes)]


def _best(estimates: Sequence[Estimate], budget: Budget, count: int) -> list[Estimate]:
    within = [e for e in estimates if budget.allows(e.latency_ms, e.size_bytes)]
    if not within:
        raise errors.ConfigError(_impossible(estimates, budget))
    return estimating.by_depth(estimating.front(within))[:count]


def _impossible(estimates: Sequence[Estimate], budget: Budget) -> str:
    fastest = min(estimates, key=lambda estimate: estimate.latency_ms)
    smallest = min(estimates, key=lambda estimate: estimate.size_bytes)
    size_mb = "any size" if budget.size_mb is None else f"{budget.size_mb:g} MB"
    return errors.explain(
        "budget",
        "one that a student can keep",
        f"{budget.latency_ms:g} ms and {size_mb}",
        f"The fastest is {fastest.candidate.name}: {fastest.latency_ms:.3g} ms; the smallest is "
        f"{smallest.candidate.name}: {quantities.size(smallest.size_bytes)}. Most of a small file "
        "is the word table.",
    )


def _proposals(
    chosen: Sequence[Estimate],
    measured: Mapping[str, result.MeasuredShape],
    length: int,
    trained: result.ShortDistillation | None,
) -> tuple[result.Proposal, ...]:
    """The students, those with the best metric first, or those of the largest capacity."""
    reached = {} if trained is None else trained.figures.students
    proposals = [
        result.Proposal(
            name=candidate.name,
            preset=str(candidate.part),
            config=dataclasses.asdict(candidate.config),
            recipe=f"recipes/{candidate.name}.yaml",
            latency_ms=measured[candidate.name].p50_ms[length],
            busy=length in measured[candidate.name].busy_lengths,
            size_bytes=measured[candidate.name].size_bytes,
            capacity=costs.capacity(candidate.config),
            parameters=models.count_parameters(candidate.config),
            metric=reached.get(candidate.name),
        )
        for candidate in (estimate.candidate for estimate in chosen)
    ]
    return tuple(sorted(proposals, key=lambda p: (-(p.metric or 0.0), -p.capacity)))
