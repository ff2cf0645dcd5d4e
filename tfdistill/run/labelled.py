"""Labelled examples of a task as exported files are fed with them, to measure them on a device."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from export.model import heads
from tfdistill import config, errors, tasks
from tfdistill.benchmark.inputs import LabelledExample
from tfdistill.data import from_config
from tfdistill.io import files
from tfdistill.run import inputs
from tfdistill.tasks.encoded import EncodedExamples


@dataclasses.dataclass(frozen=True)
class LabelledRows:
    """Examples of a task as rows of tokens, and the means to judge answers to them."""

    # One a row: a text or pair, a part of a sentence's words, a window of a question.
    examples: tuple[LabelledExample, ...]
    encoded: EncodedExamples  # as the metrics know them
    source: inputs.ExportedSource  # the file whose manifest was followed
    task: tasks.TaskSpec

    def metric(self, answers: Sequence[np.ndarray]) -> dict[str, float]:
        """Computes the task's metrics of a file's answers, wherever it was run.

        The answers, one a row in the order of `examples`, are float (num_labels,) for texts and
        pairs, (tokens, num_labels) without padding for words, (tokens, 2), starts and ends, for
        questions.
        """
        whole = not self.task.traits.over_tokens
        joined = np.stack(answers) if whole else np.concatenate(answers)
        return self.source.score(joined, self.encoded, self.task)


def labelled_rows(models: Sequence[files.Path], settings: dict[str, Any]) -> LabelledRows:
    """Reads the development split of a task and encodes it as the files' manifests say.

    The files are to answer this task with one vocabulary. `settings` are fields of
    `config.DataConfig`; `max_length` is the files' own.
    """
    opened = []
    for model in models:
        answerer = inputs.open_answerer(str(model))
        if not isinstance(answerer, inputs.ExportedSource):
            raise errors.ConfigError(
                f"{model} with --task", "an export folder", "no model.json", "Leave --task out."
            )
        opened.append(answerer)
    source = min(opened, key=lambda candidate: candidate.max_length)
    longest = source.max_length
    more = {"max_length": longest, "doc_stride": max(longest // 2, 1)}
    data = config.parse_section(
        config.DataConfig,
        {**settings, **more},
        source="command line",
        place="data",
    )
    task, examples = from_config.labelled(data, "dev")
    for model, other in zip(models, opened, strict=True):
        with other.opened() as file:
            other.check(task, heads.head_of_file(file).name)
        if _reading(other) != _reading(source):
            raise errors.ConfigError(
                f"{model} with --task",
                f"the vocabulary, case, windows and labels of {source.folder}",
                "others",
                "Measure it in a run of its own.",
            )
    encoded = source.encode(examples, data)
    return LabelledRows(tuple(_rows(encoded, examples)), encoded, source, task)


def _reading(source: inputs.ExportedSource) -> tuple[Any, ...]:
    task, vocab = source.card.task, source.tokenizer.vocab.sha256
    windows = None if task is None or task.span is None else (task.span, source.max_length)
    return (
        vocab,
        source.tokenizer.lower_case,
        source.tokenizer.truncation,
        source.tokenizer.prompt,
        windows,
        None if task is None else task.labels,
    )


def _rows(encoded: EncodedExamples, examples: tasks.Examples) -> list[LabelledExample]:
    """Gives each row its ids, its label, and its text where the text gives just these ids."""
    rows = []
    texts = np.arange(len(encoded)) if encoded.sources is None else encoded.sources
    rows_of_text = np.bincount(texts)
    for i, text in enumerate(texts.tolist()):
        alone = rows_of_text[text] == 1
        pair = examples.pairs[text] if examples.pairs is not None else None
        rows.append(
            LabelledExample(
                input_ids=tuple(encoded.row(i).tolist()),
                token_type_ids=tuple(encoded.row_types(i).tolist()),
                text=examples.texts[text] if alone else None,
                pair=pair if alone else None,
                label=_label(encoded, i),
            )
        )
    return rows


def _label(encoded: EncodedExamples, i: int) -> Any:
    if encoded.labels is None:
        return None
    if encoded.token_labels:
        return tuple(encoded.labels[encoded.offsets[i] : encoded.offsets[i + 1]].tolist())
    value = encoded.labels[i].tolist()
    return tuple(value) if isinstance(value, list) else value
