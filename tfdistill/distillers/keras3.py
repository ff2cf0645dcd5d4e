"""Objects of Keras 3 where tf_keras is needed: converted where they mean the same, else refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tf_keras as keras

from tfdistill import errors

# They save or write what only Keras 3 models have.
_BOUND_TO_KERAS_3 = frozenset(
    {"BackupAndRestore", "ModelCheckpoint", "OrbaxCheckpoint", "SwapEMAWeights", "TensorBoard"}
)
_WITHOUT_COUNTERPART = frozenset({"loss_scale_factor", "gradient_accumulation_steps"})
_HOOKS = (
    *(f"on_{what}_{end}" for what in ("train", "test", "predict") for end in ("begin", "end")),
    *("on_epoch_begin", "on_epoch_end", "on_batch_begin", "on_batch_end"),
    *(
        f"on_{what}_batch_{end}"
        for what in ("train", "test", "predict")
        for end in ("begin", "end")
    ),
)


def is_keras3(value: Any) -> bool:
    """Checks whether a value is an object of Keras 3, or of a class derived from one."""
    return bool(_classes(value))


def _classes(value: Any) -> list[type]:
    """The classes of Keras 3 among those of a value, most derived first."""
    return [kind for kind in type(value).__mro__ if kind.__module__.split(".")[0] == "keras"]


def convert_optimizer(value: Any) -> Any:
    """Makes the tf_keras optimizer of the same class and configuration, with a fresh state.

    It has the rate or schedule, and the names that are excluded from weight decay. All that is no
    optimizer of Keras 3 is returned as it is; what tf_keras lacks is refused.
    """
    if not is_keras3(value):
        return value
    settings = value.get_config()
    for option in _WITHOUT_COUNTERPART:
        if settings.pop(option, None) is not None:
            raise errors.ConfigError(
                f"optimizer {type(value).__name__} of Keras 3",
                f"no {option}, which tf_keras has not",
                "one",
                "Use compile(gradient_accumulation=...) or a LossScaleOptimizer of tf_keras.",
            )
    rate = settings.get("learning_rate")
    if isinstance(rate, dict):  # a schedule
        schedules = keras.optimizers.schedules
        schedule = value._learning_rate
        settings["learning_rate"] = _made(
            schedules, "schedule", type(schedule).__name__, rate["config"], schedule
        )
    optimizer = _made(keras.optimizers, "optimizer", type(value).__name__, settings, value)
    # No part of the configuration.
    if getattr(value, "_exclude_from_weight_decay", None):
        raise errors.ConfigError(
            f"optimizer {type(value).__name__} of Keras 3",
            "variables that are excluded from weight decay by their names",
            "a list of variables",
            "Call exclude_from_weight_decay(var_names=[...]), or take an optimizer of tf_keras.",
        )
    excluded = getattr(value, "_exclude_from_weight_decay_pattern", None)
    if excluded is not None:
        optimizer.exclude_from_weight_decay(var_names=[excluded.pattern])
    return optimizer


def convert_metrics(values: Any) -> list[Any] | None:
    """Makes tf_keras metrics of those of Keras 3, one or a list; all others stay as they are."""
    if values is None:
        return None
    return [
        _made(keras.metrics, "metric", type(value).__name__, value.get_config(), value)
        if is_keras3(value)
        else value
        for value in tf.nest.flatten(values)
    ]


def convert_callbacks(values: Any) -> Any:
    """Wraps callbacks of Keras 3, one or a list, so that a tf_keras model calls their hooks.

    Refuses one that saves or writes what only a Keras 3 model has.
    """
    if values is None or isinstance(values, keras.callbacks.CallbackList):
        return values
    return [_Forwarded(one) if is_keras3(one) else one for one in tf.nest.flatten(values)]


class _Forwarded(keras.callbacks.Callback):
    """A callback of Keras 3 under a tf_keras model: every hook is the callback's own."""

    def __init__(self, callback: Any):
        """Takes over the hooks."""
        super().__init__()
        for kind in _classes(callback):
            if kind.__name__ in _BOUND_TO_KERAS_3:
                raise errors.ConfigError(
                    f"callback {type(callback).__name__} of Keras 3",
                    "one that works with any model",
                    "one that saves or writes parts of a Keras 3 model",
                    "Use tf_keras.callbacks, or tfdistill.fit, which keeps checkpoints and logs.",
                )
        self._callback = callback
        for hook in _HOOKS:
            setattr(self, hook, getattr(callback, hook))

    def set_model(self, model: Any) -> None:
        """The callback sees the distiller as its model."""
        super().set_model(model)
        self._callback.set_model(model)

    def set_params(self, params: Any) -> None:
        """Epochs, steps and verbosity."""
        super().set_params(params)
        self._callback.set_params(params)


def _made(module: Any, what: str, name: str, settings: dict[str, Any], value: Any = None) -> Any:
    """The object of tf_keras with the same class name and configuration."""
    kind = getattr(module, name, None)
    custom = value is not None and type(value).__module__.split(".")[0] != "keras"
    if kind is None or custom:
        raise errors.ConfigError(
            f"{what} {name} of Keras 3",
            "a class that tf_keras (the Keras 2 API) has too",
            "a class of your own" if custom else "one that it lacks",
            f"Derive it from a class of tf_keras, or take one of its {what}s.",
        )
    try:
        return kind.from_config(settings)
    except (TypeError, ValueError) as error:
        raise errors.ConfigError(
            f"{what} {name} of Keras 3", "options that tf_keras has too", f"{settings}: {error}"
        ) from error


def call_model(model: Any, features: Mapping[str, Any]) -> Any:
    """Calls a Keras 3 model on the features that it names, in inference mode."""
    names = [tensor.name for tensor in model.inputs]
    if not set(names) <= set(features):
        raise errors.ShapeError(
            f"inputs of the teacher {model.name}",
            f"names among {', '.join(features)}",
            ", ".join(names),
            "Pass a function that renames them: teacher=lambda features: model({...}).",
        )
    # In the structure that the model was built with: one tensor, a list or a dictionary.
    return model(
        tf.nest.map_structure(lambda tensor: features[tensor.name], model.input), training=False
    )
