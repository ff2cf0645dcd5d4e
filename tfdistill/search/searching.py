"""`search`: measure blocks, learn the latency, propose students within a budget, measure them."""

from __future__ import annotations

import dataclasses
import datetime
import math
import pathlib
from collections.abc import Callable, Mapping, Sequence

from tfdistill import errors, files, work_folder
from tfdistill._version import __version__
from tfdistill.benchmark.settings import Settings
from tfdistill.search import bench, learning, page, pareto, proposals, recipes, result, space, work
from tfdistill.search.bench import CandidateBench, FileForm
from tfdistill.search.learning import Effort
from tfdistill.search.pareto import Budget, Estimate
from tfdistill.search.store import Reading, Store

KIND = "search"

_FILE_WIDTH = 200  # of search.txt, which no terminal limits
# Name -> short form of pruned students -> what each reaches after so many updates; of no student:
# the teacher and the baselines alone.
Distil = Callable[[Mapping[str, str]], result.ShortDistillation]
_TRIES = 3  # times as many students as are asked for are measured at most


def search(
    out: files.Path,
    budget: Budget,
    goal: recipes.Goal,
    *,
    measure: bench.Measure,
    convert: bench.Convert | None = None,
    settings: Settings | None = None,
    kinds: Sequence[str] | None = None,
    vocab_size: int = 30522,
    head: str = "sequence",
    count: int = 6,
    effort: Effort | None = None,
    distil: Distil | None = None,
    measurements: files.Path | None = None,
    command: Sequence[str] = (),
    overwrite: bool = False,
    progress: bool = False,
) -> result.SearchResult:
    """Proposes students within a budget, each as a recipe that is ready to run.

    Blocks with random weights, then whole students near the budget, are exported and measured on
    the device; a latency model is fitted to them and judged on whole students that it has not
    seen. Of all students that the method can teach, those whose predicted interval keeps the
    budget are compared, and a few of the front that differ are exported, measured and written as
    recipes. Everything measured is kept, file by file: a stopped search resumes, and
    another budget on the same device measures little.

    Args:
      out: The folder: search.json, recipes/*.yaml, measurements/.
      budget: What a student may cost.
      goal: What its recipe is for: method, teacher, task, lengths, quantization, threads.
      measure: Measures files on the device, see `devices`.
      convert: Writes files with random weights; the export by default.
      settings: How to measure; its threads and lengths are those of `goal`.
      kinds: Some of `space.METHOD_KINDS[method]`; all by default.
      vocab_size: Rows of the word table.
      head: "sequence", "token" or "span": what the task's files answer.
      count: How many students to propose.
      effort: How much to measure.
      distil: Trains the proposals a little, which then are ranked by what they reach; None where
        nothing is trained. Pruned students only.
      measurements: Where readings are kept; ``out/measurements`` by default.
      command: The command line, for the record.
      overwrite: Whether an earlier result may be replaced; its readings are used.
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
    _check(folder, budget, goal, head, count, overwrite)
    work_folder.check_ours(folder, ["recipes/", "report.html", "report.md", "report-tables/"])
    if distil is not None:
        if goal.method != "pruned":
            expected = "pruned students, which start close to their teacher"
            raise errors.ConfigError("short distillation", expected, goal.method)
        distil({})  # a teacher that answers near chance is refused before anything is measured
    with work_folder.WorkFolder(folder, KIND).open(resume=True):
        candidates = space.candidates(
            goal.method,
            goal.teacher,
            kinds=kinds,
            quantize=goal.quantize,
            vocab_size=vocab_size,
            max_length=max(goal.lengths),
        )
        form = FileForm(goal.quantize, goal.lengths, head)
        settings = dataclasses.replace(settings or Settings(), threads=(goal.threads,))
        store = Store(measurements or folder / "measurements")
        convert = convert or bench.converter(form)
        with CandidateBench(measure, convert, store, form, settings, progress=progress) as device:
            known = learning.learn(device, candidates, budget, form, effort)
            estimates = learning.estimates(candidates, known, form)
            within = [e for e in estimates if budget.allows(e)]
            if not within:
                raise errors.ConfigError(_impossible(estimates, budget))
            best = pareto.front(within)
            chosen, broken = _verify(device, best, budget, known, count)
            teacher = _teacher(device, goal) if goal.method == "pruned" else None
        trained = None
        if distil is not None:
            students = [estimate.candidate for estimate, _ in chosen]
            trained = distil({c.name: recipes.pruned_preset(c) for c in students})
        proposed = proposals.write_recipes(folder, chosen, goal, device.first, trained)
        found = result.SearchResult(
            created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            tfdistill_version=__version__,
            command=tuple(command),
            kind=device.first.kind,
            backend=device.first.backend,
            device=device.first.device,
            runtime=device.first.runtime,
            settings=dataclasses.asdict(settings),
            method=goal.method,
            task=goal.task,
            teacher={k: v for k, v in dataclasses.asdict(goal.teacher).items() if k != "config"},
            quantize=goal.quantize,
            threads=goal.threads,
            latency_ms=budget.latency_ms,
            size_mb=budget.size_mb,
            lengths=goal.lengths,
            num_candidates=len(candidates),
            num_within_budget=len(within),
            models=proposals.length_models(known, form),
            measurements=proposals.measured(known, form),
            pareto=tuple(e.candidate.name for e in best),
            proposals=proposed,
            over_budget=tuple(e.candidate.name for e in broken),
            measured_teacher=teacher,
            distillation=trained,
            warnings=proposals.warnings(known, form, proposed, broken, count),
        )
        files.atomic_write_json(folder / result.FILE_NAME, found.model_dump(mode="json"))
        files.atomic_write_text(
            folder / "search.txt", result.format_text(found, width=_FILE_WIDTH) + "\n"
        )
        if trained is not None:
            page.write(found, folder)
        return found


def _teacher(device: CandidateBench, goal: recipes.Goal) -> result.MeasuredTeacher | None:
    """Measures a file of the teacher's shape in the format of the students."""
    shape = goal.teacher.config
    if shape is None:
        return None
    kind = "relu" if shape.hidden_act == "relu" else "gelu"
    (reading,) = device.readings([space.Candidate(kind, shape)], "teacher")
    longest = max(goal.lengths)
    return result.MeasuredTeacher(
        measured_ms=reading.p50_ms[longest],
        measured_ci_ms=reading.p50_ci_ms[longest],
        measured_size_bytes=reading.size_bytes,
    )


