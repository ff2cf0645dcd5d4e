"""The examples in the files of a task."""

from __future__ import annotations

import dataclasses
import logging
import pathlib
import re
from collections.abc import Sequence

import numpy as np

from tfdistill import errors
from tfdistill.io.files import Path
from tfdistill.tasks import folders, squad, tables
from tfdistill.tasks.encoded import UNLABELLED
from tfdistill.tasks.spec import TaskSpec
from tfdistill.tasks.tagged_texts import TaggedTexts

_log = logging.getLogger(__name__)

SPLITS = ("train", "dev", "test")
"""The names of the parts of a data set."""

_HIDDEN = {"-1", "-1.0", "", tables.NULL}  # how a hidden label is written in a test split


@dataclasses.dataclass(frozen=True)
class Examples:
    """Texts with their labels.

    Attributes:
      spec: The task, with its labels.
      texts: n first texts; where words have tags the running text, or a question. Of an embedding
        task n texts, each by itself.
      pairs: n second texts, the contexts of questions, or None.
      labels: int32 (n,) class indices; float32 (n,) for a regression, (n, classes) of 0 and 1 for
        several labels; for words an object array (n,) of int32 (words,); for questions int32
        (n, 2), first character and one past the last, -1 without an answer; None where hidden.
      skipped: Broken rows that were left out.
      word_offsets: Where words have tags: the places of the words in each of n texts, int32
        (words, 2), as `words.find_words` gives them, or those of a file; otherwise None.
      questions: n questions, or None.
      path: The file that they come from, or None.
      lines: The line of each example in that file, or None where examples are no rows.
      blank_lines: The empty lines between its rows.
      paired: Whether the texts 2 i and 2 i + 1 of an embedding task are a pair, whose similarity is
        the label of both, float32 (n,).
    """

    spec: TaskSpec
    texts: list[str]
    pairs: list[str] | None
    labels: np.ndarray | None
    skipped: int = 0
    word_offsets: list[np.ndarray] | None = None
    questions: list[squad.Question] | None = None
    path: pathlib.Path | None = None
    lines: list[int] | None = None
    blank_lines: tuple[int, ...] = ()
    paired: bool = False

    @property
    def words(self) -> list[list[str]] | None:
        """The words of n texts, where words have tags."""
        if self.word_offsets is None:
            return None
        return [
            [text[start:end] for start, end in offsets.tolist()]
            for text, offsets in zip(self.texts, self.word_offsets, strict=True)
        ]

    @property
    def num_scored(self) -> int:
        """The number of items that metrics are a mean over: examples, or pairs."""
        return len(self) // 2 if self.paired else len(self)

    def first(self, limit: int | None) -> Examples:
        """Returns the first `limit` examples or pairs, or all."""
        if limit is None:
            return self
        return self.select(range(min(limit * (1 + self.paired), len(self))))

    def __len__(self) -> int:
        """Returns n."""
        return len(self.texts)

    def select(self, indices: Sequence[int] | np.ndarray) -> Examples:
        """Returns the examples at `indices`, in that order."""
        index, offsets = np.asarray(indices, np.int64), self.word_offsets
        return dataclasses.replace(
            self,
            texts=[self.texts[i] for i in index],
            pairs=None if self.pairs is None else [self.pairs[i] for i in index],
            labels=None if self.labels is None else self.labels[index],
            word_offsets=None if offsets is None else [offsets[i] for i in index],
            questions=None if self.questions is None else [self.questions[i] for i in index],
            lines=None if self.lines is None else [self.lines[i] for i in index],
        )

    def with_unlabelled(self, others: Examples) -> Examples:
        """Returns these labelled examples and then others, each with the label `UNLABELLED`."""
        assert self.labels is not None
        shape = (len(others), *self.labels.shape[1:])
        return dataclasses.replace(
            self,
            texts=self.texts + others.texts,
            pairs=self.pairs and [*self.pairs, *(others.pairs or ())],
            labels=np.concatenate([self.labels, np.full(shape, UNLABELLED, self.labels.dtype)]),
            lines=None,
        )

    def location(self, index: int) -> str:
        """Says where an example is: the line of its file, or its number from 1."""
        if self.path is None or self.lines is None:
            return f"example {index + 1}"
        return f"{self.path.name}, line {self.lines[index]}"


