"""Placeholder data: generated files in the form of any task, to try its recipe without its data.

They have the columns, the labels and the file format of the task; their texts are the commands of
`data.synthetic`. Metrics on them say nothing about the task.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib

import numpy as np

from tfdistill.data import synthetic
from tfdistill.io import files
from tfdistill.tasks import TaskSpec

_Row = dict[str, str]
_PREPOSITIONS = {"at": "TIME", "for": "TIME", "in": "PLACE", "to": "GOAL"}


def write_placeholder_data(
    spec: TaskSpec, folder: files.Path, *, num_train: int = 600, num_dev: int = 120, seed: int = 0
) -> None:
    """Writes a train and a dev split and corpus.txt in the form of a task.

    One text: its label is one of as many intents as there are labels; several labels: those of
    two commands in a row. Two texts: whether both mean the same intent (two labels), or also
    whether the second forbids it (three); for a regression, a number from 0 (other intents) to 5
    (the same words). Tags: the words after a preposition. Questions: which command of a few is of
    an intent. Files of these names are replaced.
    """
    texts, intents = synthetic.generate(4 * (num_train + num_dev) + 100, seed)
    by_intent: dict[str, list[str]] = {}
    for text, intent in zip(texts, intents, strict=True):
        by_intent.setdefault(intent, []).append(text)
    rows = _Rows(spec, by_intent, np.random.default_rng([seed, 2]))
    target = pathlib.Path(folder)
    write = {"squad": _write_squad, "conll": _write_conll, "folders": _write_folders}
    for split, count in (("train", num_train), (spec.dev_split, num_dev)):
        write.get(spec.layout, _write_table)(rows, target / split, count)
    corpus = synthetic.generate_corpus(max(num_train // 4, 20), seed)
    files.atomic_write_text(target / synthetic.CORPUS_NAME, corpus)


@dataclasses.dataclass(frozen=True)
class _Rows:
    """Draws rows of a task from commands by intent."""

    spec: TaskSpec
    texts: dict[str, list[str]]
    generator: np.random.Generator

    def command(self, intent: int) -> str:
        texts = self.texts[synthetic.INTENTS[intent]]
        return texts[int(self.generator.integers(len(texts)))]

    @property
    def _several(self) -> bool:
        """Whether a row has labels of two commands."""
        most = len(synthetic.INTENTS)
        return self.spec.traits.many_classes and 2 <= len(self.spec.labels) <= most

    def row(self) -> _Row:
        """Column -> cell."""
        if self._several:
            return self._of_two_commands()
        return self.single() if self.spec.pair_column is None else self._pair()

    def single(self) -> _Row:
        """A command and its intent."""
        label = int(self.generator.integers(self.spec.num_labels))
        return {
            self.spec.text_column: self.command(label),
            self.spec.label_column: self._spelling(label),
        }

    def _of_two_commands(self) -> _Row:
        spec = self.spec
        first, second = map(int, self.generator.permutation(len(spec.labels))[:2])
        chosen = [first] if self.generator.random() < 0.5 else [first, second]
        labels = spec.label_separator.join(map(self._spelling, chosen))
        return {spec.text_column: " , ".join(map(self.command, chosen)), spec.label_column: labels}

    def _pair(self) -> _Row:
        spec = self.spec
        first, other = self.generator.permutation(len(synthetic.INTENTS))[:2]
        text = self.command(first)
        outcome = int(self.generator.integers(3 if spec.traits.one_number else spec.num_labels))
        if outcome == 1:
            second, score = self.command(other), 0.0
        elif spec.traits.one_number and outcome == 2:
            second, score = text, 5.0
        else:
            second, score = self.command(first), 3.0
            if outcome == 2:
                second = f"never {second}"
        assert spec.pair_column is not None
        label = f"{score}" if spec.traits.one_number else self._spelling(outcome)
        return {spec.text_column: text, spec.pair_column: second, spec.label_column: label}

    def _spelling(self, label: int) -> str:
        return (self.spec.label_values or self.spec.labels)[label]


def _write_table(rows: _Rows, target: pathlib.Path, count: int) -> None:
    spec = rows.spec
    named = (spec.text_column, spec.pair_column, spec.label_column)
    columns = list(spec.header) or [column for column in named if column is not None]
    lines = [] if spec.header else ["\t".join(columns)]
    for _ in range(count):
        row = rows.row()
        lines.append("\t".join(row.get(column, "-") for column in columns))
    files.atomic_write_text(target.with_name(f"{target.name}.tsv"), "\n".join(lines) + "\n")


def _write_folders(rows: _Rows, target: pathlib.Path, count: int) -> None:
    for index in range(count):
        row = rows.single()
        path = target / row[rows.spec.label_column] / f"{index}.txt"
        files.atomic_write_text(path, row[rows.spec.text_column] + "\n")


def _write_conll(rows: _Rows, target: pathlib.Path, count: int) -> None:
    lines = []
    for _ in range(count):
        before = ""
        for word in rows.command(int(rows.generator.integers(len(synthetic.INTENTS)))).split():
            kind = _PREPOSITIONS.get(before)
            lines.append(f"{word} {'O' if kind is None else f'B-{kind}'}")
            before = word
        lines.append("")
    files.atomic_write_text(target.with_name(f"{target.name}.txt"), "\n".join(lines) + "\n")


def _write_squad(rows: _Rows, target: pathlib.Path, count: int) -> None:
    generator, unanswerable = rows.generator, rows.spec.spans.unanswerable
    paragraphs = []
    for index in range(count):
        *intents, other = generator.permutation(len(synthetic.INTENTS))[:4]
        commands = [rows.command(intent) for intent in intents]
        context = " . ".join(commands)
        chosen = int(generator.integers(len(intents)))
        is_answered = not unanswerable or generator.random() < 0.7
        intent = synthetic.INTENTS[intents[chosen] if is_answered else other]
        answer = {"text": commands[chosen], "answer_start": context.index(commands[chosen])}
        question = {
            "id": f"{target.name}-{index}",
            "question": f"where is {intent.replace('_', ' ')} ?",
            "answers": [answer] if is_answered else [],
        }
        if unanswerable:
            question["is_impossible"] = not is_answered
        paragraphs.append({"context": context, "qas": [question]})
    version = "v2.0" if unanswerable else "1.1"
    document = {"version": version, "data": [{"title": "placeholder", "paragraphs": paragraphs}]}
    text = json.dumps(document, indent=2, ensure_ascii=False)
    files.atomic_write_text(target.with_name(f"{target.name}.json"), text + "\n")
