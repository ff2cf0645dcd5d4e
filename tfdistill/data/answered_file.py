"""One file with the answers of a model -> its labelled texts, and what goes beside them."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfdistill import config, errors, tasks
from tfdistill.data import columns, soft_label_values, soft_labels, unlabelled
from tfdistill.data.model_answers import (
    ABSTAINED_SUFFIX,
    ANSWER,
    COUNT,
    GOLD,
    LABEL,
    PROBABILITIES,
    SCORE,
    by_label,
    counts_of,
    read_shares,
)
from tfdistill.io import files
from tfdistill.tasks import splitting, table_files, tables
from tfdistill.tasks.answer_cells import (
    ABSTAINED,
    UNANSWERED,
    bare_answer,
    folded_label,
    read_answers,
    text_of,
)
from tfdistill.tasks.label_kinds import label_order

NOTES = "model_answers.json"
"""Beside the sets: what the file of the answers held, a sentence each."""
_BY = "answered_by"
_UNLABELLED, _OTHER = "unlabelled", "other"
_LISTED = 10  # answers in a remedy
_SURE = 0.999  # probability: an answer of more is no soft one


@dataclasses.dataclass(frozen=True)
class AnsweredFile:
    """A file with a model's answers: its labelled texts, and what goes beside them.

    Attributes:
      table: Each text that has a label once, in columns that `roles` names.
      roles: Its columns.
      labels: The labels, in the order of the classes.
      cells: Further columns of the labelled texts, by line: name -> cell.
      bare: Rows of texts without a label: those without an answer under "unlabelled"; those to
        which the model knows none under "other", once they are dealt out also under
        "promise_abstained" and "test_abstained".
      declared: The section `data.model_answers`.
      notes: What was recognised, a sentence each.
    """

    table: tables.DataTable
    roles: columns.Roles
    labels: tuple[str, ...]
    cells: Mapping[int, Mapping[str, Any]]
    bare: Mapping[str, list[dict[str, Any]]]
    declared: config.ModelAnswersConfig
    notes: tuple[str, ...]

    @property
    def is_soft(self) -> bool:
        """Whether an answer that is learnt is more than a label."""
        return any(name.startswith(PROBABILITIES) for row in self.cells.values() for name in row)

    def num_judged(self, lines: Sequence[int]) -> int:
        """Of how many of the labelled texts in these lines the answer is what is learnt."""
        every = self.declared.learn == "answers"
        return sum(every or not self.cells[line].get(GOLD) for line in lines)

    def dealt(self, sizes: Mapping[str, int], seed: int) -> AnsweredFile:
        """Deals abstained texts out to sets of these sizes, to each its share."""
        rows = np.random.default_rng(seed).permutation(np.array(self.bare[_OTHER], object))
        cuts = np.round(np.cumsum([*sizes.values()]) / sum(sizes.values()) * len(rows)).astype(int)
        parts = dict(zip(sizes, map(list, np.split(rows, cuts[:-1])), strict=True))
        chosen_on = parts.pop("train") + parts.pop("dev")
        dealt_out = {f"{name}{ABSTAINED_SUFFIX}": part for name, part in parts.items()}
        return dataclasses.replace(self, bare={**self.bare, **dealt_out, _OTHER: chosen_on})

    def section(self, folder: files.Path, promising: str | None) -> dict[str, Any]:
        """What these answers say in the data section of the files that `write` writes."""
        declared = self.declared.model_copy(update={"answer_column": ANSWER})
        values: dict[str, Any] = {"model_answers": declared.model_dump(), "labels": self.labels}
        if self.bare[_UNLABELLED]:
            values["unlabelled"] = [str(pathlib.Path(folder) / f"{_UNLABELLED}.csv")]
        if promising is not None and self.bare[_OTHER]:
            values["other"] = str(pathlib.Path(folder) / f"{_OTHER}.csv")
        return values

    def write(self, folder: pathlib.Path, task: tasks.TaskSpec, other: pathlib.Path | None) -> None:
        """Writes the texts that have no label, among them those of the user's file `other`."""
        bare = dict(self.bare)
        if other is not None and bare[_OTHER]:
            read = unlabelled.read_unlabelled(task, [other]).examples
            names = soft_labels.text_columns(task)
            keys = soft_labels.example_keys(read)
            bare[_OTHER] = [*bare[_OTHER], *(dict(zip(names, key, strict=True)) for key in keys)]
        for name, rows in bare.items():
            if rows:
                header = [*dict.fromkeys(column for row in rows for column in row)]
                cells = ([row.get(column, "") for column in header] for row in rows)
                table_files.write_table(folder / f"{name}.csv", header, cells)
        files.atomic_write_json(folder / NOTES, {"notes": list(self.notes)})


