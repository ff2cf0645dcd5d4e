"""The description of a task: its kind, columns, label names and metrics.

Label *names* travel with a task, never bare indices: the same three classes of MNLI are numbered
differently by different teachers.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfdistill import errors
from tfdistill.tasks import folders, label_cells, parquet, squad, tables, tagged_texts
from tfdistill.tasks.kind import KINDS, TaskKind

if TYPE_CHECKING:
    from tfdistill.tasks.encoded import EncodedExamples

_PLAIN_TEXT = ".txt"  # one text a line, to train an embedding on

Path = str | os.PathLike[str]


@dataclasses.dataclass(frozen=True)
class SpanRules:
    """The rules by which answers to questions are read off the logits; see `spans.decode`.

    Attributes:
      unanswerable: Whether the text may hold no answer (SQuAD v2).
      max_answer_length: The most tokens of an answer.
      n_best: Starts and ends of each window that are combined.
      null_threshold: With `unanswerable`: an answer must score higher than "no answer" minus this.
    """

    unanswerable: bool = False
    max_answer_length: int = 30
    n_best: int = 20
    null_threshold: float = 0.0


@dataclasses.dataclass(frozen=True)
class TaskSpec:
    """A task over one text, a pair of texts, the words of a text, or a question and a text.

    Attributes:
      name: How reports call it.
      text_column: Column of the (first) text; in a CoNLL file the number of the words' column, of
        records with entities their key.
      label_column: Column of the label; in a CoNLL file the number of the tags' column, from 0
        or, if negative, from the end. Of an embedding the similarity's column; "" where all pairs
        match.
      pair_column: Column of the second text, or None.
      labels: Label names; the index of a name is the class index. None for a regression, spans or
        an embedding. Empty for other kinds whose names are to be found in the train split
        (`with_labels_of`).
      metrics: Of ``KINDS[kind].metrics``, all "higher is better"; the usual ones when left out.
        "f1:LABEL" is the F1 of one class.
      primary_metric: The one that chooses a checkpoint; the first when left out.
      kind: "classification" (one label), "regression" (a number), "multi_label" (any number of
        labels), "token" (a tag for each word), "span" (an answer inside a text) or "embedding" (a
        vector for each text, measured on pairs).
      layout: Layout of the files: "table" (TSV, CSV, JSON Lines), "conll", "folders" (a folder for
        each label) or "squad" (JSON). When left out: the kind's.
      label_values: How the files spell each label, if not by its name.
      positive_label: The class whose F1 and AUC count; None: the second of two, the mean over
        classes otherwise.
      label_separator: Separator of the labels of an example, for "multi_label".
      header: Column names of files without a header line.
      skip_short_rows: Whether files are known to hold broken rows that everyone leaves out.
      encoding: Of the files of the layout "conll".
      offsets: The unit of offsets of entities, of `tagged_texts.UNITS`; None for
        characters, see `tagged_texts.read_records`.
      dev_split: The split that serves as development set; IMDb has only "test".
      spans: How answers are read off the logits, for "span".
    """

    name: str
    text_column: str
    label_column: str
    pair_column: str | None = None
    labels: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    primary_metric: str = ""
    kind: str = "classification"
    layout: str = ""
    label_values: tuple[str, ...] = ()
    positive_label: str | None = None
    label_separator: str = ","
    header: tuple[str, ...] = ()
    skip_short_rows: bool = False
    encoding: str = "utf-8"
    offsets: str | None = None
    dev_split: str = "dev"
    spans: SpanRules = SpanRules()

    def __post_init__(self) -> None:
        """Fills in what follows from the kind and checks the fields against each other.

        Raises:
          ConfigError: On the first contradiction.
        """
        for name in ("labels", "metrics", "label_values", "header"):
            value = getattr(self, name)
            if isinstance(value, str):
                self._refuse(name, "a list of names")
            object.__setattr__(self, name, tuple(value))
        self._check_choice("kind", self.kind, tuple(KINDS))
        traits = self.traits
        if not self.metrics:
            object.__setattr__(self, "metrics", traits.default_metrics(self))
        if not self.primary_metric:
            object.__setattr__(self, "primary_metric", self.metrics[0])
        if not self.layout:
            object.__setattr__(self, "layout", traits.layouts[0])
        self._check_choice("layout", self.layout, traits.layouts)
        facts = (
            (
                "labels",
                f"none for the kind {self.kind}",
                not (traits.nameless and self.labels),
            ),
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
                self._refuse(field, expected)
        for field, expected in traits.faults(self):
            self._refuse(field, expected)
        for metric in (*self.metrics, self.primary_metric):
            name, mark, label = metric.partition(":")
            self._check_choice("metric", name, traits.metrics)
            if mark and (name != "f1" or (self.labels and label not in self.labels)):
                self._refuse("metrics", f"f1:LABEL of one of {self.labels}, or names alone")
        if self.primary_metric not in self.metrics:
            self._refuse("primary_metric", f"one of {self.metrics}")
        self._check_metrics_against_labels()

    def _check_choice(self, what: str, value: str, choices: Sequence[str]) -> None:
        if value not in choices:
            raise errors.ConfigError(
                f"task {self.name!r}, {what}",
                f"one of {', '.join(choices)}",
                repr(value),
                errors.nearest(value, choices),
            )

    def _check_metrics_against_labels(self) -> None:
        if not self.labels:
            return
        if "auc" in self.metrics and len(self.labels) != 2:
            self._refuse("labels", "two for the metric auc", "Choose other metrics.")
        entities = any(metric.startswith("entity_") for metric in self.metrics)
        if entities and any(
            label != "O" and label[:2] not in ("B-", "I-") for label in self.labels
        ):
            self._refuse(
                "labels",
                "O, B-TYPE and I-TYPE for entity metrics",
                "For other tags, choose the metric accuracy.",
            )

    def _refuse(self, field: str, expected: str, remedy: str = "") -> None:
        received = repr(getattr(self, field))
        raise errors.ConfigError(f"task {self.name!r}, {field}", expected, received, remedy)

    @property
    def traits(self) -> TaskKind:
        """The description of its kind."""
        return KINDS[self.kind]

    @property
    def reads_pairs(self) -> bool:
        """Whether a model reads two texts together; an embedding reads each by itself."""
        return self.pair_column is not None and not self.traits.vectors

    @property
    def num_labels(self) -> int:
        """Width of the logits: the number of labels, 1 for a regression, 2 for a span.

        0 for an embedding, whose vectors are as wide as the model has them.
        """
        return self.traits.num_labels(self.labels)

    @property
    def head(self) -> str:
        """The head that answers it: "sequence", "multi_label", "token", "span", "embedding"."""
        return self.traits.head

    def score(self, logits: np.ndarray, encoded: EncodedExamples) -> dict[str, float]:
        """Computes the metrics of a model's answers to encoded examples.

        The rows of a sentence with tags are put together again, and each word's answer is that of
        its first piece; spans are decoded; vectors are compared in pairs.

        Args:
          logits: float (n, num_labels); of words and spans (tokens, num_labels); of an embedding
            (n, width), also a sparse matrix.
          encoded: The examples, with labels; of an embedding pairs, one text after the other.

        Returns:
          Metric name -> value, in the order of `metrics`.

        Raises:
          ShapeError: If the shapes do not fit the task or each other.
          DataError: If there are no labels, or a logit is not finite.
        """
        return self.traits.score(self, logits, encoded)

    def compute_metrics(self, logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
        """Computes the metrics where each example has one row of logits.

        accuracy: the share of examples whose largest logit is the label's. f1: ``2PR / (P + R)`` of
        the positive class (see `positive_label`), or its unweighted mean over more than two
        classes; 0 for a class that is neither there nor predicted. macro_f1: its unweighted mean
        over all classes, also over two. auc: the area under the ROC curve of the positive class's
        probability, ties counting half; 0.5 where one of both classes is missing. matthews,
        pearson, spearman: correlations; 0 where all predictions (or all labels) are the same.
        r2: ``1 - mean((label - prediction)^2) / var(label)``, which the scale counts in.

        Several labels, a class being predicted where its logit is above 0: micro_f1 counts all
        decisions together, macro_f1 is the unweighted mean over classes, exact_match the share of
        examples with every class right.

        Args:
          logits: float (n, num_labels); for a regression (n, 1) or (n,).
          labels: int (n,) class indices, float (n,), or (n, num_labels) of 0 and 1.

        Returns:
          Metric name -> value, in the order of `metrics`.

        Raises:
          ShapeError: If the shapes do not fit the task or each other.
          DataError: If a logit is not finite.
        """
        return self.traits.compute_metrics(self, logits, labels)

    def split_file(self, source: Path, split: str) -> pathlib.Path:
        """Finds the file of a split, for "folders" its folder.

        Args:
          source: A folder with splits, or a file.
          split: Its name; of a task in tables, or of tagged texts, also the path of a file.

        Raises:
          DataError: If there is none, or more than one.
        """
        suffix = pathlib.Path(split).suffix.lower()
        read = {"table": tables.SUFFIXES, "conll": tagged_texts.FILE_SUFFIXES}.get(self.layout, ())
        is_path = suffix in read or os.sep in split
        if read and (is_path or (suffix and pathlib.Path(split).is_file())):
            source = split
        if self.layout == "folders":
            return folders.split_folder(source, split)
        if self.layout == "conll":
            return tables.split_file(source, split, suffixes=tagged_texts.FILE_SUFFIXES)
        if self.layout == "squad":
            return tables.split_file(
                source, split, suffixes=squad.SUFFIXES, versions=squad.VERSIONS
            )
        if self.traits.vectors and split == "train":
            return tables.split_file(source, split, suffixes=(*tables.SUFFIXES, _PLAIN_TEXT))
        return tables.split_file(source, split)

    def labels_in(self, source: Path, *, stated: bool = True) -> tuple[set[str], pathlib.Path]:
        """Reads which labels occur in the train split, for labels that have names.

        Args:
          source: A folder with a train split, or the training file.
          stated: Whether the user named the kind; otherwise a table must look like this kind.

        Returns:
          The labels as the files spell them, and where they were found.

        Raises:
          ConfigError: If the labels look like another kind's.
          DataError: If the files are unusable.
        """
        path = self.split_file(source, "train")
        if self.layout in ("folders", "conll"):
            if self.layout == "folders":
                names = {name: f"{path / name}" for name in folders.labels_in(path)}
            else:
                first = self.read_tagged(path).first_lines()
                names = {tag: f"{path}, line {line}" for tag, line in first.items()}
            for name, where in names.items():
                label_cells.check_name(name, where)
            return set(names), path
        return label_cells.names_in_table(self, path, stated=stated), path

    def read_tagged(self, path: pathlib.Path) -> tagged_texts.TaggedTexts:
        """Reads texts with tags or entities, as BIO: CoNLL files, or records by their suffix.

        Raises:
          ConfigError: If a column of a CoNLL file is no number.
          DataError: If the file is unusable.
        """
        return tagged_texts.read_tagged(path, self)

    def with_labels(self, labels: Sequence[str]) -> TaskSpec:
        """Puts the labels in another order, for example a teacher's.

        Args:
          labels: The same names in the order wanted; any names where the task has none yet.

        Returns:
          A task whose label indices follow `labels`.

        Raises:
          DataError: If the names are not the task's.
        """
        unnamed = self.traits.nameless
        if unnamed or (self.labels and set(labels) != set(self.labels)):
            raise errors.DataError(
                f"labels for task {self.name!r}",
                unnamed or f"the names {self.labels}",
                tuple(labels),
            )
        values = dict(zip(self.labels, self.label_values, strict=False))
        return dataclasses.replace(
            self,
            labels=tuple(labels),
            label_values=tuple(values[label] for label in labels) if values else (),
        )

    def with_labels_of(self, source: Path, *, stated: bool = True) -> TaskSpec:
        """Fills in the label names from the train split, if the task needs and lacks them.

        Args:
          source: A folder with a train split, or the training file.
          stated: Whether the user named the kind; see `labels_in`.

        Returns:
          This task with labels: in the order that the file states (`parquet`), otherwise
          sorted, as numbers where all of them are numbers. Tags of words:
          O first, then B-TYPE and I-TYPE of every type found, also where only one of them occurs.

        Raises:
          DataError: If the files are unusable or hold fewer than two labels.
        """
        if self.traits.nameless or self.labels:
            return self
        labels, path = self.labels_in(source, stated=stated)
        column = "" if self.layout == "folders" else f", column {self.label_column!r}"
        order = parquet.class_names(path, self.label_column)
        return self.with_found_labels(labels, f"{path}{column}", order)

    def with_found_labels(
        self, labels: set[str], where: str, order: Sequence[str] = ()
    ) -> TaskSpec:
        """Fills in label names in the order of `with_labels_of`.

        Args:
          labels: The names.
          where: Where they were found, for messages.
          order: The order that the file states, if it does.

        Raises:
          DataError: If there are fewer than two.
        """
        if len(labels) < 2:
            received = f"only {next(iter(labels))!r}" if labels else "none"
            raise errors.DataError(where, "at least two different labels", received)
        stated = [name for name in order if name in labels]
        ordered = stated if len(stated) == len(labels) else self.traits.ordered(labels)
        return dataclasses.replace(self, labels=tuple(ordered))