def _check(
    folder: pathlib.Path, budget: Budget, goal: recipes.Goal, head: str, count: int, overwrite: bool
) -> None:
    faults = [
        errors.explain(name, "more than 0", value)
        for name, value in (("latency_ms", budget.latency_ms), ("size_mb", budget.size_mb))
        if value is not None and not (math.isfinite(value) and value > 0)
    ]
    lengths = goal.lengths
    if not lengths or min(lengths) < 3 or max(lengths) > 512 or len(set(lengths)) < len(lengths):
        faults.append(errors.explain("lengths", "different ones of 3 to 512 tokens", lengths))
    if goal.threads < 1:
        faults.append(errors.explain("threads", "at least 1", goal.threads))
    if count < 1:
        faults.append(errors.explain("count", "at least 1", count))
    if head not in work.HEADS:
        faults.append(errors.explain("head", f"one of {work.HEADS}", repr(head)))
    if faults:
        raise errors.ConfigError("\n".join(faults))
    work_folder.WorkFolder(folder, KIND).check(resume=not overwrite, overwrite=overwrite)
    if (folder / result.FILE_NAME).exists() and not overwrite:
        raise errors.OutputExistsError(
            str(folder / result.FILE_NAME),
            "an absent file",
            "an earlier result",
            "Use --overwrite; what was measured is not measured again.",
        )


def _impossible(estimates: Sequence[Estimate], budget: Budget) -> str:
    fastest = min(estimates, key=lambda e: e.interval_ms[1])
    smallest = min(estimates, key=lambda e: e.size_bytes)
    size_mb = "any size" if budget.size_mb is None else f"{budget.size_mb:g} MB"
    return errors.explain(
        "budget",
        "one that a student can keep",
        f"{budget.latency_ms:g} ms and {size_mb}",
        f"The fastest is {fastest.candidate.name}: {fastest.latency_ms:.3g} ms (90%: "
        f"{fastest.interval_ms[0]:.3g} to {fastest.interval_ms[1]:.3g}); the smallest is "
        f"{smallest.candidate.name}: {smallest.size_bytes / 1e6:.1f} MB. Most of a small file is "
        "the word table: a smaller vocabulary (--vocab-size) makes it shorter.",
    )


def _verify(
    device: CandidateBench,
    best: Sequence[Estimate],
    budget: Budget,
    known: learning.Known,
    count: int,
) -> tuple[list[tuple[Estimate, Reading]], list[Estimate]]:
    """Measures the chosen ones; where some break the budget, the next ones replace them."""
    ordered = pareto.diverse(best, _TRIES * count)
    kept: list[tuple[Estimate, Reading]] = []
    broken: list[Estimate] = []
    while ordered and len(kept) < count:
        wanted, ordered = ordered[: count - len(kept)], ordered[count - len(kept) :]
        readings = device.readings([e.candidate for e in wanted], "proposals")
        for estimate, reading in zip(wanted, readings, strict=True):
            known.proposals.append((estimate.candidate, reading))
            if proposals.keeps(reading, budget):
                kept.append((estimate, reading))
            else:
                broken.append(estimate)
    return kept, broken
