"""Classification and regression heads in the styles of BERT, TinyBERT and DistilBERT."""

from __future__ import annotations

from typing import Any

import tf_keras as keras

from tfdistill import errors
from tfdistill.models import bert, layers
from tfdistill.models.config import EncoderConfig
from tfdistill.models.dropout import Dropout
from tfdistill.models.presets import as_config


def build_classifier(
    preset_or_config: str | EncoderConfig,
    num_labels: int,
    *,
    name: str | None = None,
    dtype_policy: str | None = None,
) -> keras.Model:
    """Builds a freshly initialised encoder with a head over [CLS].

    The head follows the family, p being the tanh-pooled state of [CLS] and h its last state:
    bert: W dropout(p) + b; tinybert: W relu(p) + b; distilbert: W dropout(relu(V h + c)) + b.

    Args:
      preset_or_config: A preset's name or an `EncoderConfig`.
      num_labels: Classes, or 1 for regression.
      name: Name of the model; default the family.
      dtype_policy: Keras dtype policy of every layer but the classifier, which stays float32;
        default the global policy.

    Returns:
      A functional model with the inputs of `build_encoder` and one output: logits (B,
      num_labels), float32, no softmax.

    Raises:
      ConfigError: If `num_labels` is below 1, or a BERT or TinyBERT shape has no pooler.
    """
    config = as_config(preset_or_config)
    if num_labels < 1:
        raise errors.ConfigError(errors.explain("num_labels", "at least 1", num_labels))
    if config.family != "distilbert" and not config.pooler:
        raise errors.ConfigError(
            errors.explain(
                f"{config.family} classifier",
                "an encoder with a pooler",
                "pooler=False",
                "Use config.replace(pooler=True).",
            )
        )
    inputs = bert.encoder_inputs(config)
    outputs = bert.encode(inputs, config, dtype_policy)
    features = _features(outputs, config, dtype_policy)
    logits = keras.layers.Dense(
        num_labels, kernel_initializer=bert.initializer(), name="classifier", dtype="float32"
    )(features)
    return keras.Model(inputs, logits, name=name or config.family)


def _features(outputs: dict[str, Any], config: EncoderConfig, dtype_policy: str | None) -> Any:
    """Returns what the classifier sees, (B, d)."""
    if config.family == "tinybert":
        activation = keras.layers.Activation("relu", name="pooled_relu", dtype=dtype_policy)
        return activation(outputs["pooled_output"])
    if config.family == "distilbert":
        first = layers.FirstToken(name="first_token", dtype=dtype_policy)
        dense = keras.layers.Dense(
            config.hidden_size,
            activation="relu",
            kernel_initializer=bert.initializer(),
            name="pre_classifier",
            dtype=dtype_policy,
        )
        features = dense(first(outputs["sequence_output"]))
    else:
        features = outputs["pooled_output"]
    return Dropout(config.head_dropout, name="pooled_dropout", dtype=dtype_policy)(features)
