"""The budgets of quickstart: latency and size choose the student, minutes bound its training."""

from __future__ import annotations

import argparse
import math
import pathlib
import sys
from typing import TYPE_CHECKING

from tfdistill import config, errors, models, results
from tfdistill.commands import measurement_options, options

if TYPE_CHECKING:
    from tfdistill.commands.quickstart_plan import QuickstartPlan
    from tfdistill.run.durations import TimedPart

_FEWEST_STEPS = 100  # of a student that is worth its run
_JOINT = "joint"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the budgets, and the device that the latency is measured on."""
    group = parser.add_argument_group("budget, which chooses the largest student within it")
    text = "median of an inference at the longest length, on one thread (default: any)"
    group.add_argument("--latency-ms", type=float, metavar="MS", help=text)
    options.add_field(group, config.ExportConfig, "size_mb", metavar="MB")
    text = "the whole command; the student gets fewer steps (default: any)"
    group.add_argument("--max-minutes", type=float, metavar="MIN", help=text)
    measurement_options.add_device(group)


def check(args: argparse.Namespace) -> None:
    """Refuses budgets that no student can have, and options that do not belong together."""
    faults = measurement_options.device_faults(args)
    budgets = {"--latency-ms": args.latency_ms, "--size-mb": args.size_mb}
    for option, value in {**budgets, "--max-minutes": args.max_minutes}.items():
        if value is not None and not (math.isfinite(value) and value > 0):
            faults.append(errors.explain(option, "a number above 0", value))
    chosen = "--answers" if args.answers else "--student" if args.student else ""
    if args.latency_ms is not None and chosen:
        remedy = "A latency chooses a part of the teacher: leave one of the two out."
        faults.append(errors.explain("--latency-ms", f"no {chosen}", "both", remedy))
    if args.device == "adb" and args.latency_ms is None:
        faults.append(errors.explain("--device adb", "--latency-ms", "none"))
    if faults:
        raise errors.ConfigError("\n".join(faults))


def earlier(folder: pathlib.Path, args: argparse.Namespace) -> results.QuickstartRecord | None:
    """The record of the run that --resume continues with equal budgets; None where none is."""
    file = folder / results.QUICKSTART_FILE
    if not args.resume or not file.is_file() or not (folder / config.RECIPE_FILE).is_file():
        return None
    record = results.read_result_file(file, results.QuickstartRecord)
    before = (record.latency_ms, record.size_mb, record.max_minutes)
    now = (args.latency_ms, args.size_mb, args.max_minutes)
    if before != now:
        remedy = "Resume with the same, or start again with --overwrite."
        raise errors.ConfigError("--resume, latency, size, minutes", before, now, remedy)
    return record


def within(
    plan: QuickstartPlan, args: argparse.Namespace, earlier_run: pathlib.Path | None
) -> QuickstartPlan:
    """Brings a plan into the budgets; student and steps of an earlier run stay as they are."""
    if args.size_mb is not None:
        note = f"word table: as small as {args.size_mb:g} MB ask for"
        plan = plan.changed(note, {"export.size_mb": args.size_mb})
    if earlier_run is not None:
        return _as_before(plan, earlier_run)
    plan = _fit_student(plan, args)
    return bound_steps(plan, plan.parts, args.max_minutes)


def _as_before(plan: QuickstartPlan, folder: pathlib.Path) -> QuickstartPlan:
    """The plan with the metrics, the student and the steps that a folder's recipe has."""
    saved = config.saved_recipe(folder)
    if saved is None:
        return plan
    plan = plan.changed("metrics: as before", {"data.metrics": saved.data.metrics})
    plan = plan.with_student(saved.student.preset, "student: as before")
    stage = saved.stages.get(_JOINT)
    if stage is None:
        return plan
    return plan.changed("steps: as before", _steps(stage.steps, stage.min_steps))


def _fit_student(plan: QuickstartPlan, args: argparse.Namespace) -> QuickstartPlan:
    """Chooses the student by latency and size, unless it was named."""
    if args.answers or args.student or (args.latency_ms is None and args.size_mb is None):
        return plan
    from tfdistill.budget import fitting
    from tfdistill.run import durations

    if args.latency_ms is not None:
        print("measuring students with random weights, to keep the budget", file=sys.stderr)

    recipe, teacher = plan.recipe, plan.teacher
    if type(teacher) is not models.EncoderConfig or teacher.family in ("electra", "mobilebert"):
        raise errors.ConfigError(
            "--latency-ms, --size-mb", "a BERT, TinyBERT or DistilBERT to cut a student out of",
            f"{args.teacher}", "Name the student with --student.",
        )  # fmt: skip
    lengths = durations.file_lengths(recipe, plan.tokens, teacher)
    latency_ms = math.inf if args.latency_ms is None else args.latency_ms
    fitted = fitting.largest(
        teacher,
        fitting.Budget(latency_ms, args.size_mb),
        measure=measurement_options.measurer(args),
        length=max(lengths),
        num_lengths=len(lengths),
        quantize=recipe.export.quantize,
        threads=min(recipe.benchmark.threads),
        head=models.head_for(plan.data.task.head, 2).kind,
    )
    if fitted.config == teacher:
        note = "student: the teacher itself, which is within the budget"
        return plan.with_student(config.TEACHER, note, fitted)
    note = f"student: {fitted.part}, the largest part of the teacher within the budget"
    return plan.with_student(str(fitted.part), note, fitted)


def bound_steps(
    plan: QuickstartPlan, parts: list[TimedPart], max_minutes: float | None
) -> QuickstartPlan:
    """Takes so many of the student's steps away that the estimate keeps the budget, or refuses."""
    seconds = sum(part.seconds for part in parts)
    if max_minutes is None or seconds <= 60 * max_minutes:
        return plan
    trained = next((part for part in reversed(parts) if part.steps), None)
    if trained is None or _JOINT not in plan.recipe.stages:
        raise _too_short(seconds, max_minutes, "No student is trained, whose steps could be fewer.")
    rest = seconds - trained.steps * trained.step_seconds
    steps = int((60 * max_minutes - rest) / trained.step_seconds)
    fewest = min(_FEWEST_STEPS, trained.steps)
    if steps < fewest:
        raise _too_short(
            rest + fewest * trained.step_seconds,
            max_minutes,
            f"{fewest} steps of the student take that long, with all that comes before and after "
            "them.",
        )
    note = f"steps: {steps} of {trained.steps}, to keep {max_minutes:g} minutes"
    return plan.changed(note, _steps(steps, None))


def _steps(steps: int | None, min_steps: int | None) -> dict[str, int | None]:
    """The keys that bound the student's steps."""
    return {f"stages.{_JOINT}.steps": steps, f"stages.{_JOINT}.min_steps": min_steps}


def _too_short(seconds: float, max_minutes: float, why: str) -> errors.ConfigError:
    return errors.ConfigError(
        "--max-minutes", f"at least {math.ceil(seconds / 6) / 10:g} on this machine",
        f"{max_minutes:g}", f"{why} Name a smaller --teacher, or give fewer rows.",
    )  # fmt: skip