def load_examples(
    spec: TaskSpec,
    source: Path,
    split: str,
    *,
    labelled: bool | None = None,
    may_hide_labels: bool = False,
) -> Examples:
    """Reads the examples of a split.

    Args:
      spec: The task. If its labels have names and it lacks them, they come from the train
        split in the same folder; a single file gives them only if it is the train split itself.
      source: A folder with splits, or a file.
      split: "train", "dev" (`TaskSpec.dev_split`), "test" or another name; see `split_file`.
      labelled: Whether labels must be there (True), are not read (False), or must be there
        except in a test split (None). GLUE hides the labels of its test splits.
      may_hide_labels: Whether a table may lack its labels in any split.

    Raises:
      DataError: If a file or a column is missing, or a label is outside the set; the message
        names the line and the value.
    """
    hidden_allowed = labelled is False or (
        labelled is None and (may_hide_labels or split.startswith("test"))
    )
    path = spec.split_file(source, spec.dev_split if split == "dev" else split)
    read = labelled is not False
    if spec.traits.vectors:
        return load_texts(spec, path) if split == "train" else _load_pairs(spec, path, read)
    if spec.layout == "squad":
        return _load_questions(spec, path, training=split == "train", labelled=read)
    if spec.layout == "folders" or (spec.layout == "conll" and read):
        spec = _with_labels(spec, source, path, split)
    if spec.layout == "folders":
        held = folders.read_folders(path, spec.label_values or spec.labels)
        gold = parse_labels(spec, held.labels, [str(path) for path in held.paths])
        return Examples(spec, held.texts, None, gold if read else None)
    if spec.layout == "conll":
        return _load_words(spec, path, read)
    texts = [column for column in (spec.text_column, spec.pair_column) if column is not None]
    table = tables.read_table(
        path,
        texts if hidden_allowed else [*texts, spec.label_column],
        [spec.label_column] if hidden_allowed and labelled is not False else [],
        header=spec.header,
        skip_short_rows=spec.skip_short_rows,
        lists=[spec.label_column],
    )
    values = table.columns.get(spec.label_column)
    hidden = _HIDDEN - {*spec.labels, *spec.label_values}
    if hidden_allowed and values is not None and set(values) <= hidden:
        values = None
    gold = None
    if values is not None:
        spec = _with_labels(spec, source, path, split)
        gold = parse_labels(spec, values, tables.Places(table, spec.label_column))
    pairs = None if spec.pair_column is None else table.columns[spec.pair_column]
    examples = Examples(
        spec,
        table.columns[spec.text_column],
        pairs,
        gold,
        table.skipped,
        path=path,
        lines=table.lines,
        blank_lines=table.blank_lines,
    )
    check_joined_rows(examples)
    return examples


def check_joined_rows(examples: Examples) -> None:
    """Refuses a text that holds rows: a stray quotation mark joins all up to the next one."""
    spec = examples.spec
    names = "|".join(map(re.escape, spec.label_values or spec.labels))
    row = re.compile(rf'(?m)(?:[,;|\t]"?(?:{names})"?$|^"?(?:{names})"?[,;|\t]\S)')
    for index, text in enumerate(examples.texts if names else ()):
        if text.count("\n") > 1 and (rows := len(row.findall(text))) > 1:
            raise errors.DataError(
                f"text of {examples.location(index)}",
                "a text",
                f"{rows} rows with their labels in one cell",
                "Double the quotation mark that begins it, or remove it.",
            )


def load_texts(spec: TaskSpec, path: pathlib.Path) -> Examples:
    """Reads the texts that an embedding learns from: of pairs both, each text once.

    They are in a table with the task's columns, which may lack the second texts, or plain text.
    """
    if path.suffix.lower() not in tables.SUFFIXES:
        texts, lines = tables.read_lines(path, spec.text_column)
        blank = ()
    else:
        optional = [] if spec.pair_column is None else [spec.pair_column]
        table = tables.read_table(
            path,
            [spec.text_column],
            optional,
            header=spec.header,
            skip_short_rows=spec.skip_short_rows,
        )
        texts, lines, blank = table.columns[spec.text_column], table.lines, table.blank_lines
        for name in optional:
            if name in table.columns:
                texts = [*texts, *table.columns[name]]
                lines = [*lines, *table.lines]
    first = {text: index for index, text in reversed(list(enumerate(texts))) if text.strip()}
    rows = sorted(first.values())
    if not rows:
        raise errors.DataError(f"texts {path}", "lines of text", "none")
    return Examples(
        spec,
        [texts[index] for index in rows],
        None,
        None,
        path=path,
        lines=[lines[index] for index in rows],
        blank_lines=blank,
    )


