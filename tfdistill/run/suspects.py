"""Training answers of a model that look wrong: suspects.csv, and the training set without them."""

from __future__ import annotations

import csv
import dataclasses
import logging
import pathlib

import numpy as np

from tfdistill import analysis, config, errors
from tfdistill.data import model_answers, soft_labels, task_data
from tfdistill.data.task_data import TaskData, TextData
from tfdistill.run import baselines, teachers
from tfdistill.tasks import answer_cells, table_files

_log = logging.getLogger(__name__)

FILE = "suspects.csv"
_FURTHER = 3  # columns after the texts


def without_suspects(
    recipe: config.Recipe, data: TextData, encoders: teachers.TeacherModels, root: pathlib.Path
) -> TextData:
    """Lists suspicious training answers, once in a run; drops them where the recipe says so.

    Development, test and promise rows are never dropped, nor are gold labels.
    """
    declared = recipe.data.model_answers
    if declared is None or encoders.soft_labels is not None:
        return data
    data, path = data.of_task, root / FILE
    if not path.is_file():
        _write(path, data, encoders, learns_answers=declared.learn == "answers")
    if not declared.drop_suspects:
        return data
    if recipe.data.cross_fitted:
        what, remedy = "data.model_answers.drop_suspects", "Each row is learnt and scored."
        raise errors.ConfigError(what, "a development set", "a cross-fitted run", remedy)
    with path.open(encoding="utf-8", newline="") as file:
        suspects = {tuple(row[:-_FURTHER]) for row in csv.reader(file)}
    keys = soft_labels.example_keys(data.train_examples)
    rows = np.flatnonzero([key not in suspects for key in keys])
    return dataclasses.replace(
        data,
        train=task_data.to_train(data.train.encoded.select(rows), data.seed),
        train_examples=data.train_examples.select(rows),
    )


def _write(
    path: pathlib.Path, data: TaskData, encoders: teachers.TeacherModels, *, learns_answers: bool
) -> None:
    examples, labels = data.train_examples, data.task.labels
    read = model_answers.read_model_answers(data.settings, examples)
    assert read is not None and examples.labels is not None
    suspects = analysis.find_suspects(
        data.task,
        baselines.mean_states(encoders.general, data, data.train.encoded),
        analysis.TextFeatures(examples)(examples),
        examples.labels,
        (read.gold == answer_cells.UNANSWERED) | learns_answers,
    )
    chosen = examples.select(suspects.rows)
    assert chosen.labels is not None
    columns = [
        *zip(*soft_labels.example_keys(chosen), strict=True),
        [labels[label] for label in chosen.labels],
        [labels[other] for other in suspects.others],
        [f"{probability:.4f}" for probability in suspects.probabilities],
    ]
    header = [*soft_labels.text_columns(data.task), "answer", "other_answer", "probability"]
    table_files.write_table(path, header, zip(*columns, strict=True))
    _log.info(f"suspects: {len(chosen)} training answers that look wrong, in {path}")
