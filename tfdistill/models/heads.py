"""Heads over whole texts, over tokens and over spans, in the styles of each family."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tf_keras as keras

from tfdistill import errors
from tfdistill.models import bert, bilstm, embedding, layers, pretraining
from tfdistill.models.bilstm_config import WordVectorConfig
from tfdistill.models.config import EncoderConfig
from tfdistill.models.dropout import Dropout
from tfdistill.models.layer_factory import initializer
from tfdistill.models.layers import layer_of
from tfdistill.models.presets import as_config, preset

# Kind of head -> the layer with its logits, for a masked LM their bias, for vectors the pooling;
# the first that a model has tells its kind.
_LAYERS = {
    "masked_lm": "mlm_bias",
    "token": "token_classifier",
    "span": "span_classifier",
    "sequence": "classifier",
    "embedding": embedding.POOLING,
}
HEAD_LAYERS = ("pre_classifier", "nsp_classifier", "mlm_", "vector_", *_LAYERS.values())
"""Prefixes of the names of all layers of heads."""
# Families without a pooler whose head has a dense layer of its own, and its activation.
_DENSE_HEADS = {"distilbert": "relu", "electra": "gelu"}
_DEVIATION = 0.02  # BERT's own


@dataclasses.dataclass(frozen=True)
class Head:
    """The head of a model: what it answers, and how it is built.

    Attributes:
      kind: "none" (an encoder), "sequence" (`build_classifier`), "token", "span", "masked_lm" or
        "embedding" (`build_embedder`).
      num_labels: Width of a classifier's logits: 1 for a regression, 2 for a span; of an embedding
        the width of its vectors, 0 for that of the encoder; otherwise 0.
      next_sentence: Whether a masked LM also predicts next sentences.
      pooling: Of an embedding, as for `build_embedder`.
      projection: The same.
      normalize: The same.
    """

    kind: str = "none"
    num_labels: int = 0
    next_sentence: bool = False
    pooling: str = "mean"
    projection: str | None = None
    normalize: bool = True

    @property
    def over_tokens(self) -> bool:
        """Whether there are logits for every token."""
        return self.kind in ("token", "span")

    @property
    def layer(self) -> str:
        """Name of the layer with the logits, of a masked LM the one with their bias."""
        return _LAYERS[self.kind]


def head_for(task_head: str, num_labels: int) -> Head:
    """Returns the head that answers a task.

    Args:
      task_head: `TaskSpec.head`: several labels are answered as one label is.
      num_labels: `TaskSpec.num_labels`.
    """
    own = task_head in ("token", "span", "embedding")
    return Head(task_head if own else "sequence", num_labels)


def read_head(model: keras.Model) -> Head:
    """Reads the head off the layers of a model of this package, also after saving and loading."""
    names = {layer.name for layer in model.layers}
    kind = next((kind for kind, layer in _LAYERS.items() if layer in names), "none")
    if kind in ("none", "masked_lm"):
        return Head(kind, next_sentence="nsp_classifier" in names)
    if kind == "embedding":
        options = embedding.read_options(model)
        return Head(kind, options.pop("width"), **options)
    return Head(kind, layer_of(model, _LAYERS[kind]).units)


def build_model(
    preset_or_config: str | EncoderConfig,
    head: Head,
    *,
    name: str | None = None,
    dtype_policy: str | None = None,
) -> keras.Model:
    """Builds a freshly initialised encoder with any head, by the function of its kind.

    Args:
      preset_or_config: A preset's name or a configuration.
      head: The head.
      name: Name of the model; default the family.
      dtype_policy: Keras dtype policy; default the global policy.

    Returns:
      What `build_encoder`, `build_classifier`, `build_token_classifier`, `build_span_classifier`,
      `build_masked_lm` or `build_embedder` returns.
    """
    options: dict[str, Any] = {"name": name, "dtype_policy": dtype_policy}
    if head.kind == "none":
        return bert.build_encoder(preset_or_config, **options)
    if head.kind == "masked_lm":
        options["next_sentence"] = head.next_sentence
        return pretraining.build_masked_lm(preset_or_config, **options)
    if head.kind == "span":
        return build_span_classifier(preset_or_config, **options)
    if head.kind == "embedding":
        chosen = ("pooling", "projection", "normalize")
        options |= {name: getattr(head, name) for name in chosen}
        return embedding.build_embedder(preset_or_config, head.num_labels or None, **options)
    build = build_token_classifier if head.kind == "token" else build_classifier
    return build(preset_or_config, head.num_labels, **options)


def build_random(
    preset_or_config: str | EncoderConfig, head: Head, *, seed: int = 0
) -> keras.Model:
    """Builds a model to measure: its weights are random, no bias is 0 and no scale is 1.

    A converter leaves out zeros and ones and stores equal tensors once, so that the file would be
    smaller and faster than a trained one.

    Args:
      preset_or_config: A preset's name or a configuration.
      head: The head.
      seed: Seed of the weights; Keras' global seed is set to it.
    """
    keras.utils.set_random_seed(seed)
    model = build_model(preset_or_config, head)
    random = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        if variable.shape.rank == 1:
            noise = random.normal(0.0, _DEVIATION, variable.shape)
            variable.assign_add(noise.astype(np.float32))
    return model


def build_classifier(
    preset_or_config: str | EncoderConfig | WordVectorConfig,
    num_labels: int,
    *,
    name: str | None = None,
    dtype_policy: str | None = None,
) -> keras.Model:
    """Builds a freshly initialised encoder with a head over [CLS].

    The head follows the family, p being the tanh-pooled state of [CLS] and h its last state:
    bert: W dropout(p) + b; tinybert: W relu(p) + b; distilbert: W dropout(relu(V h + c)) + b;
    electra: W dropout(gelu(V dropout(h) + c)) + b, with the exact GELU whatever `hidden_act`;
    mobilebert: as bert, p = h where there is no pooler. A BiLSTM or static student is a classifier
    of its own, see `build_bilstm`.

    Args:
      preset_or_config: A preset's name, an `EncoderConfig` or a `WordVectorConfig`.
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
    shape = preset(preset_or_config) if isinstance(preset_or_config, str) else preset_or_config
    if isinstance(shape, WordVectorConfig):
        return bilstm.build_bilstm(shape, num_labels, name=name, dtype_policy=dtype_policy)
    config = as_config(shape)
    if num_labels < 1:
        raise errors.ConfigError("num_labels", "at least 1", num_labels)
    if config.family in ("bert", "tinybert") and not config.pooler:
        raise errors.ConfigError(
            f"{config.family} classifier",
            "an encoder with a pooler",
            "pooler=False",
            "Use config.replace(pooler=True).",
        )
    inputs = bert.encoder_inputs(config)
    outputs = bert.encode(inputs, config, dtype_policy)
    features = _features(outputs, config, dtype_policy)
    logits = keras.layers.Dense(
        num_labels, kernel_initializer=initializer(), name="classifier", dtype="float32"
    )(features)
    return keras.Model(inputs, logits, name=name or config.family)


