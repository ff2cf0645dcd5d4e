"""A quickstart within its budgets: student, format, word table and steps that keep them."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import math
import pathlib
import sys
from typing import TYPE_CHECKING

from tfdistill import config, errors, models
from tfdistill.budget import costs, word_tables
from tfdistill.commands import measurement_options
from tfdistill.compress import factorisation
from tfdistill.run import durations

if TYPE_CHECKING:
    from tfdistill.commands.quickstart_plan import QuickstartPlan
    from tfdistill.run.durations import TimedPart

_IN_4_BITS = "dynamic_wi4_afp32_block32"
_FORMATS = ("quantize", "also_quantize", "goal_mb", "lengths")
_GOALS_MB = (9.0, 12.0, 18.0, 36.0)  # of a file whose size nobody named: the first that can be
# Of 12 layers 11 missed 6% of the variance of their teacher's answers, 10 missed 45%.
_LAYERS_KEPT = 0.9
_FEWEST_STEPS = 100  # of a student that is worth its run
_JOINT = "joint"
_AS_IN_THE_FILE = {
    f"stages.{_JOINT}.compress": {"method": "quantize", "bits": 4},
    f"stages.{_JOINT}.precision": "float32",
}


def within(
    plan: QuickstartPlan, args: argparse.Namespace, earlier_run: pathlib.Path | None
) -> QuickstartPlan:
    """Brings a plan into the budgets; student and steps of an earlier run stay as they are."""
    if args.size_mb is not None:
        plan = plan.changed(f"size: at most {args.size_mb:g} MB", {"export.size_mb": args.size_mb})
    if earlier_run is not None:
        return _as_before(plan, earlier_run)
    plan = _fit_words(_with_lengths(_with_goal(_fit_student(plan, args))))
    if args.student is None:
        plan = _with_factors(plan)
    return bound_steps(plan, plan.parts, args.max_minutes)


def _as_before(plan: QuickstartPlan, folder: pathlib.Path) -> QuickstartPlan:
    saved = config.saved_recipe(folder)
    if saved is None:
        return plan
    plan = plan.changed("metrics: as before", {"data.metrics": saved.data.metrics})
    plan = plan.with_student(saved.student.preset, "student: as before")
    as_before = {f"export.{key}": getattr(saved.export, key) for key in _FORMATS}
    plan = plan.changed("formats: as before", as_before)
    plan = _fit_words(plan)
    if saved.data.cut is not None:
        pieces = {"data.cut": saved.data.cut.model_dump(mode="json")}
        plan = plan.changed("vocabulary: as before", pieces)
    stage = saved.stages.get(_JOINT)
    if stage is None:
        return plan
    values = stage.model_dump(mode="json")
    trained_as = {key: values[key.rpartition(".")[2]] for key in _AS_IN_THE_FILE}
    return plan.changed("steps: as before", {**_steps(stage.steps, stage.min_steps), **trained_as})


def _fit_student(plan: QuickstartPlan, args: argparse.Namespace) -> QuickstartPlan:
    is_named = args.latency_ms is not None or args.size_mb is not None
    if args.answers or args.student or not (is_named or plan.is_open):
        return plan
    from tfdistill.budget import fitting

    if args.latency_ms is not None:
        print("measuring students with random weights, to keep the budget", file=sys.stderr)

    recipe, teacher = plan.recipe, plan.teacher
    if type(teacher) is not models.EncoderConfig or teacher.family in ("electra", "mobilebert"):
        raise errors.ConfigError(
            "--latency-ms, --size-mb", "a BERT, TinyBERT or DistilBERT to cut a student out of",
            f"{args.teacher}", "Name the student with --student.",
        )  # fmt: skip
    formats = [recipe.export.quantize]
    sized = args.size_mb is not None or plan.is_open
    if sized and teacher.hidden_size % 32 == teacher.intermediate_size % 32 == 0:
        formats.append(_IN_4_BITS)
    fit = functools.partial(
        fitting.largest,
        teacher,
        latency_ms=args.latency_ms,
        measure=measurement_options.measurer(args),
        lengths=durations.file_lengths(recipe, plan.tokens, teacher),
        formats=formats,
        least_table=plan.least_table,
        threads=min(recipe.benchmark.threads),
        head=models.head_for(plan.data.task.head, 2).kind,
    )
    within = "within the budget"
    if is_named:
        chosen, latency_ms, quantize = fit(size_mb=args.size_mb)
    else:
        at_least = teacher.replace(num_layers=math.ceil(_LAYERS_KEPT * teacher.num_layers))
        for size_mb in _GOALS_MB:
            with contextlib.suppress(errors.ConfigError):  # no part is that deep and small
                chosen, latency_ms, quantize = fit(size_mb=size_mb, at_least=at_least)
                within = f"in {size_mb:g} MB"
                break
        else:
            return plan
    if plan.cut is not None and plan.cut.table is not None:
        within += f" beside a word table of at least {word_tables.LEAST_DB:g} dB"
    if quantize != recipe.export.quantize:
        note = (
            f"format: {quantize}, which holds more of the teacher; it needs LiteRT 2.1.2 or later"
        )
        plan = plan.changed(note, {"export.quantize": quantize, "export.also_quantize": [quantize]})
    if chosen.config == teacher and quantize != _IN_4_BITS:  # which it has to learn
        note = f"student: the teacher itself, which is {within}"
        return plan.with_student(config.TEACHER, note, latency_ms)
    note = f"student: {chosen.part}, the largest part of the teacher {within}"
    note += "" if is_named else "; --latency-ms, --size-mb and --student choose others"
    plan = plan.with_student(str(chosen.part), note, latency_ms)
    stage = plan.recipe.stages.get(_JOINT)
    if quantize != _IN_4_BITS or stage is None or stage.precision == "mixed_bfloat16":
        return plan
    if stage.compress is not None:
        return plan
    note = "the student is trained with its matrices rounded to 4 bits, as its file has them"
    return plan.changed(note, _AS_IN_THE_FILE)


def _with_goal(plan: QuickstartPlan) -> QuickstartPlan:
    """Lets a large table of words shrink where the development set shows that it costs little."""
    export, size_bytes = plan.recipe.export, plan.size_bytes
    bounded = export.size_mb or export.variants or plan.data.cross_fitted
    if bounded or size_bytes is None or size_bytes <= 1e6 * _GOALS_MB[0]:
        return plan
    least = (plan.bytes_but_words + plan.least_table(plan.student, export.quantize)) / 1e6
    goal = next((goal for goal in _GOALS_MB if least <= goal), _GOALS_MB[0])
    note = (
        f"file: {goal:g} MB, its word table smaller, if the development set shows that this costs "
        "less than a point; else as large as said below"
    )
    return plan.changed(note, {"export.goal_mb": goal})


def _with_lengths(plan: QuickstartPlan) -> QuickstartPlan:
    """Names the lengths of a file whose size is bounded: each takes room of words."""
    export = plan.recipe.export
    if export.lengths or not (export.size_mb or export.goal_mb):
        return plan
    chosen = durations.file_lengths(plan.recipe, plan.tokens, plan.student)
    note = f"lengths of the file, by the training texts: {', '.join(map(str, chosen))} tokens"
    return plan.changed(note, {"export.lengths": chosen})


def _fit_words(plan: QuickstartPlan) -> QuickstartPlan:
    """Chooses the pieces that the student leaves room for, and says how texts fare with them."""
    from tfdistill.run import cutting

    cut, shape, export = plan.cut, plan.student, plan.recipe.export
    if cut is None:
        return plan
    bounded: dict[str, int] = {}
    most = export.size_mb or export.goal_mb
    if cut.table is not None and most is not None:
        room = 1e6 * most - plan.bytes_but_words
        form = cut.table.fit(shape.replace(embedding_size=None), room, export.quantize)
        num = cut.table.least if form is None else form.num_pieces
        bounded = {"data.cut.vocab_size": num} if num < len(cut.choice.ids) else {}
        cut = dataclasses.replace(cut, choice=cut.choice.first(num), form=form)
    sets = {"development": plan.data.sets.get("dev"), "test": plan.data.sets.get("test")}
    record = cutting.record(cut.tokenizer, cut.choice, sets)
    plan = plan.changed(cut.choice.note, bounded)
    notes = (*plan.notes, *(line.strip() for line in record.lines[1:]))
    teacher = plan.teacher and plan.teacher.replace(vocab_size=len(cut.choice.ids))
    return dataclasses.replace(plan, cut=cut, teacher=teacher, notes=notes)


def _with_factors(plan: QuickstartPlan) -> QuickstartPlan:
    """Trains a word table that has no room in the two factors in which the file stores it.

    The highest rank that has room beside most words: see decision 0018.
    """
    shape, export, stage = plan.student, plan.recipe.export, plan.recipe.stages.get(_JOINT)
    most = export.size_mb or export.goal_mb
    as_in_file = stage is not None and stage.compress is not None
    if most is None or not as_in_file or export.quantize != _IN_4_BITS:
        return plan
    if shape.embedding_size is not None or not config.is_pruned(plan.recipe.student.preset):
        return plan
    if plan.cut is not None:
        form = plan.cut.form
        rank = None if form is None or form.rank == shape.hidden_size else form.rank
    else:
        room = 1e6 * most - plan.bytes_but_words
        for rank in (None, *factorisation.ranks(shape.hidden_size)):
            if (
                costs.table_of_most_words(shape.replace(embedding_size=rank), export.quantize)
                <= room
            ):
                break
    if rank is None:
        return plan
    part = config.parse_pruned(plan.recipe.student.preset)
    others = tuple(note for note in plan.notes if not note.startswith("file: "))
    note = f"file: {most:g} MB; it and the student have a word table in two factors, rank {rank}"
    plan = dataclasses.replace(plan, notes=others)
    return plan.changed(note, {"student.preset": str(dataclasses.replace(part, embedding=rank))})


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
    return {f"stages.{_JOINT}.steps": steps, f"stages.{_JOINT}.min_steps": min_steps}


def _too_short(seconds: float, max_minutes: float, why: str) -> errors.ConfigError:
    return errors.ConfigError(
        "--max-minutes", f"at least {math.ceil(seconds / 6) / 10:g} on this machine",
        f"{max_minutes:g}", f"{why} Name a smaller --teacher, or give fewer rows.",
    )  # fmt: skip
