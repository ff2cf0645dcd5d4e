"""One labelled file of a user -> its rows, a task, and what was recognised; nothing is split."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence

import numpy as np

from tfdistill import errors, tasks
from tfdistill.data import columns
from tfdistill.data.answered_file import AnsweredFile
from tfdistill.data.model_answers import KIND
from tfdistill.tasks import (
    conll,
    label_cells,
    label_kinds,
    parquet,
    splitting,
    table_files,
    tables,
    tagged_texts,
    words,
)
from tfdistill.tasks.examples import check_joined_rows, tagged_examples

TAGGED = next(name for name, kind in tasks.KINDS.items() if kind.tags_words)
_JOINING = ("|", ";", ",", "/")  # that separate several labels in the files that are written


def read_table(
    path: pathlib.Path,
    name: str,
    named: Sequence[str | None],
    kind: str | None,
    mark: str | None,
    answered: AnsweredFile | None = None,
) -> tuple[tasks.Examples, list[str], list[str]]:
    """The labelled rows of a table, the cells of their labels, and what was recognised."""
    if answered is not None:
        table, roles, kind = answered.table, answered.roles, KIND
    else:
        table = columns.read_columns(path)
        roles = columns.choose_roles(table, *named)
    where = tables.Places(table, roles.label)
    column = None if kind is None else tasks.KINDS[kind].column
    cells, judged = label_cells.judge(table.columns[roles.label], where, column, mark)
    chosen = kind or judged.kind
    if mark is not None and not tasks.KINDS[chosen].many_classes:
        raise errors.ConfigError(
            "label_separator",
            "several labels a text",
            f"{chosen} ({judged.why})",
            "Leave it out, or add kind='multi_label'.",
        )
    task = tasks.TaskSpec(
        name,
        text_column=roles.text,
        pair_column=roles.pair,
        label_column=roles.label,
        kind=chosen,
        metrics=tasks.KINDS[chosen].metrics_for(cells),
        label_separator=judged.separator,
    )
    if task.traits.many_classes:
        task, cells = _with_one_separator(task, cells)
    if answered is None:
        task = _with_labels(task, table.path, cells)
    else:
        task = task.with_labels(answered.labels)
    pair_note = f", {roles.pair!r} (second text)" if roles.pair is not None else ""
    notes = [
        *(() if answered is None else answered.notes),
        f"{table.path.name}: {len(table)} {'rows' if answered is None else 'texts'}, columns "
        f"{roles.text!r} (text){pair_note} and {roles.label!r} (label)",
        f"kind: {chosen} ({judged.why})",
    ]
    if others := [name for name in (*table.columns, *table.unusable) if name not in roles]:
        notes.append(f"not learned from: the column(s) {', '.join(map(repr, others))}")
    if split := next(filter(columns.is_split, others), None):
        notes.append(
            f"all rows are split anew; to keep the sets of {split!r}, write a file of each and use "
            "`tfdistill distill --data-dir`"
        )
    texts, seconds = (
        None
        if name is None
        else [table_files.line_feeds(cell.strip(table_files.NULL)) for cell in table.columns[name]]
        for name in (roles.text, roles.pair)
    )
    assert texts is not None
    everything = tasks.Examples(
        task,
        texts,
        seconds,
        None,
        path=table.path,
        lines=table.lines,
        blank_lines=table.blank_lines,
    )
    check_joined_rows(everything)
    gold = tasks.parse_labels(task, cells, where)
    return dataclasses.replace(everything, labels=gold), cells, notes


def is_tagged(path: pathlib.Path) -> bool:
    """Whether words have tags: in CoNLL files by their names, in records by their content."""
    names = {*conll.SUFFIXES} - {*tables.SUFFIXES, ".txt"}
    return path.suffix.lower() in names or tagged_texts.has_entities(path)


def read_tagged(
    path: pathlib.Path, name: str, text: str | None, label: str | None, offsets: str | None
) -> tuple[tasks.Examples, list[str], list[str], tasks.Examples]:
    """The texts of a file whose words have tags, the tags of each, and what was recognised.

    The last are the texts that nobody tagged.
    """
    usual = tasks.KINDS[TAGGED].usual_columns or ("", "")
    task = tasks.TaskSpec(name, text or usual[0], label or usual[1], kind=TAGGED, offsets=offsets)
    read = task.read_tagged(path)
    first = read.first_lines()
    for tag, line in first.items():
        label_cells.check_name(tag, f"{path}, line {line}")
    metrics = task.traits.metrics_for(first)
    task = dataclasses.replace(task, metrics=metrics, primary_metric="")
    task = task.with_found_labels({*first}, f"{path}")
    examples, bare = tagged_examples(task, read, path)
    kind = "word tags" if metrics else "entities"
    notes = [f"{path.name}: {len(read.texts)} texts", f"kind: {TAGGED} ({kind})", *read.notes]
    # As the sets are written: with entities where the words are those of the text.
    pairs = zip(read.texts, read.offsets, strict=True)
    same = not metrics and all(np.array_equal(words.find_words(t), places) for t, places in pairs)
    keys = ("text", "entities") if same else ("tokens", "ner_tags")
    task = dataclasses.replace(task, text_column=keys[0], label_column=keys[1], offsets=None)
    assert examples.labels is not None
    cells = [" ".join(task.labels[tag] for tag in tags) for tags in examples.labels]
    examples, bare = (dataclasses.replace(part, spec=task) for part in (examples, bare))
    return examples, cells, notes, bare


def _with_one_separator(task: tasks.TaskSpec, cells: list[str]) -> tuple[tasks.TaskSpec, list[str]]:
    """Writes lists of labels, and labels between other marks, with a separator that none holds."""
    names = [label_kinds.names_in(cell, task.label_separator) for cell in cells]
    used = {name for row in names for name in row}
    free = [mark for mark in _JOINING if not any(mark in name for name in used)]
    mark = (
        task.label_separator
        if task.label_separator in free
        else (free or [table_files.LIST_MARK])[0]
    )
    joined = [mark.join(row) for row in names]
    return dataclasses.replace(task, label_separator=mark), joined


def _with_labels(task: tasks.TaskSpec, path: pathlib.Path, cells: list[str]) -> tasks.TaskSpec:
    if task.traits.nameless:
        return task
    labels = {name for cell in cells for name in task.traits.names_in(cell, task.label_separator)}
    order = parquet.class_names(path, task.label_column)
    return task.with_found_labels(labels, f"{path}, column {task.label_column!r}", order)


def new_rows(
    examples: tasks.Examples, numbers: np.ndarray, cells: list[str], notes: list[str]
) -> np.ndarray:
    """The rows with a text that say something new, rising; notes tell how many the others are."""
    with_text = np.fromiter(map(bool, map(str.strip, examples.texts)), bool, len(examples))
    labels = splitting.numbered(cells)
    said = numbers * (labels.max(initial=0) + 1) + labels
    new = np.zeros(len(examples), bool)
    new[np.unique(said, return_index=True)[1]] = True
    left_out = {
        "without a text": np.flatnonzero(~with_text),
        "that repeat a text with its label": np.flatnonzero(with_text & ~new),
    }
    assert examples.lines is not None
    notes += [
        f"left out: {len(rows)} row(s) {why}, first line {examples.lines[rows[0]]}"
        for why, rows in sorted(left_out.items(), key=lambda item: item[1][:1].tolist())
        if len(rows)
    ]
    return np.flatnonzero(with_text & new)