def read_answered_file(
    path: pathlib.Path,
    named: Sequence[str | None],
    declared: config.ModelAnswersConfig,
    labels: Sequence[str] = (),
) -> AnsweredFile | None:
    """Reads a file with the answers of a model to texts; None where it has none.

    The answers are in the column that is declared; in ``probabilities.LABEL``, or in objects,
    ``probabilities``; or in ``label`` beside its probability, ``score``, where nobody calls that
    the column of labels. Answers to equal texts are samples: their mean is the soft answer, the
    most frequent one the answer.

    Args:
      path: The file.
      named: The columns of text, second text and gold label, as far as they are named.
      declared: The column of the answers, what is learnt, and the answer that none is known.
      labels: All labels; without them those of the gold labels and the probabilities.

    Raises:
      ConfigError: If the labels are not known, or the file has no such column.
      DataError: If answers cannot be used; the message names a row.
    """
    column = _answer_column(path, declared, labels, named[2])
    if column is None:
        return None
    raw = columns.read_columns(path, (column.split(".")[0], PROBABILITIES, SCORE, COUNT, _BY))
    beside_score = column != declared.answer_column and column == LABEL
    if beside_score and not (declared.model_fields_set or labels or _may_be_shares(raw)):
        return None  # a table whose scores count something else
    where = tables.Places(raw, column)
    makers: dict[str, int] = {}  # first row of each
    for row, cell in enumerate(raw.values.get(_BY, ())):
        makers.setdefault(text_of(cell), row)
    makers.pop("", None)
    if len(makers) > 1:
        first, another = [*makers][:2]
        raise errors.DataError(where[makers[another]], f"{_BY} {first!r}, as above", repr(another))
    if makers and declared.answered_by is None:
        declared = declared.model_copy(update={"answered_by": next(iter(makers))})
    table, roles = _roles(raw, named, column)
    gold_cells = [cell.strip() for cell in table.columns[roles.label]]
    names, shares = read_shares(raw, where)
    gold_names = {*filter(None, gold_cells)}
    spelled = {folded_label(name) for name in (*gold_names, declared.abstains or "")}
    every = gold_names | {name for name in names if folded_label(name) not in spelled}
    ordered = dict.fromkeys(labels or sorted(every, key=label_order(every)))
    ordered = tuple(name for name in ordered if name != declared.abstains)
    if not ordered:
        texts = [*filter(None, map(bare_answer, raw.values[column]))]
        often = sorted({*texts}, key=lambda name: (-texts.count(name), name))[:_LISTED]
        expected = "gold labels, columns probabilities.LABEL, or --labels"
        remedy = f"Name them all: --labels {','.join(often)}."
        remedy += " If they are gold labels, add --label-column label." if beside_score else ""
        raise errors.ConfigError(f"labels of {path}", expected, "answers alone", remedy)
    if unknown := gold_names - {*ordered}:
        place = tables.Places(raw, roles.label)[min(map(gold_cells.index, unknown))]
        raise errors.DataError(place, f"one of {', '.join(ordered)}", f"{sorted(unknown)}")
    width, notes = len(ordered), []

    def places_of(cells: Sequence[Any], places: Sequence[str]) -> np.ndarray:
        """The columns of answers in `soft`; the last one is for the answer that none is known."""
        classes, note = read_answers(cells, ordered, places, declared.abstains)
        notes.extend(filter(None, [note]))
        return np.where(classes == ABSTAINED, width, classes)

    soft = by_label(names, shares, ordered, declared.abstains, path)
    answers = np.where(soft.any(axis=1), soft.argmax(axis=1), UNANSWERED)
    if column != PROBABILITIES:
        answers = places_of(raw.values[column], where)
        bare = (answers >= 0) & ~soft.any(axis=1)
        soft[bare] = np.eye(width + 1)[answers[bare]]
        if SCORE in raw.values and not names:
            _spread(soft, answers, raw.values[SCORE], where)
    gold = np.array([ordered.index(cell) if cell else UNANSWERED for cell in gold_cells])
    counts = counts_of(raw.values[COUNT], where) if COUNT in raw.values else None
    read = AnsweredFile(table, roles, ordered, {}, {}, declared, tuple(notes))
    return _joined(read, answers, soft, gold, counts, f"{path}, column {column!r}")


