"""One labelled file of a user -> a task and its training, development and test sets."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
import shutil
from collections.abc import Mapping
from typing import Any

import numpy as np

from tfdistill import errors, tasks
from tfdistill.data import columns, labelled_rows, unlabelled
from tfdistill.data.answered_file import AnsweredFile
from tfdistill.io import files
from tfdistill.manifest.confidence import FEWEST_OTHERS
from tfdistill.tasks import (
    splitting,
    table_files,
    tagged_texts,
)

FEW_OF_A_LABEL = 32  # rows, on average: no more are cross-validated, where that is wanted
PROMISE = "promise"
_BARE = "unlabelled.jsonl"
_MOST_LABELS = 12  # that are listed
_MOST_SIMILAR = 0.02  # share of rows that are like others which a plan does not tell
_GROUPED = "each is in one set, but for those of over a tenth of the rows or of labels with under 5"
_CROSSED = "cross-validation takes them apart, and its figures are too good"


@dataclasses.dataclass(frozen=True)
class LabelledFile:
    """A file, recognised and split; lines are numbered as in the user's file."""

    task: tasks.TaskSpec
    # "train", "dev" and "test", and "promise" where texts that choose nothing were split off too;
    # "train" alone where the rows are few and cross-validated.
    sets: Mapping[str, tasks.Examples]
    cells: Mapping[str, list[str]]  # the cells of the label column of each set
    notes: tuple[str, ...]  # what was recognised and what was left out, a sentence each
    # The set that chooses nothing and gives promises: "promise", "test" where there are too few
    # rows for that one, None for no promise.
    promising: str | None = None
    other: pathlib.Path | None = None  # the file of texts of no label
    answered: AnsweredFile | None = None  # where a model answered its texts
    bare: tasks.Examples | None = None  # texts that nobody tagged, and none like one held out

    @property
    def cross_fitted(self) -> bool:
        """Whether nothing was split off."""
        return "dev" not in self.sets

    @property
    def sizes(self) -> dict[str, int]:
        """The examples of each set, and the texts without labels, "unlabelled"."""
        bare = self.bare or () if self.answered is None else self.answered.bare["unlabelled"]
        return {**{name: len(part) for name, part in self.sets.items()}, "unlabelled": len(bare)}

    @property
    def has_few(self) -> bool:
        """Whether there are few rows of each label, of single texts with one class each."""
        return _are_few(self.task, sum(map(len, self.sets.values())))

    @property
    def label_note(self) -> str:
        """The labels with their counts, the most frequent first; of a regression the range."""
        traits = self.task.traits
        gold = [examples.labels for examples in self.sets.values() if examples.labels is not None]
        labels, names = np.concatenate(gold), list(self.task.labels)
        if traits.one_number:
            return f"labels: {labels.min():g} to {labels.max():g}, median {np.median(labels):g}"
        if traits.many_classes:
            counts = labels.sum(axis=0).astype(int)
        else:
            every = np.concatenate(list(labels)) if traits.over_tokens else labels
            counts = np.bincount(every, minlength=len(names))
        what = "labels"
        if types := [i for i, name in enumerate(names) if traits.over_tokens and name[:2] == "B-"]:
            what, counts, names = "entities", counts[types], [names[i][2:] for i in types]
        order = np.argsort(-counts, kind="stable")
        shown = [f"{names[i]} {counts[i]:,}" for i in order[:_MOST_LABELS]]
        more = len(order) - len(shown)
        return f"{what}: {', '.join(shown)}" + (f" and {more} more" if more > 0 else "")

    @property
    def _is_tagged(self) -> bool:
        return self.task.traits.tags_words

    @property
    def _suffix(self) -> str:
        return ".jsonl" if self._is_tagged else ".csv"

    def section(self, folder: files.Path) -> dict[str, Any]:
        """The data section of the files that `write` puts into a folder."""
        task = self.task
        # Not those of its tables: in another order, or types that the training set may not have.
        of_file = list(task.labels) != task.traits.ordered(task.labels) or self._is_tagged
        promising = self.promising
        file = f"{promising}{self._suffix}"
        promise_on = None if promising is None else str(pathlib.Path(folder) / file)
        return {
            "task": task.name,
            "dir": str(folder),
            "text_column": task.text_column,
            "pair_column": task.pair_column,
            "label_column": task.label_column,
            "kind": task.kind,
            "metrics": task.metrics,
            "label_separator": task.label_separator,
            "promise_on": promise_on,
            "other": self.other and str(pathlib.Path(folder) / f"other{self.other.suffix}"),
            **({} if self.answered is None else self.answered.section(folder, promising)),
            **({"unlabelled": [str(pathlib.Path(folder) / _BARE)]} if self.bare else {}),
            **({"labels": task.labels} if of_file else {}),
            **({"cross_fitted": True, "dev_split": "train"} if self.cross_fitted else {}),
        }

    def write(self, folder: files.Path, *, languages: bool = False) -> None:
        """Writes train.csv and so for each set, which `tasks.load_examples` reads back.

        Of words with tags train.jsonl and so. With `languages` also the column of languages, where
        the user's file has one.
        """
        if self.other is not None:
            shutil.copyfile(self.other, pathlib.Path(folder) / f"other{self.other.suffix}")
        if self.answered is not None:
            self.answered.write(pathlib.Path(folder), self.task, self.other)
        bare = {pathlib.Path(_BARE).stem: self.bare} if self.bare else {}
        for name, examples in {**self.sets, **bare}.items():
            pairs = [] if examples.pairs is None else [examples.pairs]
            header = (self.task.text_column, self.task.pair_column, self.task.label_column)
            named = columns.languages_of(examples) if languages else None
            more = {} if named is None else {columns.LANGUAGE[0]: named}
            if self.answered is not None:
                rows = [self.answered.cells[line] for line in examples.lines or ()]
                more |= {name: [row[name] for row in rows] for name in rows[0]}
            with (
                files.atomic_write(pathlib.Path(folder) / f"{name}{self._suffix}") as temporary,
                temporary.open("w", encoding="utf-8", newline="") as file,
            ):
                if self._is_tagged:
                    lines = map(json.dumps, tagged_texts.records_of(examples))
                    file.writelines(f"{line}\n" for line in lines)
                    continue
                rows = zip(examples.texts, *pairs, self.cells[name], *more.values(), strict=True)
                names = [name for name in (*header, *more) if name is not None]
                table_files.write_cells(file, names, rows)


