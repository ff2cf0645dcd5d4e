"""Views of a model: its inner states for distillation, its configuration, its copies."""

from __future__ import annotations

import dataclasses
import weakref
from typing import Any

import tf_keras as keras

from tfdistill import errors
from tfdistill.models import bilstm, heads, layers, mobilebert
from tfdistill.models.config import EncoderConfig
from tfdistill.models.layers import layer_of

_HEAD_DROPOUTS = ("pooled_dropout", "token_dropout")  # those with the classifier's rate
_VIEWS: weakref.WeakKeyDictionary[keras.Model, keras.Model] = weakref.WeakKeyDictionary()


def taps(model: keras.Model) -> keras.Model:
    """Gives a model over the same layers that also returns its inner states.

    One call of the view computes everything in one forward pass; training it trains `model`. A
    model has one view, which lives as long as it does.

    Args:
      model: A model of this package, also after saving and loading.

    Returns:
      A functional model with the inputs of `model` (a masked LM's "prediction_mask" among them)
      and a dict of outputs: "embeddings" (B, L, d) after LayerNorm and dropout; "hidden_states",
      a list of num_layers x (B, L, d); "attention_scores", a list of num_layers x (B, h, L, L),
      scaled by 1/sqrt(d/h), before mask and softmax; "queries", "keys" and "values", lists of
      num_layers x (B, L, width), the heads side by side, before any scaling; "sequence_output"
      (the last hidden state); "pooled_output" (B, d) where the model pools. With a head "logits",
      (B, num_labels), or (B, L, num_labels) over tokens and spans, and the vectors (B, width) of an
      embedding; of a masked LM "mlm_logits" (N, V) and, with that head, "nsp_logits" (B, 2).

    Raises:
      ShapeError: If `model` is not built of this package's named layers.
    """
    if (view := _VIEWS.get(model)) is None:
        over_words = bilstm.is_over_words(model)
        _VIEWS[model] = view = bilstm.taps(model) if over_words else _view(model)
    return view


def _view(model: keras.Model) -> keras.Model:
    names = _layer_names(model)
    num_layers = _num_layers(model)

    def output(name: str) -> Any:
        return model.get_layer(name).output

    inputs = {tensor.name.split(":")[0]: tensor for tensor in model.inputs}

    def by_token(kind: str, view: str) -> list[Any]:
        """The (B L, d) outputs of each layer's `kind`, as (B, L, d)."""
        unflattened = []
        for index in range(num_layers):
            rows = model.get_layer(f"layer_{index}_{kind}")
            unflatten = layers.UnflattenTokens(
                name=f"layer_{index}_{view}", dtype=rows.dtype_policy
            )
            unflattened.append(unflatten((rows.output, inputs["input_ids"])))
        return unflattened

    outputs: dict[str, Any] = {
        "embeddings": output("embeddings_dropout"),
        "hidden_states": by_token("layer_norm", "hidden_state"),
        "attention_scores": [output(f"layer_{i}_attention_scores") for i in range(num_layers)],
        "queries": by_token("query", "queries"),
        "keys": by_token("key", "keys"),
        "values": by_token("value", "values"),
        "sequence_output": output("sequence_output"),
    }
    if "pooler_activation" in names:
        outputs["pooled_output"] = output("pooler_activation")
    elif "first_token" in names and layer_of(model, "word_embeddings").family == "mobilebert":
        outputs["pooled_output"] = output("first_token")
    outputs.update(heads.read_head(model).traits.outputs(model))
    return keras.Model(inputs, outputs, name=f"{model.name}_taps")


def check_model(model: object) -> None:
    """Refuses what is no tf_keras model, such as one of Keras 3 or a function.

    Raises:
      ShapeError: If it is none.
    """
    if not isinstance(model, keras.Model):
        kind = type(model)
        raise errors.ShapeError(
            "model",
            "one of tfdistill.models, which are tf_keras (the Keras 2 API)",
            f"{kind.__module__.split('.')[0]}.{kind.__name__}",
            "tfdistill.load_teacher and tfdistill.weights load checkpoints; as the teacher of a "
            "LogitDistiller any function works that returns logits.",
        )


