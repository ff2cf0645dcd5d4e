"""The description of a kind of task, and the table of all kinds."""

from __future__ import annotations

import abc
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import pydantic

from tfdistill import errors
from tfdistill.tasks import label_kinds, registry

if TYPE_CHECKING:
    from tfdistill.tasks.encoded import EncodedExamples

TaskSpec = Any  # `spec.TaskSpec`, whose module imports this one


class TaskKind(abc.ABC):
    """One kind of task: how its labels are read, what its answers are and how they are scored.

    Packages above register what they do for a kind under its name or under its head's name: a
    layer and its builder (`models.heads`), losses (`losses.heads`), outputs of a file
    (`export.model.heads`), a section of the report (`report.sections.answers`).

    Attributes:
      name: As recipes, files and commands write it.
      head: What answers it, a key of `losses.heads.HEADS` (of vectors: of `models.heads.KINDS`).
      metrics: The names of its metrics, all "higher is better".
      usual_metrics: Those of a task that names none; the first chooses a checkpoint.
      layouts: Layouts of its files, the usual one first.
      column: What a column of its labels looks like: classes, numbers or several labels.
      nameless: What labels are where they have no names.
      exclusive: Whether the names exclude each other.
      many_classes: Whether any number of names may apply at once.
      gives_probabilities: Whether its logits belong to the names, see `tasks.probabilities`.
      one_number: Whether an answer is one number.
      over_tokens: Whether each token has an answer; otherwise each text, or pair of texts, has one.
      tags_words: Whether each word has one of the names.
      vectors: Whether an answer is a vector, as wide as the model has it.
      decodes_spans: Whether an answer is read off starts and ends among the tokens of a text.
      usual_columns: The columns of text and label, where files have no names for them.
      pair_column: The column of second texts, where its files have just one.
      pipeline: What Hugging Face calls it.
      pipeline_input: What is given to it, in Python.
    """

    name: ClassVar[str]
    head: ClassVar[str]
    metrics: ClassVar[tuple[str, ...]]
    usual_metrics: ClassVar[tuple[str, ...]] = ()
    layouts: ClassVar[tuple[str, ...]] = ("table",)
    column: ClassVar[Literal["classification", "regression", "multi_label"]] = "classification"
    nameless: ClassVar[str] = ""
    exclusive: ClassVar[bool] = False
    many_classes: ClassVar[bool] = False
    gives_probabilities: ClassVar[bool] = False
    one_number: ClassVar[bool] = False
    over_tokens: ClassVar[bool] = False
    tags_words: ClassVar[bool] = False
    vectors: ClassVar[bool] = False
    decodes_spans: ClassVar[bool] = False
    usual_columns: ClassVar[tuple[str, str] | None] = None
    pair_column: ClassVar[str | None] = None
    pipeline: ClassVar[str] = "text-classification"
    pipeline_input: ClassVar[str] = '"a text"'

    @property
    def row_a_text(self) -> bool:
        """Whether each text, or pair of texts, has a row of logits."""
        return not self.over_tokens and not self.vectors

    @property
    def answers_texts(self) -> bool:
        """Whether `predict` answers a text: with labels, tags or a number."""
        return self.gives_probabilities or self.one_number

    @property
    def in_one_file(self) -> bool:
        """Whether one labelled file can be split into sets: texts, and words with tags."""
        return self.row_a_text or self.tags_words

    @property
    def one_class(self) -> bool:
        """Whether each text, or pair of texts, has one of the names."""
        return self.exclusive and self.row_a_text

    @property
    def cuts_texts(self) -> bool:
        """Whether a text that is too long is cut; otherwise it becomes several rows."""
        return not self.over_tokens

    def num_labels(self, labels: Sequence[str]) -> int:
        """The width of the logits; 0 where any width is right."""
        return len(labels)

    def default_metrics(self, spec: TaskSpec) -> tuple[str, ...]:
        """The metrics of a task that names none."""
        return self.usual_metrics or self.metrics

    def metrics_for(self, cells: Collection[str]) -> tuple[str, ...]:
        """The metrics that fit the labels of a file; empty for the default ones."""
        return ()

    def faults(self, spec: TaskSpec) -> Iterator[tuple[str, str]]:
        """Yields (field, what was expected) for what contradicts the kind."""
        yield from ()

    def ordered(self, names: Collection[str]) -> list[str]:
        """Label names in the order of their indices: as numbers where all are numbers."""
        return sorted(names, key=label_kinds.label_order(names))

    def names_in(self, cell: str, separator: str) -> Sequence[str]:
        """The label names in a cell."""
        return [cell]

    def cell(self, spec: TaskSpec, label: np.ndarray) -> str:
        """A label as the files of the task spell it.

        Raises:
          ConfigError: If its labels are not written into one cell.
        """
        raise errors.ConfigError(
            f"augmentation of task {spec.name!r}",
            "a task whose label is one cell of a table",
            self.name,
            "Tags and answers belong to words, which augmentation exchanges.",
        )

    @abc.abstractmethod
    def parse(self, spec: TaskSpec, values: Sequence[str], where: Sequence[str]) -> np.ndarray:
        """Reads labels, see `examples.parse_labels`."""

    @abc.abstractmethod
    def score(
        self, spec: TaskSpec, outputs: np.ndarray, encoded: EncodedExamples
    ) -> dict[str, float]:
        """Computes the metrics of a model's answers, see `TaskSpec.score`."""

    def counts(
        self, spec: TaskSpec, outputs: np.ndarray, encoded: EncodedExamples
    ) -> dict[str, int]:
        """Counts right answers and kinds of wrong ones, for a report; empty where none differ."""
        return {}

    def compute_metrics(
        self, spec: TaskSpec, outputs: np.ndarray, labels: np.ndarray
    ) -> dict[str, float]:
        """Computes the metrics of rows of outputs, see `TaskSpec.compute_metrics`.

        Raises:
          ConfigError: If texts have other answers.
        """
        raise errors.ConfigError(
            f"metrics of task {spec.name!r}", "a task with a row of logits a text", self.name
        )

    @abc.abstractmethod
    def chance(self, spec: TaskSpec, labels: np.ndarray) -> float:
        """The primary metric of an answer that ignores its input, see `analysis.chance_level`."""

    def majority(self, spec: TaskSpec, labels: np.ndarray) -> np.ndarray:
        """The outputs (num_labels,) that fit the training labels best without the input.

        Raises:
          ConfigError: If an answer is not a row of logits a text.
        """
        raise errors.ConfigError(
            f"baseline for task {spec.name!r}", "a task over texts or pairs", f"kind {self.name}"
        )


