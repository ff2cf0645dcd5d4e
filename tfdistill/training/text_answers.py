"""From texts to the answers of a Keras model, in one call."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, overload

import numpy as np
import tf_keras as keras

from tfdistill import errors, tasks
from tfdistill.data.task_data import TaskData, to_evaluate
from tfdistill.models import predict_logits
from tfdistill.predictor import Prediction
from tfdistill.tasks import probabilities

Text = str | tuple[str, str]  # a text, or the two of a pair


@overload
def predict(model: keras.Model, texts: Text, *, data: TaskData) -> Prediction: ...


@overload
def predict(model: keras.Model, texts: Sequence[Text], *, data: TaskData) -> list[Prediction]: ...


def predict(
    model: keras.Model, texts: Text | Sequence[Text], *, data: TaskData
) -> Prediction | list[Prediction]:
    """Answers texts with a teacher or a student.

    The label is that of the largest logit, of several labels those with a logit above 0, and of a
    regression the output itself. The probability is ``softmax(logits)``, or ``sigmoid`` of several,
    at temperature 1: an exported file has a calibrated one, and promises.

    Args:
      model: A tf_keras model of the task of `data`.
      texts: A text, or (text, second text) for a task of pairs; or a list of them.
      data: Of `load_data`: tokenizer, labels and the longest text, in tokens.

    Returns:
      A `Prediction` for one text, a list of them for a list, in its order; `sure` is None, and
      `milliseconds` the mean over the texts.

    Raises:
      ConfigError: If an argument has another type, or the task has neither labels nor numbers for
        whole texts.
      DataError: If second texts are missing or not wanted.

    Examples:
      >>> tfdistill.predict(student, "a gripping film", data=data).label in data.task.labels
      True
    """
    wanted = {"model": (model, keras.Model), "data": (data, TaskData), "texts": (texts, Iterable)}
    errors.check_types(**wanted)
    one = isinstance(texts, str | tuple)
    listed: list[Any] = [texts] if one else [*texts]
    rows = [row if isinstance(row, (list, tuple)) else (row,) for row in listed]
    task, kind = data.task, data.task.traits
    if not kind.row_a_text:
        remedy = "Export it: Predictor, or evaluate of the command line, reads the answers."
        raise errors.ConfigError("data", "a task of labels or numbers", task.kind, remedy)
    width = 2 if task.reads_pairs else 1
    for row in rows:
        if len(row) != width or not all(isinstance(text, str) for text in row):
            expected = "(text, second text)" if width == 2 else "a text"
            raise errors.DataError(f"texts of task {task.name!r}", expected, repr(row))
    if not rows:
        return []
    begin = time.perf_counter()
    first, *pairs = map(list, zip(*rows, strict=True))
    encoded = data.encode(tasks.Examples(task, first, pairs[0] if pairs else None, None))
    logits = predict_logits(model, to_evaluate(encoded))
    milliseconds = 1000 * (time.perf_counter() - begin) / len(rows)
    labels: list[Any] = [float(row[0]) for row in logits]
    shares: list[float | None] = [None] * len(rows)
    if not kind.one_number:
        probable = probabilities.of_logits(kind, logits)
        decided = probabilities.decided(kind, probable)
        shares = probabilities.confidence(kind, probable).tolist()
        names = np.array(task.labels, object)
        labels = [tuple(names[row]) if kind.many_classes else names[row] for row in decided]
    answers = [
        Prediction(row[0], row[-1] if pairs else None, label, share, None, milliseconds)
        for row, label, share in zip(rows, labels, shares, strict=True)
    ]
    return answers[0] if one else answers