def build_token_classifier(
    preset_or_config: str | EncoderConfig,
    num_labels: int,
    *,
    name: str | None = None,
    dtype_policy: str | None = None,
) -> keras.Model:
    """Builds a freshly initialised encoder with a classifier over every token.

    W dropout(h) + b for the last state h of each token, padding included. The dropout's rate is
    the classifier's; for distilbert, as in transformers, the encoder's. There is no pooler.

    Args:
      preset_or_config: A preset's name or an `EncoderConfig`.
      num_labels: Classes.
      name: Name of the model; default the family.
      dtype_policy: Keras dtype policy of every layer but the classifier, which stays float32;
        default the global policy.

    Returns:
      A functional model with the inputs of `build_encoder` and one output: logits (B, L,
      num_labels), float32, no softmax.

    Raises:
      ConfigError: If `num_labels` is below 1.
    """
    config = as_config(preset_or_config)
    if num_labels < 1:
        raise errors.ConfigError("num_labels", "at least 1", num_labels)
    rate = config.dropout if config.family == "distilbert" else config.head_dropout
    return _over_tokens(config, num_labels, "token", rate, name, dtype_policy)


def build_span_classifier(
    preset_or_config: str | EncoderConfig,
    *,
    name: str | None = None,
    dtype_policy: str | None = None,
) -> keras.Model:
    """Builds a freshly initialised encoder that points at the start and the end of a span.

    W h + b for the last state h of each token; for distilbert, as in transformers, W dropout(h) +
    b with the encoder's rate. There is no pooler.

    Args:
      preset_or_config: A preset's name or an `EncoderConfig`.
      name: Name of the model; default the family.
      dtype_policy: Keras dtype policy of every layer but the last, which stays float32; default
        the global policy.

    Returns:
      A functional model with the inputs of `build_encoder` and one output: logits (B, L, 2),
      float32, [..., 0] of being the start and [..., 1] of being the end; a softmax would be over
      the tokens that are no padding.
    """
    config = as_config(preset_or_config)
    rate = config.dropout if config.family == "distilbert" else 0.0
    return _over_tokens(config, 2, "span", rate, name, dtype_policy)


def head_of(model: keras.Model) -> str:
    """Returns the kind of a model's head, see `Head`."""
    return read_head(model).kind


def num_labels_of(model: keras.Model) -> int | None:
    """Returns the width of a classifier's logits or of vectors, None for other models."""
    return read_head(model).num_labels or None


def _over_tokens(
    config: EncoderConfig,
    num_labels: int,
    head: str,
    rate: float,
    name: str | None,
    dtype_policy: str | None,
) -> keras.Model:
    inputs = bert.encoder_inputs(config)
    states = bert.encode(inputs, config, dtype_policy)["sequence_output"]  # (B, L, d)
    rows = layers.FlattenTokens(name=f"{head}_rows", dtype=dtype_policy)(states)  # (B L, d)
    rows = Dropout(rate, name=f"{head}_dropout", dtype=dtype_policy)(rows)
    logits = keras.layers.Dense(
        num_labels,
        kernel_initializer=initializer(),
        name=f"{head}_classifier",
        dtype="float32",
    )(rows)
    unflatten = layers.UnflattenTokens(name=f"{head}_logits", dtype="float32")
    return keras.Model(inputs, unflatten((logits, inputs["input_ids"])), name=name or config.family)


def _features(outputs: dict[str, Any], config: EncoderConfig, dtype_policy: str | None) -> Any:
    """Returns what the classifier sees, (B, d)."""
    if config.family == "tinybert":
        activation = keras.layers.Activation("relu", name="pooled_relu", dtype=dtype_policy)
        return activation(outputs["pooled_output"])
    rate = config.head_dropout
    if config.family in _DENSE_HEADS:
        first = layers.FirstToken(name="first_token", dtype=dtype_policy)
        features = first(outputs["sequence_output"])
        if config.family == "electra":
            features = Dropout(rate, name="first_token_dropout", dtype=dtype_policy)(features)
        dense = keras.layers.Dense(
            config.hidden_size,
            activation=layers.activation_function(_DENSE_HEADS[config.family]),
            kernel_initializer=initializer(),
            name="pre_classifier",
            dtype=dtype_policy,
        )
        features = dense(features)
    else:
        features = outputs["pooled_output"]
    return Dropout(rate, name="pooled_dropout", dtype=dtype_policy)(features)