def _answer_column(
    path: pathlib.Path, declared: config.ModelAnswersConfig, labels: Sequence[str], gold: str | None
) -> str | None:
    is_table = path.is_file() and path.suffix.lower() in tables.SUFFIXES
    names = tables.column_names(path) if is_table else []
    if declared.answer_column in names:
        return declared.answer_column
    if "answer_column" in declared.model_fields_set:
        expected, remedy = f"a column of {path}", errors.nearest(declared.answer_column, names)
        raise errors.ConfigError("--answer-column", expected, repr(declared.answer_column), remedy)
    if any(name.split(".")[0] == PROBABILITIES for name in names):
        return PROBABILITIES
    if {LABEL, SCORE} <= {*names} and gold is None:
        return LABEL
    if declared.model_fields_set or labels:
        remedy = "Name their column with --answer-column."
        raise errors.ConfigError(f"{path}", "answers of a model", "none that are named", remedy)
    return None


def _may_be_shares(raw: tables.DataTable) -> bool:
    """Whether the scores are probabilities, and not votes or stars."""
    try:
        return all(0 <= float(cell) <= 1 for cell in map(text_of, raw.values[SCORE]) if cell)
    except ValueError:
        return False


def _roles(
    raw: tables.DataTable, named: Sequence[str | None], column: str
) -> tuple[tables.DataTable, columns.Roles]:
    """The columns that hold no answers; that of gold labels is blank where there is none."""
    rest = {name: cells for name, cells in raw.columns.items() if name not in raw.values}
    gold = named[2] if named[2] != column else None
    if gold is None and not any(name.casefold() in columns.LABEL_NAMES for name in rest):
        gold, rest["label"] = "label", [""] * len(raw)
    unusable = {name: why for name, why in raw.unusable.items() if name not in raw.values}
    table = dataclasses.replace(raw, columns=rest, unusable=unusable)
    return table, columns.choose_roles(table, named[0], named[1], gold)


def _spread(
    soft: np.ndarray, answers: np.ndarray, scores: Sequence[Any], where: Sequence[str]
) -> None:
    """Gives each answer its score, the other labels equal parts of the rest, but none more."""
    width = soft.shape[1] - 1
    scored = [bool(text_of(score)) for score in scores]
    rows = np.flatnonzero(scored & (0 <= answers) & (answers < width)).tolist()
    place = lambda number: str(where[rows[number]])  # noqa: E731
    values = soft_label_values.numbers([scores[row] for row in rows], place, SCORE)[:, None]
    values = soft_label_values.checked_probabilities(values, place, "multi_label")
    values = np.maximum(values, 1 / width)
    soft[rows, :width] = (1 - values) / max(width - 1, 1)
    soft[rows, answers[rows]] = values[:, 0]


