"""What quickstart will do, and what it says of it before it starts."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tfdistill import config, models
from tfdistill.budget import costs, word_tables
from tfdistill.results import quantities, tables
from tfdistill.run import durations

if TYPE_CHECKING:
    from tfdistill.compress import languages
    from tfdistill.data.labelled_file import LabelledFile
    from tfdistill.tokenization.tokenizer import Tokenizer

_BUSY = 1.5  # a training that is alone waits for its own threads: up to 1.45


@dataclasses.dataclass(frozen=True, eq=False)
class CutVocabulary:
    """The pieces of a teacher's vocabulary that a run keeps.

    Where a size bounds the file, `table` is the teacher's word table, and `form` that of the file;
    None where none fits.
    """

    tokenizer: Tokenizer
    choice: languages.VocabularyChoice
    table: word_tables.WordTable | None
    form: word_tables.TableForm | None = None


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
    cut: CutVocabulary | None = None
    latency_ms: float | None = None  # of the student, where that was measured
    is_open: bool = False  # whether nobody named student, format, compression, size or time

    def with_student(
        self, preset: str, note: str, latency_ms: float | None = None
    ) -> QuickstartPlan:
        """Replaces the student; that of the preset "teacher" needs no training."""
        training = {"stages": {}, "variants": {}} if preset == config.TEACHER else self.training
        others = tuple(note for note in self.notes if not note.startswith("student: "))
        plan = dataclasses.replace(self, notes=others, latency_ms=latency_ms)
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
            self.data.sizes,
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
        shape, quantize = self.student, self.recipe.export.quantize
        if type(shape) is not models.EncoderConfig:
            return None
        table, rest = costs.table_bytes(shape, quantize), self.bytes_but_words
        most = self.recipe.export.size_mb
        if shape.embedding_size is not None:
            most = most or self.recipe.export.goal_mb
            least = costs.table_of_most_words(shape, quantize)
        elif self.cut is not None and self.cut.form is not None:
            return rest + self.cut.form.size_bytes
        else:
            least = costs.small_table_bytes(shape, quantize)
        return rest + (table if most is None else min(table, max(least, 1e6 * most - rest)))

    @property
    def bytes_but_words(self) -> float:
        """The estimate of the file without its word table, both factors."""
        shape, quantize = self.student, self.recipe.export.quantize
        whole = float(costs.bytes_of_weight(quantize) * models.count_parameters(shape))
        if type(shape) is models.EncoderConfig:
            lengths = durations.file_lengths(self.recipe, self.tokens, shape)
            whole = costs.file_bytes(shape, lengths, quantize)
        return whole - costs.table_bytes(shape, quantize)

    @property
    def least_table(self) -> Callable[[models.EncoderConfig, str], float]:
        """Gives the bytes of the smallest word table for a shape and a quantization."""
        table = None if self.cut is None else self.cut.table
        return costs.small_table_bytes if table is None else table.least_bytes

    def lines(self) -> list[str]:
        """The page for a terminal."""
        shape, size_bytes, (_, load) = self.student, self.size_bytes, self._speed
        facts = [
            f"{quantities.count(models.count_parameters(shape))} parameters in "
            f"{shape.num_layers} layers x {shape.hidden_size}"
        ]
        if size_bytes is not None:
            facts.append(f"about {quantities.size(size_bytes)} as {self.recipe.export.quantize}")
        if self.latency_ms is not None:
            facts.append(
                f"{self.latency_ms:.3g} ms for {self.recipe.data.max_length} tokens with "
                "random weights"
            )
        slowed = f"; other programs make it {load:.1f} times as slow now"
        rows = [["step", "batches", "minutes"]]
        for number, part in enumerate(self.parts, start=1):
            steps = f"{part.steps:,}" if part.steps else "-"
            rows.append([f"{number}. {part.name}", steps, f"{part.seconds / 60:.1f}"])
        return [
            f"student: {', '.join(facts)}",
            *filter(None, [self._word_table]),
            "",
            *tables.table(rows),
            f"estimated: {self.seconds / 60:.1f} minutes on this machine"
            + (slowed if load >= _BUSY else ""),
        ]

    @property
    def _word_table(self) -> str:
        """A line about the table of words, where the vocabulary is cut."""
        if self.cut is None:
            return ""
        shape, quantize, form = self.student, self.recipe.export.quantize, self.cut.form
        width, least = shape.hidden_size, word_tables.LEAST_DB
        num = len(self.cut.choice.ids)
        size = quantities.size(costs.bytes_of_weight(quantize) * num * width)
        line = f"word table: {num:,} pieces x {width}, {size} as {quantize}"
        if self.cut.table is None:
            return line
        if form is None:
            return f"{line}; within {self.recipe.export.size_mb:g} MB it is too large"
        factors = f"two factors of rank {form.rank}, " if form.rank < width else ""
        place = "student and file" if shape.embedding_size else "the file"
        line += f"; in {place} {factors}{form.bits} bits, {quantities.size(form.size_bytes)}"
        enough = f"at least {least:g} dB" if form.decibels >= least else "fewer layers leave room"
        return f"{line}: keeps {form.decibels:.1f} dB of its words ({enough})"

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
                "latency_ms": self.latency_ms,
                "num_layers": getattr(self.student, "num_layers", None),
            },
            "word_table": self.cut and self.cut.form and self.cut.form._asdict(),
        }