_KINDS: dict[str, TaskKind] = {}
KINDS: Mapping[str, TaskKind] = _KINDS
"""Name -> kind."""


def register(kind: TaskKind) -> None:
    """Adds a kind to `KINDS`.

    Raises:
      ConfigError: If another kind has its name.
    """
    registry.add(_KINDS, kind.name, kind, "kind of task")


def kind_named(name: str) -> TaskKind:
    """Returns the kind of a name.

    Raises:
      ConfigError: If there is none.
    """
    if name not in _KINDS:
        raise errors.ConfigError(
            "kind of task",
            f"one of {', '.join(_KINDS)}",
            repr(name),
            errors.nearest(name, _KINDS),
        )
    return _KINDS[name]


def _check_name(name: str) -> str:
    if name not in _KINDS:
        listed = [repr(kind) for kind in _KINDS]
        expected = f"{', '.join(listed[:-1])} or {listed[-1]}"
        raise ValueError(f"expected {expected}, received {name!r}")
    return name


KindName = Annotated[str, pydantic.AfterValidator(_check_name)]
"""The name of a kind, as a field of a recipe or a record."""


def check_finite(scores: np.ndarray) -> None:
    """Refuses outputs that are no numbers; the message names the first such row."""
    if not np.isfinite(scores).all():
        row = int(np.argmin(np.isfinite(scores).all(axis=1)))
        raise errors.DataError(f"logits of example {row}", "finite numbers", scores[row].tolist())