def _joined(
    read: AnsweredFile,
    answers: np.ndarray,
    soft: np.ndarray,
    gold: np.ndarray,
    counts: np.ndarray | None,
    where: str,
) -> AnsweredFile:
    """Joins the rows of each text.

    Shapes: `answers`, `gold` and `counts` (n,), `soft` (n, labels + 1).
    """
    table, roles, width = read.table, read.roles, len(read.labels)
    names, declared = [*read.labels, read.declared.abstains or ""], read.declared
    columns_of_text = [name for name in (roles.text, roles.pair) if name is not None]
    parts = zip(*(table.columns[name] for name in columns_of_text), strict=True)
    texts = [
        [table_files.line_feeds(cell.strip(table_files.NULL)) for cell in row] for row in parts
    ]
    has_text = np.array([bool(row[0].strip()) for row in texts])
    answers, gold = (np.where(has_text, rows, UNANSWERED) for rows in (answers, gold))
    groups = splitting.numbered(tuple(map(unlabelled.normal_text, row)) for row in texts)
    first = np.unique(groups, return_index=True)[1]
    rows = np.flatnonzero(answers >= 0)
    votes, shares = np.zeros((2, len(first), width + 1))
    np.add.at(votes, (groups[rows], answers[rows]), 1)
    np.add.at(shares, groups[rows], soft[rows])
    num_answers = votes.sum(axis=1)
    shares /= np.maximum(num_answers, 1)[:, None]
    answer = np.where(num_answers > 0, (votes + shares / 2).argmax(axis=1), UNANSWERED)
    if len(rows) >= splitting.FEWEST_ROWS and len({*answers[rows]}) == 1:
        received = f"{names[answer.max()]!r} to all {len(rows)} that are answered"
        raise errors.DataError(where, "different answers to texts", received)
    rows = np.flatnonzero(gold >= 0)[::-1]
    gold_of = np.full(len(first), UNANSWERED)
    gold_of[groups[rows]] = gold[rows]  # of several the first
    wins = (gold_of >= 0) & (declared.learn == "gold")
    learnt = np.where(wins, gold_of, answer)
    chosen = np.flatnonzero((0 <= learnt) & (learnt < width))
    unlabelled_texts = np.flatnonzero((learnt < 0) & has_text[first])
    bare = {_UNLABELLED: unlabelled_texts, _OTHER: np.flatnonzero(learnt == width)}
    if len(chosen) < splitting.FEWEST_ROWS and len(bare[_UNLABELLED]):
        expected = f"answers to at least {splitting.FEWEST_ROWS} texts"
        raise errors.DataError(where, expected, f"{len(chosen)} of {len(first)} texts")
    shares[wins] = np.eye(width + 1)[gold_of[wins]]
    shares = shares[:, :width] / np.maximum(shares[:, :width].sum(axis=1, keepdims=True), 1e-9)
    beside = {ANSWER: ["" if i < 0 else names[i] for i in answer]}
    if (gold_of >= 0).any():
        beside[GOLD] = ["" if i < 0 else names[i] for i in gold_of]
    if counts is not None:
        beside[COUNT] = list(map(str, np.bincount(groups, counts).astype(int)))
    if is_soft := bool((shares[chosen].max(axis=1, initial=0) < _SURE).any()):
        of_labels = zip(read.labels, shares.T.tolist(), strict=True)
        beside |= {f"{PROBABILITIES}.{name}": list(map(str, part)) for name, part in of_labels}
    labelled = {name: [part[row] for row in first[chosen]] for name, part in table.columns.items()}
    labelled[roles.label] = [names[i] for i in learnt[chosen]]
    lines = [table.lines[row] for row in first[chosen]]
    several = votes[num_answers > 1]
    pairs = num_answers[num_answers > 1] * (num_answers[num_answers > 1] - 1)
    agreement = (several * (several - 1)).sum(axis=1) / pairs
    notes = [
        f"{table.path.name}: {len(table)} rows, {(num_answers > 0).sum()} of "
        f"{has_text[first].sum()} texts have an answer in {where.partition('column ')[2]}"
        + ", with probabilities"
        * is_soft,
        f"learnt: {wins.sum()} gold labels, {len(chosen) - wins.sum()} answers, and "
        f"{len(bare[_UNLABELLED])} texts without a label",
    ]
    if len(empty := np.flatnonzero(~has_text)):
        line = table.lines[empty[0]]
        notes.append(f"left out: {len(empty)} row(s) without a text, first line {line}")
    if len(bare[_OTHER]):
        notes.append(f"no label: {len(bare[_OTHER])} texts answered {declared.abstains!r}")
    if len(several):
        notes.append(
            f"the model agrees with itself in {agreement.mean():.1%} of the pairs of answers to "
            f"one text, of {len(several)} texts that it answered several times"
        )
    of_text = [
        dict(zip(beside, cells, strict=True)) for cells in zip(*beside.values(), strict=True)
    ]
    return dataclasses.replace(
        read,
        table=dataclasses.replace(table, columns=labelled, lines=lines, values={}),
        cells={line: of_text[i] for line, i in zip(lines, chosen, strict=True)},
        bare={
            name: [
                {**dict(zip(columns_of_text, texts[first[i]], strict=True)), **of_text[i]}
                for i in part
            ]
            for name, part in bare.items()
        },
        notes=(*notes, *read.notes),
    )