def _load_pairs(spec: TaskSpec, path: pathlib.Path, labelled: bool) -> Examples:
    """The pairs that an embedding is measured on, each text by itself."""
    assert spec.pair_column is not None
    columns = [spec.text_column, spec.pair_column]
    named = [spec.label_column] if spec.label_column and labelled else []
    table = tables.read_table(
        path, [*columns, *named], header=spec.header, skip_short_rows=spec.skip_short_rows
    )
    both = zip(*(table.columns[name] for name in columns), strict=True)
    gold = None
    if labelled:
        gold = np.ones(len(table.lines), np.float32)
    for name in named:
        gold = parse_labels(spec, table.columns[name], tables.Places(table, name))
    return Examples(
        spec,
        [text for pair in both for text in pair],
        None,
        None if gold is None else np.repeat(gold, 2),
        table.skipped,
        path=path,
        lines=[line for line in table.lines for _ in columns],
        blank_lines=table.blank_lines,
        paired=True,
    )


def _with_labels(spec: TaskSpec, source: Path, path: pathlib.Path, split: str) -> TaskSpec:
    if path == pathlib.Path(source) and split != "train" and not spec.num_labels:
        raise errors.DataError(
            f"{path}, split {split!r}",
            "a task that names its labels, or a folder with a train split",
            "a single file",
            "A class that is missing here would shift the others' indices.",
        )
    return spec.with_labels_of(source)


def _load_words(spec: TaskSpec, path: pathlib.Path, labelled: bool) -> Examples:
    read = spec.read_tagged(path)
    if not labelled:
        return untagged_examples(spec, read, path)
    examples, bare = tagged_examples(spec, read, path)
    for note in read.notes:
        _log.info(f"{path}: {note}")
    if bare.lines:
        _log.info(
            f"{path}: left out: {len(bare)} text(s) that nobody annotated, first line "
            f"{bare.lines[0]}; `tfdistill distill --unlabelled FILE` learns from such texts"
        )
    return examples


def untagged_examples(spec: TaskSpec, read: TaggedTexts, path: pathlib.Path) -> Examples:
    """The texts of a file of tagged texts, without their tags."""
    lines = [lines[0] for lines in read.lines]
    return Examples(spec, read.texts, None, None, word_offsets=read.offsets, path=path, lines=lines)


def tagged_examples(
    spec: TaskSpec, read: TaggedTexts, path: pathlib.Path
) -> tuple[Examples, Examples]:
    """The examples of a file of tagged texts, and those that nobody tagged, without labels."""
    examples, tagged = untagged_examples(spec, read, path), np.array([*map(bool, read.tags)], bool)
    rows = np.flatnonzero(tagged)
    gold = np.empty(len(rows), object)
    for index, row in enumerate(rows):
        where = [f"{path}, line {line}" for line in read.lines[row]]
        gold[index] = parse_labels(spec, read.tags[row], where)
    labelled = dataclasses.replace(examples.select(rows), labels=gold)
    return labelled, examples.select(np.flatnonzero(~tagged))


def _load_questions(
    spec: TaskSpec, path: pathlib.Path, *, training: bool, labelled: bool
) -> Examples:
    question_set = squad.read_questions(
        path, unanswerable=spec.spans.unanswerable, training=training
    )
    gold = np.array(
        [(-1, -1) if q.start is None else (q.start, q.end) for q in question_set.questions],
        np.int32,
    )
    return Examples(
        spec,
        [question.question for question in question_set.questions],
        [question.context for question in question_set.questions],
        gold if labelled else None,
        question_set.skipped,
        questions=question_set.questions,
    )


def parse_labels(spec: TaskSpec, values: Sequence[str], where: Sequence[str]) -> np.ndarray:
    """Reads labels.

    Args:
      spec: The task, with its label names.
      values: n labels as the file spells them.
      where: Location of each, for messages.

    Returns:
      int32 (n,) class indices; float32 (n,) for a regression; float32 (n, classes) of 0 and 1 for
      several labels.

    Raises:
      DataError: If a number is not finite or a label is not one of the task's.
    """
    return spec.traits.parse(spec, values, where)
