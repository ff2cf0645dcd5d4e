"""The held-out texts on which a file promises: none that anything saw. Imports no TensorFlow."""

from __future__ import annotations

import dataclasses
import logging
import pathlib
from collections.abc import Sequence

import numpy as np

from tfdistill import config, errors, tasks
from tfdistill.data import model_answers, unlabelled
from tfdistill.tasks import answer_cells, tables

_log = logging.getLogger(__name__)


def promise_examples(
    path: str,
    task: tasks.TaskSpec,
    chosen_on: Sequence[tasks.Examples],
    settings: config.DataConfig | None = None,
) -> tasks.Examples | None:
    """Reads held-out labelled texts: one of those that are similar, none that anything saw.

    Nothing may have been trained or chosen on it or on a similar one, with a label or without
    (`unlabelled.similar_text`): answers to texts that depend on each other promise too much.
    `chosen_on` are the training and the development set, and the unlabelled texts if there are any.
    None where none is left. After them come the texts of its `model_answers.abstained_files`, one
    of those that are similar, and of `other` of the settings, each once, with the label
    `UNLABELLED`. Where the settings declare a model whose answers the file has without labels,
    these are the labels, and the texts to which it knows none come after.
    """
    read_as = None if settings is None else _by_answers(pathlib.Path(path), task, settings)
    examples, without = read_as or (tasks.load_examples(task, path, "promise", labelled=True), [])
    fresh = unlabelled.rows_apart(examples, chosen_on)
    same, *seen = unlabelled.example_numbers(examples, *chosen_on)
    if np.isin(same, np.concatenate(seen)).all():
        raise errors.DataError(f"promise_on {path}", "held-out texts", "texts that were used alone")
    if len(fresh) < len(examples):
        _log.warning(
            f"{path}: {len(examples) - len(fresh)} of {len(examples)} texts are like another one, "
            "a training, development or unlabelled text but for digits, punctuation or the order "
            "of a pair, and are left out of the promise."
        )
    if not len(fresh):
        return None
    examples = examples.select(fresh)
    for file in model_answers.abstained_files(path):
        without.append(unlabelled.read_unlabelled(task, [file]).examples)
    for abstained in without:
        rows = unlabelled.rows_apart(abstained, [*chosen_on, examples])
        examples = examples.with_unlabelled(abstained.select(rows))
    if settings is None or settings.other is None or examples.labels is None:
        return examples
    read = unlabelled.read_unlabelled(task, [settings.other])
    sets = {"training": chosen_on[0], "development": chosen_on[1], "promise": examples}
    new = unlabelled.select_new(read, read.examples.select([]), sets).examples
    return examples.with_unlabelled(new)


def _by_answers(
    path: pathlib.Path, task: tasks.TaskSpec, settings: config.DataConfig
) -> tuple[tasks.Examples, list[tasks.Examples]] | None:
    """Reads the texts of a file without labels by a model's answers: with one, and with none."""
    if settings.model_answers is None:
        return None
    names = {*tables.column_names(path)}
    beside_score = {model_answers.LABEL, model_answers.SCORE} <= names
    if model_answers.ANSWER in names or (task.label_column in names and not beside_score):
        return None
    texts = dataclasses.replace(unlabelled.read_unlabelled(task, [path]).examples, path=path)
    answers = model_answers.read_model_answers(settings, texts)
    assert answers is not None
    rows = np.flatnonzero(answers.classes >= 0)
    if not len(rows):
        raise errors.DataError(f"promise_on {path}", "answers of a model to texts", "none")
    answered = dataclasses.replace(texts.select(rows), labels=answers.classes[rows])
    return answered, [texts.select(np.flatnonzero(answers.classes == answer_cells.ABSTAINED))]
