"""Checks of options and shapes that several distillers share."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import tf_keras as keras

from tfdistill import analysis, errors, models
from tfdistill.data import metrics
from tfdistill.data.batches import Batches


def check_teacher(teacher: Any, dev: Any) -> bool:
    """Refuses a teacher that answers labelled examples near chance.

    Args:
      teacher: The teacher; only a model with the head of the examples' task is judged.
      dev: The examples; only Batches of a task, with labels, say something.

    Returns:
      Whether it was judged.

    Raises:
      TeacherError: If it does.
    """
    if not isinstance(dev, Batches) or not isinstance(teacher, keras.Model):
        return False
    encoded, task = dev.encoded, dev.encoded.task
    if task is None or encoded.labels is None:
        return False
    head = models.head_for(task.head, task.num_labels)
    width = head.num_labels if head.kind != "embedding" else models.num_labels_of(teacher)
    if (models.head_of(teacher), models.num_labels_of(teacher)) != (head.kind, width):
        return False
    reached = metrics.score(task, models.predict_logits(teacher, dev), encoded)
    analysis.check_model("teacher", reached, task, analysis.gold_labels(encoded))
    return True


def check_choice(option: str, value: object, choices: Sequence[str]) -> None:
    """Requires one of the named choices.

    Raises:
      ConfigError: It is none of them; the message suggests the nearest.
    """
    if value not in choices:
        raise errors.ConfigError(
            option, f"one of {', '.join(choices)}", repr(value), errors.nearest(value, choices)
        )


def check_number(option: str, value: Any, *, above: float | None = None) -> None:
    """Requires a finite number above a bound, or of at least 0 without one.

    Raises:
      ConfigError: It is not.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise errors.ConfigError(option, "a number", repr(value))
    number = float(value)
    if not (number >= 0 if above is None else number > above) or number == float("inf"):
        bound = ">= 0" if above is None else f"above {above:g}"
        raise errors.ConfigError(option, f"a finite number {bound}", repr(value))


def check_share(option: str, value: float) -> None:
    """Requires a number from 0 to 1.

    Raises:
      ConfigError: It is not.
    """
    if not 0 <= value <= 1:
        raise errors.ConfigError(option, "a number from 0 to 1", repr(value))


def checked_layer(option: str, layer: int, num_layers: int) -> int:
    """Reads the number of a layer, which may count from the end.

    Args:
      option: What the user called it.
      layer: From 0, or -1 for the last layer, -2 for the one before it, ...
      num_layers: Layers of the model.

    Returns:
      The layer, counted from 0.

    Raises:
      ConfigError: There is no such layer.
    """
    whole = isinstance(layer, Integral) and not isinstance(layer, bool)
    if not whole or not -num_layers <= layer < num_layers:
        raise errors.ConfigError(
            option,
            f"a layer from 0 to {num_layers - 1}, or from the end -1 to {-num_layers}",
            repr(layer),
        )
    return int(layer) % num_layers


def check_equal(what: str, teacher: int, student: int, remedy: str, *, unit: str = "") -> None:
    """Requires a number of the student that equals the teacher's.

    Raises:
      ShapeError: They differ.
    """
    if teacher != student:
        raise errors.ShapeError(what, f"{teacher} {unit}as in the teacher", student, remedy)
