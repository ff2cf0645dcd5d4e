"""Losses bound to two models: the fitted copies, and the Dense layers that they learn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import tensorflow as tf
import tf_keras as keras

from tfdistill import errors, models
from tfdistill.losses import checks, described
from tfdistill.losses.base import Loss, ModelPair


def bind(losses: Mapping[str, Loss], pair: ModelPair) -> dict[str, Loss]:
    """The losses fitted to the models; all that do not fit are named at once."""
    if not isinstance(losses, Mapping) or not losses:
        raise errors.ConfigError("losses", "at least one, {name: loss}", repr(losses))
    bound, faults = {}, []
    for name, loss in losses.items():
        if not isinstance(loss, Loss):
            raise errors.ConfigError(
                f"losses[{name!r}]", "an object of tfdistill.losses", repr(loss)
            )
        described.check_name(name)
        checks.check_number(f"weight of loss {name!r}", loss.weight)
        try:
            bound[name] = loss.bind(name, pair)
            bound[name].name = name
        except (errors.ConfigError, errors.ShapeError) as fault:
            faults.append((type(fault), f"loss {name!r}: {fault}"))
    if faults:
        kinds = {kind for kind, _ in faults}
        kind = errors.ConfigError if errors.ConfigError in kinds else errors.ShapeError
        raise kind("\n".join(message for _, message in faults))
    return bound


def check_vocabulary(pair: ModelPair) -> None:
    """Refuses a student whose vocabulary is not as large as that of its teacher, a model."""
    if isinstance(pair.teacher, keras.Model):
        checks.check_equal(
            "student vocabulary",
            models.config_of(pair.teacher).vocab_size,
            models.config_of(pair.student).vocab_size,
            "Both models read the same ids. Build the student with the teacher's vocab_size; "
            "data.vocab.check_same_vocabulary compares two vocab.txt token by token.",
            unit="rows ",
        )


def check(losses: Mapping[str, Loss], pair: ModelPair) -> None:
    """Refuses losses that the models cannot have; ShapeError names all of them at once."""
    faults = []
    for name, loss in losses.items():
        try:
            loss.check(pair)
        except (errors.ShapeError, errors.ConfigError) as fault:
            faults.append(f"loss {name!r}: {fault}")
    if faults:
        raise errors.ShapeError("\n".join(faults))


def term_weights(
    defaults: Mapping[str, float], weights: Mapping[str, float] | float | None
) -> dict[str, float]:
    """The weights of the losses: the defaults, but for those named; a number scales all."""
    if weights is None:
        weights = {}
    if not isinstance(weights, Mapping):
        weights = {name: weights * default for name, default in defaults.items()}
    for name, weight in weights.items():
        checks.check_choice("loss_weights", name, tuple(defaults))
        checks.check_number(f"loss_weights[{name!r}]", weight)
    checked = {**defaults, **{name: float(weight) for name, weight in weights.items()}}
    if not any(checked.values()):
        raise errors.ConfigError("loss_weights", "at least one term above 0", checked)
    return checked


def build_projections(losses: Iterable[Loss], pair: ModelPair) -> list[keras.layers.Layer]:
    """Builds the layers that the losses name, each name once, and hands them to the losses."""
    losses = list(losses)
    layers: dict[str, keras.layers.Layer] = {}
    for loss in losses:
        for name in loss.projection_names:
            if name not in layers:
                layers[name] = _dense(*loss.projection_widths(pair), name)
    for loss in losses:
        loss.projections = tuple(layers[name] for name in loss.projection_names)
    return list(layers.values())


def _dense(student: int | None, teacher: int | None, name: str) -> keras.layers.Dense:
    """Makes a Dense with bias from the student's width to the teacher's.

    It learns with the student and is no part of it. It is built at once, so that its variables
    exist before the first step.
    """
    layer = keras.layers.Dense(
        teacher,
        kernel_initializer=keras.initializers.TruncatedNormal(stddev=0.02),
        name=name,
    )
    with tf.name_scope(name):  # as a call would
        layer.build((None, student))
    return layer
