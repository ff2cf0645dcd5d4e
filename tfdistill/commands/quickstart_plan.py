"""What quickstart will do within its budgets, and what it says of it before it starts."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import math
import operator
import pathlib
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tfdistill import config, errors, models
from tfdistill.budget import costs
from tfdistill.commands import measurement_options
from tfdistill.results import quantities, tables
from tfdistill.run import durations

if TYPE_CHECKING:
    from tfdistill.budget.fitting import FittedShape
    from tfdistill.commands.quickstart_plan import QuickstartPlan
    from tfdistill.data.labelled_file import LabelledFile
    from tfdistill.run.durations import TimedPart

_BUSY = 1.5  # a training that is alone waits for its own threads: up to 1.45


@dataclasses.dataclass(frozen=True)
class QuickstartPlan:
    """A quickstart before it starts: its data, its recipe, and why that is so.

    `training` are the sections "stages" and "variants" of a student that is not its teacher,
    `teacher` is the teacher's shape, `tokens` are those of the training texts, (n,).
    """

    data: LabelledFile
    recipe: config.Recipe
    training: Mapping[str, Any]
    notes: tuple[str, ...]
    teacher: models.EncoderConfig | None
    tokens: np.ndarray
    fitted: FittedShape | None = None  # the student, where a budget chose it

    def with_student(
        self, preset: str, note: str, fitted: FittedShape | None = None
    ) -> QuickstartPlan:
        """Replaces the student; that of the preset "teacher" needs no training."""
        training = {"stages": {}, "variants": {}} if preset == config.TEACHER else self.training
        others = tuple(note for note in self.notes if not note.startswith("student: "))
        plan = dataclasses.replace(self, notes=others, fitted=fitted)
        return plan.changed(note, {**training, "student.preset": preset})

    def changed(self, note: str, values: Mapping[str, Any]) -> QuickstartPlan:
        """Replaces values of the recipe by their keys, such as "stages.joint.steps"."""
        recipe = self.recipe.model_dump(mode="json")
        for key, value in values.items():
            *sections, field = key.split(".")
            functools.reduce(operator.getitem, sections, recipe)[field] = value
        parsed = config.parse_recipe(recipe, source="quickstart")
        return dataclasses.replace(self, recipe=parsed, notes=(*self.notes, note))

    @functools.cached_property
    def student(self) -> models.EncoderConfig:
        """The student's shape."""
        return durations.student_of(self.recipe, self.teacher)

    @property
    def _speed(self) -> tuple[float, float]:
        """FLOP/s of this machine, and how many times as long it takes beside other programs."""
        tokens = round(float(self.tokens.clip(max=self.recipe.data.max_length).mean()))
        return durations.training_rate(self.teacher or self.student, max(tokens, 2))

    @functools.cached_property
    def parts(self) -> list[durations.TimedPart]:
        """The parts of the run, estimated on this machine."""
        return durations.estimate(
            self.recipe,
            self.teacher,
            None if self.recipe.student.is_teacher else self.student,
            {name: len(examples) for name, examples in self.data.sets.items()},
            self.tokens,
            self._speed[0],
        )

    @property
    def seconds(self) -> float:
        """The estimate of the whole."""
        return sum(part.seconds for part in self.parts)

    @property
    def size_bytes(self) -> float | None:
        """The estimate of the file; None of students whose file cannot be estimated."""
        if self.fitted is not None or type(self.student) is not models.EncoderConfig:
            return self.fitted and self.fitted.size_bytes
        lengths = durations.file_lengths(self.recipe, self.tokens, self.student)
        form = (self.student, max(lengths), len(lengths), self.recipe.export.quantize)
        whole, most = costs.file_bytes(*form), self.recipe.export.size_mb
        return whole if most is None else min(whole, max(costs.small_bytes(*form), 1e6 * most))

    def lines(self) -> list[str]:
        """The page for a terminal."""
        shape, size_bytes, (_, load) = self.student, self.size_bytes, self._speed
        facts = [
            f"{quantities.count(models.count_parameters(shape))} parameters in "
            f"{shape.num_layers} layers x {shape.hidden_size}"
        ]
        if size_bytes is not None:
            facts.append(f"about {quantities.size(size_bytes)} as {self.recipe.export.quantize}")
        if self.fitted is not None and self.fitted.latency_ms is not None:
            facts.append(
                f"{self.fitted.latency_ms:.3g} ms for {self.recipe.data.max_length} tokens with "
                "random weights"
            )
        slowed = f"; other programs make it {load:.1f} times as slow now"
        rows = [["step", "batches", "minutes"]]
        for number, part in enumerate(self.parts, start=1):
            steps = f"{part.steps:,}" if part.steps else "-"
            rows.append([f"{number}. {part.name}", steps, f"{part.seconds / 60:.1f}"])
        return [
            f"student: {', '.join(facts)}",
            *self._word_table(),
            "",
            *tables.table(rows),
            f"estimated: {self.seconds / 60:.1f} minutes on this machine"
            + (slowed if load >= _BUSY else ""),
        ]

    def _word_table(self) -> list[str]:
        """A line about the table of words, where the vocabulary is cut."""
        if self.recipe.data.cut is None:
            return []
        shape, quantize = self.student, self.recipe.export.quantize
        width, words = shape.embedding_size or shape.hidden_size, shape.vocab_size
        whole = costs.bytes_of_weight(quantize) * width * words
        line = f"word table: {words:,} pieces x {width}, {quantities.size(whole)} as {quantize}"
        size_mb, size_bytes = self.recipe.export.size_mb, self.size_bytes
        if size_mb is None or size_bytes is None:
            return [line]
        lengths = durations.file_lengths(self.recipe, self.tokens, shape)
        form = (shape, max(lengths), len(lengths), quantize)
        room = 1e6 * size_mb - (costs.file_bytes(*form) - whole)
        forms = {
            f"as {quantize}": whole,
            "in 4 bits": words * costs.word_bytes_in_4_bits(width),
            "in 4 bits and two factors": words * costs.small_word_bytes(shape),
        }
        fitting = next((name for name, count in forms.items() if count <= room), None)
        fits = f"fits {fitting}, {quantities.size(forms[fitting])}" if fitting else "is too large"
        return [f"{line}; within {size_mb:g} MB it {fits}"]

    def as_json(self) -> dict[str, Any]:
        """The page as a value."""
        return {
            "recipe": self.recipe.model_dump(mode="json"),
            "notes": list(self.notes),
            "parts": [dataclasses.asdict(part) for part in self.parts],
            "estimated_seconds": self.seconds,
            "load": self._speed[1],
            "student": {
                "parameters": models.count_parameters(self.student),
                "size_bytes": self.size_bytes,
                "vocab_size": self.student.vocab_size,
                "latency_ms": self.fitted and self.fitted.latency_ms,
            },
        }


_FEWEST_STEPS = 100  # of a student that is worth its run
_JOINT = "joint"


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
    return {f"stages.{_JOINT}.steps": steps, f"stages.{_JOINT}.min_steps": min_steps}


def _too_short(seconds: float, max_minutes: float, why: str) -> errors.ConfigError:
    return errors.ConfigError(
        "--max-minutes", f"at least {math.ceil(seconds / 6) / 10:g} on this machine",
        f"{max_minutes:g}", f"{why} Name a smaller --teacher, or give fewer rows.",
    )  # fmt: skip