def config_of(model: keras.Model) -> EncoderConfig:
    """Reads the configuration off the model's layers.

    Args:
      model: A model of this package, also after saving and loading.

    Returns:
      The configuration that builds the same architecture; over word vectors a
      `WordVectorConfig`.

    Raises:
      ShapeError: If `model` is not built of this package's named layers.
    """
    check_model(model)
    if bilstm.is_over_words(model):
        return bilstm.config_of(model)
    names = _layer_names(model)
    num_layers = _num_layers(model)
    words = layer_of(model, "word_embeddings")
    dropout = layer_of(model, "embeddings_dropout").rate
    dropout_layer = next((name for name in _HEAD_DROPOUTS if name in names), "embeddings_dropout")
    head_dropout = layer_of(model, dropout_layer).rate
    if words.family == "mobilebert":
        return mobilebert.read_config(model, head_dropout=head_dropout)
    types = layer_of(model, "token_type_embeddings") if "token_type_embeddings" in names else None
    activation = layer_of(model, "layer_0_intermediate_activation").activation
    num_heads = layer_of(model, "layer_0_attention_scores").num_heads
    return EncoderConfig(
        family=words.family,
        num_layers=num_layers,
        hidden_size=layer_of(model, "layer_0_output").units,
        embedding_size=words.output_dim if "embedding_projection" in names else None,
        num_heads=num_heads,
        head_size=layer_of(model, "layer_0_query").units // num_heads,
        intermediate_size=layer_of(model, "layer_0_intermediate").units,
        vocab_size=words.input_dim,
        max_positions=layer_of(model, "position_embeddings").max_positions,
        type_vocab_size=0 if types is None else types.input_dim,
        hidden_act=activation.__name__,
        layer_norm_eps=layer_of(model, "embeddings_layer_norm").epsilon,
        dropout=dropout,
        attention_dropout=layer_of(model, "layer_0_attention_dropout").rate,
        classifier_dropout=None if head_dropout == dropout else head_dropout,
        pooler="pooler" in names,
        pad_token_id=words.pad_token_id,
    )


def with_policy(model: keras.Model, dtype_policy: str) -> keras.Model:
    """Copies a model into another dtype policy, with its weights.

    "bfloat16" stores and computes in bfloat16: half the memory and the fastest forward pass on
    processors that have it, meant for a frozen teacher. "mixed_bfloat16" keeps float32 weights
    and can be trained. Classifiers and logits stay float32 in both.

    Args:
      model: A model of this package.
      dtype_policy: Name of a Keras dtype policy.

    Returns:
      A new model; `model` is not changed.
    """
    head = heads.read_head(model)
    copy = heads.build_model(config_of(model), head, name=model.name, dtype_policy=dtype_policy)
    for layer in copy.layers:
        layer.set_weights(model.get_layer(layer.name).get_weights())
    copy.trainable = model.trainable
    return copy


def copy_encoder(source: keras.Model, target: keras.Model) -> None:
    """Copies the weights of one model's encoder into another's, whatever their heads.

    This moves a student from pre-training to its task, or a teacher the other way. Heads stay as
    they are, and so does a pooler that only one of the two has.

    Args:
      source: A model of this package.
      target: A model of this package whose encoder has the same shape; changed in place. Dropout
        rates, dtype policies and styles of heads may differ.

    Raises:
      ShapeError: If the shapes differ; the message names the fields.
    """
    source_config, target_config = config_of(source), config_of(target)
    free = {"family", "dropout", "attention_dropout", "classifier_dropout", "pooler"}
    fields = [field.name for field in dataclasses.fields(source_config) if field.name not in free]
    if type(source_config) is not type(target_config):
        differing = [f"{type(target_config).__name__} instead of {type(source_config).__name__}"]
    else:
        differing = [
            f"{name} {getattr(target_config, name)!r} instead of {getattr(source_config, name)!r}"
            for name in fields
            if getattr(target_config, name) != getattr(source_config, name)
        ]
    if differing:
        raise errors.ShapeError(
            f"model {target.name!r} to copy an encoder into",
            f"the shape of {source.name!r}",
            ", ".join(differing),
            "Only equal encoders can be copied; training.initialise starts a smaller one.",
        )
    names = _layer_names(source)
    for layer in target.layers:
        if layer.weights and layer.name in names and not heads.is_of_head(layer.name):
            layer.set_weights(source.get_layer(layer.name).get_weights())


def _layer_names(model: keras.Model) -> set[str]:
    return {layer.name for layer in model.layers}


def _num_layers(model: keras.Model) -> int:
    names = _layer_names(model)
    count = layers.count_layers("layer_{}_layer_norm", model)
    if not count or "word_embeddings" not in names:
        raise errors.ShapeError(
            f"model {model.name!r}",
            "an encoder or classifier of tfdistill.models",
            f"layers {sorted(names)[:5]}...",
            "Build it with build_encoder or build_classifier.",
        )
    return count
