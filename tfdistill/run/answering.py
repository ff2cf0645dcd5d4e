"""A model's answers to the texts of a task, as a file: in blocks, here or in a pipeline."""

from __future__ import annotations

import functools
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tf_keras as keras

from tfdistill import config, tasks, training
from tfdistill.data import from_config, soft_labels, unlabelled
from tfdistill.io import files, storage
from tfdistill.run import inputs

_PARTS = ".parts"  # the suffix of the folder of what was answered before a stop


def answer(
    source: str,
    settings: config.DataConfig,
    splits: Sequence[str],
    path: files.Path,
    *,
    pipeline: Sequence[str] | None = None,
) -> int:
    """Writes a model's answers to every different text of some splits and of unlabelled files.

    Words are answered one by one. Of an embedding each text has a vector. A call that was stopped
    leaves what it had answered in a folder next to the file, named like it with ".parts" behind;
    the same call continues from there, and removes it. Returns the number of texts.
    """
    data = from_config.source_of(settings)
    task = from_config.task_of(settings, data)
    soft_labels.check_task(task)
    soft_labels.check_writable(path, task.kind)
    parts = [tasks.load_examples(task, data, split, labelled=False) for split in splits]
    if settings.unlabelled:
        parts.append(unlabelled.read_unlabelled(task, settings.unlabelled).examples)
    examples = _different(task, parts)
    opened = inputs.open_source(source, task, roberta=True).in_order_of(task)
    folder = storage.located(f"{path}{_PARTS}")
    here = str(pathlib.Path(source).absolute()) if os.path.exists(source) else source
    encoded = opened.encode(examples, settings)
    logits = training.cached_logits(
        opened.model,
        encoded,
        folder,
        pipeline=pipeline,
        load=functools.partial(_load, here, task),
    )
    if encoded.word_counts is not None:  # in the order of the words
        logits = np.repeat(logits, encoded.word_counts, axis=0)
    soft_labels.write(path, examples, logits)
    storage.remove_folder(folder)
    return len(examples)


def _load(source: str, task: tasks.TaskSpec) -> keras.Model:
    return inputs.open_source(source, task, roberta=True).in_order_of(task).model


def _different(task: tasks.TaskSpec, parts: Sequence[tasks.Examples]) -> tasks.Examples:
    def all_of(field: str) -> Any:
        return [value for part in parts for value in getattr(part, field) or ()]

    joined = tasks.Examples(
        task,
        all_of("texts"),
        all_of("pairs") if task.reads_pairs else None,
        None,
        word_offsets=all_of("word_offsets") or None,
    )
    first: dict[soft_labels.Key, int] = {}
    for index, key in enumerate(soft_labels.example_keys(joined)):
        first.setdefault(key, index)
    return joined.select(list(first.values()))
