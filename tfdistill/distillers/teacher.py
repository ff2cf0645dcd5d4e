"""The teacher of a distiller: a model, any function that returns logits, or logits in the batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
import tf_keras as keras

from tfdistill import errors, models
from tfdistill.distillers import keras3

TEACHER_LOGITS = "teacher_logits"
# Features by name -> logits: all that methods need that compare answers only.
LogitsFunction = Callable[[Mapping[str, tf.Tensor]], tf.Tensor]
_TEXT_FEATURES = ("input_ids", "attention_mask", "token_type_ids")


class FrozenTeacher:
    """The answers of a teacher to a batch, without gradients.

    The teacher is a model of `tfdistill.models`, a function of the text features, or None; answers
    are as wide as the student's where nothing else is known, vectors of a function `vector_width`.
    """

    def __init__(self, model: Any, student: keras.Model, vector_width: int | None = None):
        """Builds the view of its inner states."""
        self._model = model
        self._taps = models.taps(model) if isinstance(model, keras.Model) else None
        self._width = vector_width or models.num_labels_of(student)

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of its outputs: of a function the logits, without one none."""
        if self._taps is not None:
            return tuple(self._taps.output)
        return () if self._model is None else ("logits",)

    def outputs(self, features: Mapping[str, tf.Tensor], *, only_logits: bool) -> Mapping[str, Any]:
        """Its outputs by name; with `only_logits` those that came with the batch, if any did."""
        if TEACHER_LOGITS in features and only_logits:
            return {"logits": features[TEACHER_LOGITS]}
        if self._taps is None:
            return {} if self._model is None else {"logits": self._called_logits(features)}
        outputs = self._taps(inputs_of(self._taps, features), training=False)
        return tf.nest.map_structure(tf.stop_gradient, outputs)

    def _called_logits(self, features: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """The logits of a teacher that is a function, or a Keras 3 model with text inputs."""
        texts = {name: features[name] for name in _TEXT_FEATURES if name in features}
        if keras3.is_keras3(self._model):
            logits = keras3.call_model(self._model, texts)
        else:
            logits = self._model(texts)
        logits = tf.cast(logits, tf.float32)
        if logits.shape.rank is None or logits.shape[-1] != self._width:
            expected = f"(..., {self._width})"
            raise errors.ShapeError("logits of the teacher", expected, logits.shape)
        return tf.stop_gradient(logits)


def inputs_of(model: keras.Model, features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Picks the features that a model takes, by name; types of tokens are 0 where none come."""
    if "token_type_ids" not in features and "input_ids" in features:
        features = {**features, "token_type_ids": tf.zeros_like(features["input_ids"])}
    missing = [name for name in model.input_names if name not in features]
    if missing:
        raise errors.ShapeError("features", f"the inputs {model.input_names}", sorted(features))
    return {name: features[name] for name in model.input_names}
