"""Checks that several methods make before any batch is seen."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral

import tf_keras as keras

from tfdistill import errors, models


def check_choice(option: str, value: object, choices: Sequence[str]) -> None:
    """Requires one of the named choices.

    Raises:
      ConfigError: It is none of them; the message suggests the nearest.
    """
    if value not in choices:
        raise errors.ConfigError(
            errors.explain(
                option,
                f"one of {', '.join(choices)}",
                repr(value),
                errors.nearest(value, choices),
            )
        )


def check_number(option: str, value: float, *, above: float) -> None:
    """Requires a finite number above a bound.

    Raises:
      ConfigError: It is not.
    """
    if not above < value < float("inf"):
        raise errors.ConfigError(
            errors.explain(option, f"a finite number above {above:g}", repr(value))
        )


def check_share(option: str, value: float) -> None:
    """Requires a number from 0 to 1.

    Raises:
      ConfigError: It is not.
    """
    if not 0 <= value <= 1:
        raise errors.ConfigError(errors.explain(option, "a number from 0 to 1", repr(value)))


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
            errors.explain(
                option,
                f"a layer from 0 to {num_layers - 1}, or from the end -1 to {-num_layers}",
                repr(layer),
            )
        )
    return int(layer) % num_layers


def check_same_vocabulary_size(teacher: keras.Model, student: keras.Model) -> None:
    """Requires word tables of equal length: both models read the same ids.

    Raises:
      ShapeError: They differ.
    """
    theirs, ours = models.config_of(teacher).vocab_size, models.config_of(student).vocab_size
    if theirs != ours:
        raise errors.ShapeError(
            errors.explain(
                "student vocabulary",
                f"{theirs} rows as in the teacher, which reads the same ids",
                ours,
                "Use build_student(..., vocab_size=...); data.vocab.check_same_vocabulary compares "
                "two vocab.txt token by token.",
            )
        )


def check_same_width(teacher: keras.Model, student: keras.Model, remedy: str) -> None:
    """Requires states of equal width between the blocks.

    Raises:
      ShapeError: They differ.
    """
    theirs, ours = models.config_of(teacher).hidden_size, models.config_of(student).hidden_size
    if theirs != ours:
        raise errors.ShapeError(
            errors.explain("student width", f"{theirs} as in the teacher", ours, remedy)
        )


def check_same_heads(teacher: keras.Model, student: keras.Model, remedy: str) -> None:
    """Requires as many attention heads in both.

    Raises:
      ShapeError: They differ; the message names MiniLM's relations, then `remedy`.
    """
    theirs, ours = models.config_of(teacher).num_heads, models.config_of(student).num_heads
    if theirs != ours:
        raise errors.ShapeError(
            errors.explain(
                "student heads",
                f"{theirs} as in the teacher",
                ours,
                "Attention scores are compared head by head: choose a student with as many, learn "
                f"MiniLM's relations instead, which need no equal heads, {remedy}",
            )
        )


def check_soft_targets(student: keras.Model, head: str, objective: str) -> None:
    """Refuses soft targets for a regression, whose softmax is 1 whatever it says.

    Raises:
      ConfigError: `objective` needs a distribution and there is one output.
    """
    regression = head == "sequence" and models.num_labels_of(student) == 1
    if regression and objective != "logit_mse":
        raise errors.ConfigError(
            errors.explain(
                "objective",
                "'logit_mse' for a regression, which has no soft targets",
                repr(objective),
            )
        )


def check_same_answers(teacher: keras.Model, student: keras.Model) -> None:
    """Requires heads of the same kind with the same number of labels.

    Raises:
      ShapeError: They differ, or a model has no head.
    """
    theirs, ours = (
        (models.head_of(model), models.num_labels_of(model)) for model in (teacher, student)
    )
    if None in (theirs[1], ours[1]) or theirs != ours:
        raise errors.ShapeError(
            errors.explain(
                "answers of teacher and student",
                "the same kind of head with the same number of labels",
                " and ".join(f"a {head} head with {labels}" for head, labels in (theirs, ours)),
                "Build both for the task, or fine-tune the teacher on it first.",
            )
        )
