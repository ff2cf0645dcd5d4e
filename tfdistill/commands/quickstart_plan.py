"""What quickstart will do, and what it says of it before it starts."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tfdistill import config, models
from tfdistill.budget import costs
from tfdistill.results import quantities, tables
from tfdistill.run import durations

if TYPE_CHECKING:
    from tfdistill.budget.fitting import FittedShape
    from tfdistill.data.labelled_file import LabelledFile

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
            "",
            *tables.table(rows),
            f"estimated: {self.seconds / 60:.1f} minutes on this machine"
            + (slowed if load >= _BUSY else ""),
        ]

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
                "latency_ms": self.fitted and self.fitted.latency_ms,
            },
        }
