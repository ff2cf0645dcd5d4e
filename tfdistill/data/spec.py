"""What a task is: which columns, which label names, which metrics.

Label *names* travel with a task, never bare indices: the same three classes of MNLI are numbered
differently by different teachers.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

from tfdistill import errors
from tfdistill.data import tables

METRICS = ("accuracy", "f1", "matthews", "pearson", "spearman")

Path = str | os.PathLike[str]


@dataclasses.dataclass(frozen=True)
class TaskSpec:
    """A task of classification or regression over one text or a pair of texts.

    Attributes:
      name: How reports call it.
      text_column: Column of the (first) text.
      label_column: Column of the label.
      pair_column: Column of the second text, or None.
      labels: Label names; the index of a name is the class index. Empty for regression, and for a
        classification whose names are to be found in the train split (`with_labels_of`).
      metrics: Of `METRICS`, all "higher is better".
      primary_metric: The one that chooses a checkpoint.
      regression: Whether labels are numbers.
      label_values: How the files spell each label, if not by its name.
      positive_label: The class whose F1 counts; None: the second of two, the mean over classes
        otherwise.
      header: Column names of files without a header line.
      skip_short_rows: Whether files are known to hold broken rows that everyone leaves out.
    """

    name: str
    text_column: str
    label_column: str
    pair_column: str | None = None
    labels: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ("accuracy",)
    primary_metric: str = "accuracy"
    regression: bool = False
    label_values: tuple[str, ...] = ()
    positive_label: str | None = None
    header: tuple[str, ...] = ()
    skip_short_rows: bool = False

    def __post_init__(self) -> None:
        """Checks the fields against each other.

        Raises:
          ConfigError: On the first contradiction.
        """
        for name in ("labels", "metrics", "label_values", "header"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise errors.ConfigError(
                    errors.explain(f"task {self.name!r}, {name}", "a list of names", repr(value))
                )
            object.__setattr__(self, name, tuple(value))
        for metric in (*self.metrics, self.primary_metric):
            if metric not in METRICS:
                raise errors.ConfigError(
                    errors.explain(
                        f"task {self.name!r}, metric",
                        "a known one",
                        repr(metric),
                        errors.nearest(metric, METRICS),
                    )
                )
        facts = (
            ("primary_metric", f"one of {self.metrics}", self.primary_metric in self.metrics),
            ("labels", "none for a regression", not (self.regression and self.labels)),
            ("labels", "each name once", len(set(self.labels)) == len(self.labels)),
            ("labels", "at least two", len(self.labels) != 1),
            (
                "label_values",
                "one for each label",
                not self.label_values or len(set(self.label_values)) == len(self.labels),
            ),
            (
                "positive_label",
                f"one of {self.labels}",
                self.positive_label is None or self.positive_label in self.labels,
            ),
        )
        for field, expected, good in facts:
            if not good:
                received = repr(getattr(self, field))
                raise errors.ConfigError(
                    errors.explain(f"task {self.name!r}, {field}", expected, received)
                )

    @property
    def num_labels(self) -> int:
        """Width of the logits: the number of labels, 1 for a regression."""
        return 1 if self.regression else len(self.labels)

    @property
    def kind(self) -> str:
        """Returns "regression" or "classification"."""
        return "regression" if self.regression else "classification"

    def with_labels(self, labels: Sequence[str]) -> TaskSpec:
        """Puts the labels in another order, for example that of a teacher.

        Args:
          labels: The same names in the order wanted; any names where the task has none yet.

        Returns:
          A task whose label indices follow `labels`.

        Raises:
          DataError: If the names are not those of the task.
        """
        if self.regression or (self.labels and set(labels) != set(self.labels)):
            raise errors.DataError(
                errors.explain(
                    f"labels for task {self.name!r}",
                    "numbers, no names" if self.regression else f"the names {self.labels}",
                    tuple(labels),
                )
            )
        values = dict(zip(self.labels, self.label_values, strict=False))
        return dataclasses.replace(
            self,
            labels=tuple(labels),
            label_values=tuple(values[label] for label in labels) if values else (),
        )

    def with_labels_of(self, source: Path) -> TaskSpec:
        """Fills in the label names from the train split, if the task needs and lacks them.

        Args:
          source: A folder with a train split, or the training file.

        Returns:
          This task with labels: sorted, as numbers where all of them are numbers.

        Raises:
          DataError: If the files are unusable or hold fewer than two labels.
        """
        if self.regression or self.labels:
            return self
        path = tables.split_file(source, "train")
        table = tables.read_table(
            path, [self.label_column], header=self.header, skip_short_rows=self.skip_short_rows
        )
        found = set(table.columns[self.label_column])
        if len(found) < 2:
            raise errors.DataError(
                errors.explain(
                    f"{path}, column {self.label_column!r}",
                    "at least two different labels",
                    f"only {found.pop()!r}",
                )
            )
        return dataclasses.replace(self, labels=tuple(sorted(found, key=_label_order(found))))


def _label_order(found: set[str]):
    try:
        numbers = {value: float(value) for value in found}
    except ValueError:
        return str
    return lambda value: (numbers[value], value)
