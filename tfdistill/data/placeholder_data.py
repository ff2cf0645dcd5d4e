"""Placeholder data: generated files in the form of any task, to try its recipe without its data.

They have the columns, the labels and the file format of the task; their texts are the commands of
`data.synthetic`. Metrics on them say nothing about the task.
"""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable

import numpy as np

from tfdistill import errors, files
from tfdistill.data import synthetic
from tfdistill.tasks import TaskSpec

Path = str | os.PathLike[str]
_Row = dict[str, str]
_Texts = dict[str, list[str]]  # commands by intent
_PREPOSITIONS = {"at": "TIME", "for": "TIME", "in": "PLACE", "to": "GOAL"}


def write_placeholder_data(
    spec: TaskSpec, folder: Path, *, num_train: int = 600, num_dev: int = 120, seed: int = 0
) -> None:
    """Writes a train and a dev split and corpus.txt in the form of a task.

    One text: its label is one of as many intents as there are labels; several labels: those of
    two commands in a row. Two texts: whether both mean the same intent (two labels), or also
    whether the second forbids it (three); for a regression, a number from 0 (other intents) to 5
    (the same words). Tags: the words after a preposition. Questions: which command of a few is of
    an intent.

    Args:
      spec: The task.
      folder: Where to write; its files of these names are replaced.
      num_train: Examples of the train split.
      num_dev: Examples of the dev split.
      seed: Seed.

    Raises:
      DataError: If the task has more labels than there are intents.
    """
    generator = np.random.default_rng([seed, 2])
    texts, intents = synthetic.generate(4 * (num_train + num_dev) + 100, seed)
    by_intent: dict[str, list[str]] = {}
    for text, intent in zip(texts, intents, strict=True):
        by_intent.setdefault(intent, []).append(text)
    target = pathlib.Path(folder)
    write = {"squad": _write_squad, "conll": _write_conll, "folders": _write_folders}
    for split, count in (("train", num_train), (spec.dev_split, num_dev)):
        write.get(spec.layout, _write_table)(spec, target, split, count, by_intent, generator)
    corpus = synthetic.generate_corpus(max(num_train // 4, 20), seed)
    files.atomic_write_text(target / synthetic.CORPUS_NAME, corpus)


def _write_table(
    spec: TaskSpec,
    target: pathlib.Path,
    split: str,
    count: int,
    texts: _Texts,
    generator: np.random.Generator,
) -> None:
    make = _maker(spec)
    columns = list(spec.header) or [
        column
        for column in (spec.text_column, spec.pair_column, spec.label_column)
        if column is not None
    ]
    lines = [] if spec.header else ["\t".join(columns)]
    for _ in range(count):
        row = make(texts, generator)
        lines.append("\t".join(row.get(column, "-") for column in columns))
    files.atomic_write_text(target / f"{split}.tsv", "\n".join(lines) + "\n")


def _write_folders(
    spec: TaskSpec,
    target: pathlib.Path,
    split: str,
    count: int,
    texts: _Texts,
    generator: np.random.Generator,
) -> None:
    for index in range(count):
        row = _single(spec, texts, generator)
        path = target / split / row[spec.label_column] / f"{index}.txt"
        files.atomic_write_text(path, row[spec.text_column] + "\n")


def _write_conll(
    spec: TaskSpec,
    target: pathlib.Path,
    split: str,
    count: int,
    texts: _Texts,
    generator: np.random.Generator,
) -> None:
    lines = []
    for _ in range(count):
        intent = synthetic.INTENTS[int(generator.integers(len(synthetic.INTENTS)))]
        before = ""
        for word in _draw(texts[intent], generator).split():
            kind = _PREPOSITIONS.get(before)
            lines.append(f"{word} {'O' if kind is None else f'B-{kind}'}")
            before = word
        lines.append("")
    files.atomic_write_text(target / f"{split}.txt", "\n".join(lines) + "\n")


def _write_squad(
    spec: TaskSpec,
    target: pathlib.Path,
    split: str,
    count: int,
    texts: _Texts,
    generator: np.random.Generator,
) -> None:
    paragraphs = []
    for index in range(count):
        *intents, other = generator.permutation(len(synthetic.INTENTS))[:4]
        commands = [_draw(texts[synthetic.INTENTS[position]], generator) for position in intents]
        context = " . ".join(commands)
        chosen = int(generator.integers(len(intents)))
        is_answered = not spec.spans.unanswerable or generator.random() < 0.7
        intent = synthetic.INTENTS[intents[chosen] if is_answered else other]
        start = context.index(commands[chosen])
        answer = {"text": commands[chosen], "answer_start": start}
        question = {
            "id": f"{split}-{index}",
            "question": f"where is {intent.replace('_', ' ')} ?",
            "answers": [answer] if is_answered else [],
        }
        if spec.spans.unanswerable:
            question["is_impossible"] = not is_answered
        paragraphs.append({"context": context, "qas": [question]})
    version = "v2.0" if spec.spans.unanswerable else "1.1"
    document = {"version": version, "data": [{"title": "placeholder", "paragraphs": paragraphs}]}
    text = json.dumps(document, indent=2, ensure_ascii=False)
    files.atomic_write_text(target / f"{split}.json", text + "\n")


def _maker(spec: TaskSpec) -> Callable[[_Texts, np.random.Generator], _Row]:
    intents = synthetic.INTENTS
    if spec.traits.many_classes and 2 <= len(spec.labels) <= len(intents):
        return lambda texts, generator: _several(spec, texts, generator)
    if spec.pair_column is None:
        if spec.traits.one_number or not 2 <= spec.num_labels <= len(intents):
            raise errors.DataError(
                f"placeholder data for {spec.name}",
                f"2 to {len(intents)} labels over one text, or a pair of texts",
                f"{spec.num_labels} outputs",
            )
        return lambda texts, generator: _single(spec, texts, generator)
    if not spec.traits.one_number and spec.num_labels not in (2, 3):
        raise errors.DataError(
            f"placeholder data for {spec.name}",
            "two or three labels over a pair of texts",
            f"{spec.num_labels} labels",
        )
    return lambda texts, generator: _pair(spec, texts, generator)


def _several(spec: TaskSpec, texts: _Texts, generator: np.random.Generator) -> _Row:
    first, second = (int(position) for position in generator.permutation(len(spec.labels))[:2])
    chosen = [first] if generator.random() < 0.5 else [first, second]
    text = " , ".join(_draw(texts[synthetic.INTENTS[label]], generator) for label in chosen)
    labels = spec.label_separator.join(_spelling(spec, label) for label in chosen)
    return {spec.text_column: text, spec.label_column: labels}


def _single(spec: TaskSpec, texts: _Texts, generator: np.random.Generator) -> _Row:
    label = int(generator.integers(spec.num_labels))
    text = _draw(texts[synthetic.INTENTS[label]], generator)
    return {spec.text_column: text, spec.label_column: _spelling(spec, label)}


def _pair(spec: TaskSpec, texts: _Texts, generator: np.random.Generator) -> _Row:
    first, other = generator.permutation(len(synthetic.INTENTS))[:2]
    text = _draw(texts[synthetic.INTENTS[first]], generator)
    outcome = int(generator.integers(3 if spec.traits.one_number else spec.num_labels))
    if outcome == 1:
        second, score = _draw(texts[synthetic.INTENTS[other]], generator), 0.0
    elif spec.traits.one_number and outcome == 2:
        second, score = text, 5.0
    else:
        second, score = _draw(texts[synthetic.INTENTS[first]], generator), 3.0
        if outcome == 2:
            second = f"never {second}"
    assert spec.pair_column is not None
    label = f"{score}" if spec.traits.one_number else _spelling(spec, outcome)
    return {spec.text_column: text, spec.pair_column: second, spec.label_column: label}


def _spelling(spec: TaskSpec, label: int) -> str:
    return (spec.label_values or spec.labels)[label]


def _draw(texts: list[str], generator: np.random.Generator) -> str:
    return texts[int(generator.integers(len(texts)))]