def name_of(path: files.Path) -> str:
    """A name for recipe and task, made of a file's name."""
    name = re.sub(r"[^a-z0-9_.-]+", "_", pathlib.Path(path).stem.casefold()).strip("_.-")
    return name or "data"


def _are_few(task: tasks.TaskSpec, num_rows: int) -> bool:
    single = task.traits.one_class and task.pair_column is None
    return single and 2 * task.num_labels <= num_rows <= FEW_OF_A_LABEL * task.num_labels


def read_labelled_file(
    path: files.Path,
    name: str,
    *,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    kind: str | None = None,
    separator: str | None = None,
    offsets: str | None = None,
    seed: int = 1,
    promise: bool = False,
    few: bool = False,
    other: pathlib.Path | None = None,
    similar_together: bool = True,
    answered: AnsweredFile | None = None,
) -> LabelledFile:
    """Reads a labelled file, recognises columns, kind and separator if unnamed, and splits it.

    Rows without a text and rows that repeat a text with its label are left out. With `promise`
    texts that choose nothing give promises, where the kind has probabilities: split off where there
    are enough of them, otherwise those of a test set of at least 100 rows. With `few` the rows stay
    together where they are at most `FEW_OF_A_LABEL` for a class of single texts. `offsets` is the
    unit of the offsets of entities. `other` names a file of texts of no label, none of which may be
    in the labelled file. With `similar_together` texts that differ in digits and punctuation are in
    one set (`split_keys`). Where a model answered its texts, `answered` is what
    `read_answered_file` has read, with each text once.
    """
    kinds = [name for name, traits in tasks.KINDS.items() if traits.in_one_file]
    if kind is not None and kind not in kinds:
        remedy = "Questions and pairs for vectors need a file for each split, in a folder."
        raise errors.ConfigError("data.kind", f"one of {', '.join(kinds)}", kind, remedy)
    path = pathlib.Path(path)
    tagged = kind == labelled_rows.TAGGED or (kind is None and labelled_rows.is_tagged(path))
    unread: dict[str, Any] = {"offsets": offsets}
    if tagged:
        unread = {"pair_column": pair, "label_separator": separator, "other": other}
    for field, value in unread.items():
        if value is not None:
            expected = f"none of {'words with tags' if tagged else 'texts with labels'}"
            raise errors.ConfigError(f"data.{field}", expected, f"{value}", "Leave it out.")
    named, bare = (text, pair, label), None
    if tagged:
        options = text, label, offsets
        everything, cells, notes, bare = labelled_rows.read_tagged(path, name, *options)
    else:
        options = kind, separator, answered
        everything, cells, notes = labelled_rows.read_table(path, name, named, *options)
    task, gold = everything.spec, everything.labels
    assert gold is not None
    (numbers,) = unlabelled.example_numbers(everything)  # equal texts have one
    rows = labelled_rows.new_rows(everything, numbers, cells, notes)
    together = few and _are_few(task, len(rows)) and not (answered and answered.bare["unlabelled"])
    (groups,) = unlabelled.example_numbers(everything.select(rows), similar=True)
    share = 1 - np.count_nonzero(np.bincount(groups) == 1) / max(len(rows), 1)
    if similar_together and share > _MOST_SIMILAR:
        notes.append(
            f"{share:.0%} of the rows are like others but for digits, punctuation or the order of "
            f"a pair, in {groups.max() + 1} groups: {_CROSSED if together else _GROUPED}"
        )
    if task.primary_metric == "macro_f1":
        weighted = "; class_weights='balanced' makes rare labels count as much in training"
        notes.append(
            "metric: macro_f1, because a label is rare and accuracy would hide it"
            + ("" if together else weighted)
        )
    if len(rows) < splitting.FEWEST_ROWS and not together:
        raise errors.DataError(
            f"data file {path}",
            f"at least {splitting.FEWEST_ROWS} different texts",
            len(rows),
            "Fewer cannot be split. Of single texts with one label each, `tfdistill quickstart` "
            "takes two of each label, where no option chooses student or training.",
        )
    if other is not None:
        read, none = unlabelled.read_unlabelled(task, [other]), everything.select([])
        number = len(unlabelled.select_new(read, none, {"labelled": everything}).examples)
        effect = "half of them raise" if number >= FEWEST_OTHERS else "too few to raise"
        notes.append(f"other texts: {number}, {effect} the thresholds of sure answers")
    if together:
        notes.append(
            f"{len(rows)} rows of {task.num_labels} labels: all of them train, and are "
            "cross-validated"
        )
        of_rows = [cells[row] for row in rows]
        train = {"train": everything.select(rows)}
        cells_of = {"train": of_rows}
        return LabelledFile(task, train, cells_of, tuple(notes), None, other, answered)
    numbers = numbers[rows]
    num_texts = len(np.unique(numbers))
    if tagged:  # which tags each text has
        gold = np.stack([np.bincount(tags, minlength=task.num_labels) > 0 for tags in gold])
    strata = splitting.strata_of(gold[rows])
    held_out = splitting.held_out_size(num_texts)
    if similar_together:
        numbers = splitting.split_keys(numbers, groups, strata)
    train, dev, test = splitting.split(numbers.tolist(), strata, held_out, seed)
    parts: dict[str, np.ndarray] = {"train": train, "dev": dev, "test": test}
    promising, possible = None, promise and task.traits.gives_probabilities
    if possible and len(test) >= splitting.FEWEST_TESTED:
        promising = "test"
    if possible and (size := splitting.promise_size(num_texts)):
        halves = splitting.split(numbers[train].tolist(), strata[train], size // 2, seed)
        parts["train"] = train[halves[0]]
        parts[PROMISE] = train[np.sort(np.concatenate(halves[1:]))]
        promising = PROMISE
    sets, cells_of = {}, {}
    for part, indices in parts.items():
        sets[part] = everything.select(rows[indices])
        cells_of[part] = [cells[row] for row in rows[indices]]
    if bare is not None and len(bare):
        every, bare = len(bare), _apart(bare, sets)
        left_out = every - len(bare)
        notes.append(
            f"nobody annotated {every} texts: a student is distilled from {len(bare)} of them"
            + f", {left_out} are left out, which others or held-out texts are like" * (left_out > 0)
        )
    shown = ", ".join(f"{part} {len(examples)}" for part, examples in sets.items())
    notes.append(f"split: {shown}; stratified, no text in two of them, seed {seed}")
    if answered is not None:
        answered = answered.dealt({part: len(examples) for part, examples in sets.items()}, seed)
    return LabelledFile(task, sets, cells_of, tuple(notes), promising, other, answered, bare)


def _apart(bare: tasks.Examples, sets: Mapping[str, tasks.Examples]) -> tasks.Examples:
    """The texts without tags that are new, each once, and like none of a held-out set."""
    held_out = [examples for part, examples in sets.items() if part != "train"]
    numbers, *others = unlabelled.example_numbers(bare, *held_out, similar=True)
    bare = bare.select(np.flatnonzero(~np.isin(numbers, np.concatenate(others))))
    places = tuple(map(bare.location, range(len(bare))))
    further = unlabelled.UnlabelledTexts(bare, places)
    return unlabelled.select_new(further, sets["train"], {}).examples
