"""Views of a model: its inner states for distillation, its configuration, its copy in bfloat16."""

from __future__ import annotations

from typing import Any

import tf_keras as keras

from tfdistill import errors
from tfdistill.models import bert, heads, layers
from tfdistill.models.config import EncoderConfig


def taps(model: keras.Model) -> keras.Model:
    """Gives a model over the same layers that also returns its inner states.

    One call of the view computes everything in one forward pass; training it trains `model`.

    Args:
      model: An encoder or classifier of this package, also after saving and loading.

    Returns:
      A functional model with the inputs of `model` and a dict of outputs: "embeddings" (B, L, d)
      after LayerNorm and dropout; "hidden_states", a list of num_layers x (B, L, d);
      "attention_scores", a list of num_layers x (B, h, L, L), scaled by 1/sqrt(d/h), before mask
      and softmax; "sequence_output" (the last hidden state); "pooled_output" (B, d) with a
      pooler; "logits" (B, num_labels) with a classifier.

    Raises:
      ShapeError: If `model` is not built of this package's named layers.
    """
    names = _layer_names(model)
    num_layers = _num_layers(model)

    def output(name: str) -> Any:
        return model.get_layer(name).output

    inputs = {tensor.name.split(":")[0]: tensor for tensor in model.inputs}

    def hidden_state(index: int) -> Any:
        states = model.get_layer(f"layer_{index}_layer_norm")  # (B L, d)
        unflatten = layers.UnflattenTokens(
            name=f"layer_{index}_hidden_state", dtype=states.dtype_policy
        )
        return unflatten((states.output, inputs["input_ids"]))

    outputs: dict[str, Any] = {
        "embeddings": output("embeddings_dropout"),
        "hidden_states": [hidden_state(i) for i in range(num_layers)],
        "attention_scores": [output(f"layer_{i}_attention_scores") for i in range(num_layers)],
        "sequence_output": output("sequence_output"),
    }
    if "pooler_activation" in names:
        outputs["pooled_output"] = output("pooler_activation")
    if "classifier" in names:
        outputs["logits"] = output("classifier")
    return keras.Model(inputs, outputs, name=f"{model.name}_taps")


def config_of(model: keras.Model) -> EncoderConfig:
    """Reads the configuration off the model's layers.

    Args:
      model: An encoder or classifier of this package, also after saving and loading.

    Returns:
      The configuration that builds the same architecture.

    Raises:
      ShapeError: If `model` is not built of this package's named layers.
    """
    names = _layer_names(model)
    num_layers = _num_layers(model)
    words = model.get_layer("word_embeddings")
    dropout = model.get_layer("embeddings_dropout").rate
    head_dropout = model.get_layer("pooled_dropout").rate if "pooled_dropout" in names else dropout
    types = model.get_layer("token_type_embeddings") if "token_type_embeddings" in names else None
    activation = model.get_layer("layer_0_intermediate_activation").activation
    return EncoderConfig(
        family=words.family,
        num_layers=num_layers,
        hidden_size=words.output_dim,
        num_heads=model.get_layer("layer_0_attention_scores").num_heads,
        intermediate_size=model.get_layer("layer_0_intermediate").units,
        vocab_size=words.input_dim,
        max_positions=model.get_layer("position_embeddings").max_positions,
        type_vocab_size=0 if types is None else types.input_dim,
        hidden_act=activation.__name__,
        layer_norm_eps=model.get_layer("embeddings_layer_norm").epsilon,
        dropout=dropout,
        attention_dropout=model.get_layer("layer_0_attention_dropout").rate,
        classifier_dropout=None if head_dropout == dropout else head_dropout,
        pooler="pooler" in names,
        pad_token_id=words.pad_token_id,
    )


def num_labels_of(model: keras.Model) -> int | None:
    """Returns the width of the classifier (1 for regression), None for an encoder."""
    return model.get_layer("classifier").units if "classifier" in _layer_names(model) else None


def with_policy(model: keras.Model, dtype_policy: str) -> keras.Model:
    """Copies a model into another dtype policy, with its weights.

    "bfloat16" stores and computes in bfloat16: half the memory and the fastest forward pass on
    processors that have it, meant for a frozen teacher. "mixed_bfloat16" keeps float32 weights
    and can be trained. The classifier stays float32 in both.

    Args:
      model: An encoder or classifier of this package.
      dtype_policy: Name of a Keras dtype policy.

    Returns:
      A new model; `model` is not changed.
    """
    config = config_of(model)
    num_labels = num_labels_of(model)
    if num_labels is None:
        copy = bert.build_encoder(config, name=model.name, dtype_policy=dtype_policy)
    else:
        copy = heads.build_classifier(
            config, num_labels, name=model.name, dtype_policy=dtype_policy
        )
    for layer in copy.layers:
        layer.set_weights(model.get_layer(layer.name).get_weights())
    copy.trainable = model.trainable
    return copy


def _layer_names(model: keras.Model) -> set[str]:
    return {layer.name for layer in model.layers}


def _num_layers(model: keras.Model) -> int:
    names = _layer_names(model)
    count = 0
    while f"layer_{count}_layer_norm" in names:
        count += 1
    if not count or "word_embeddings" not in names:
        raise errors.ShapeError(
            errors.explain(
                f"model {model.name!r}",
                "an encoder or classifier of tfdistill.models",
                f"layers {sorted(names)[:5]}...",
                "Build it with build_encoder or build_classifier.",
            )
        )
    return count
