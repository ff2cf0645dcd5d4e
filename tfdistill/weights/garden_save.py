"""Our models -> Model Garden TF2 checkpoints (tf-models-official)."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import tensorflow as tf
import tf_keras as keras

from tfdistill import errors, models
from tfdistill.io import files
from tfdistill.models import MobileBertConfig
from tfdistill.weights import filling, garden_keys

# Name of a variable -> its path among the objects of a MobileBERTEncoder, a BertEncoder (both
# versions) and a masked-LM head. Keras counts the layers of a MobileBERTEncoder that have weights.
_MOBILEBERT_PATHS = (
    (r"mobile_bert_embedding/(word|type)_embedding/", r"layer_with_weights-0/\1_embedding/"),
    (r"mobile_bert_embedding/position_embedding/", "layer_with_weights-0/pos_embedding/"),
    (r"mobile_bert_embedding/embedding_projection/", "layer_with_weights-0/word_embedding_proj/"),
    (r"mobile_bert_embedding/embedding_norm/", "layer_with_weights-0/layer_norm/"),
    (r"/(bottleneck_input|kq_shared_bottleneck|bottleneck_output)/dense/", r"/block_layers/\1/0/"),
    (r"/(bottleneck_input|kq_shared_bottleneck)/norm/", r"/block_layers/\1/1/"),
    (r"/bottleneck_output/norm/", "/block_layers/bottleneck_output/2/"),
    (r"/attention/(query|key|value)/", r"/block_layers/attention/0/_\1_dense/"),
    (r"/attention/attention_output/", "/block_layers/attention/0/_output_dense/"),
    (r"/attention/norm/", "/block_layers/attention/1/"),
    (r"/ffn_layer_(\d+)/intermediate_dense/", r"/block_layers/ffn/\1/0/"),
    (r"/ffn_layer_(\d+)/output_dense/", r"/block_layers/ffn/\1/1/"),
    (r"/ffn_layer_(\d+)/norm/", r"/block_layers/ffn/\1/2/"),
)
_BERT_PATHS = (
    (r"^word_embeddings/", "_embedding_layer/"),
    (r"^position_embedding/", "_position_embedding_layer/"),
    (r"^type_embeddings/", "_type_embedding_layer/"),
    (r"^embeddings/layer_norm/", "_embedding_norm_layer/"),
    (r"^pooler_transform/", "_pooler_layer/"),
    (r"^transformer/layer_(\d+)/", r"_transformer_layers/\1/"),
    (r"/self_attention/(query|key|value)/", r"/_attention_layer/_\1_dense/"),
    (r"/self_attention/attention_output/", "/_attention_layer/_output_dense/"),
    (r"/self_attention_layer_norm/", "/_attention_layer_norm/"),
    (r"/intermediate/", "/_intermediate_dense/"),
    (r"/output/", "/_output_dense/"),
    (r"/output_layer_norm/", "/_output_layer_norm/"),
)
_HEAD_PATHS = (
    (r"^transform/dense/", "dense/"),
    (r"^transform/LayerNorm/", "layer_norm/"),
)
_OUTPUT_BIAS = "output_bias/bias"  # one name, with a slash in it


def save_garden(model: keras.Model, prefix: files.Path, *, overwrite: bool = False) -> pathlib.Path:
    """Saves an encoder or a masked language model for tf-models-official.

    There ``tf.train.Checkpoint(encoder=encoder).restore(prefix)`` fills a MobileBERTEncoder or a
    BertEncoder of the same shape, and ``masked_lm=`` the head. It does not say which activation
    and normalization the encoder needs: build it with ``intermediate_act_fn=gelu`` (the Garden's
    own, by tanh) for "gelu_tanh", and ``normalization_type``.

    Args:
      model: An encoder or a masked language model of tfdistill.models without next-sentence head.
      prefix: Where to write: PREFIX.index and PREFIX.data-00000-of-00001.
      overwrite: Whether an existing checkpoint is replaced.

    Returns:
      The prefix.

    Raises:
      OutputExistsError: If the checkpoint exists and `overwrite` is False.
      WeightsError: If the Garden could only build a different network.
    """
    prefix = pathlib.Path(prefix)
    if prefix.with_name(f"{prefix.name}.index").exists() and not overwrite:
        raise errors.OutputExistsError("checkpoint", "one that does not exist yet", f"{prefix}")
    config = models.config_of(model)
    head = models.head_of(model)
    names = {layer.name for layer in model.layers}
    kind = models.read_head(model).traits
    encoder = kind.bare and not kind.vectors
    if not (encoder or kind.predicts_words) or "nsp_classifier" in names:
        raise errors.WeightsError(
            f"model {model.name!r} for the Model Garden",
            "an encoder, or a masked language model alone",
            f"the head {head!r}",
            "Copy the encoder out first, with models.copy_encoder.",
        )
    garden_keys.check(config)
    mobile = isinstance(config, MobileBertConfig)
    tree: dict[str, Any] = {}
    for variable in garden_keys.variables(model):
        saved = tf.Variable(filling.exported(model, variable), name=variable.key)
        if variable.key.startswith(garden_keys.MASKED_LM):
            _put(tree, ["masked_lm", *_in_head(variable.key)], saved)
        else:
            path = _in_mobilebert(variable.key, config.num_layers) if mobile else variable.key
            rules = _MOBILEBERT_PATHS if mobile else _BERT_PATHS
            _put(tree, ["encoder", *_replaced(path, rules).split("/")], saved)
    prefix.parent.mkdir(parents=True, exist_ok=True)
    root = _trackable(tree)
    root.save_counter.assign(1)  # created by this: tf.train.Checkpoint.restore looks for it
    root.write(str(prefix))
    return prefix


def _in_mobilebert(name: str, num_layers: int) -> str:
    name = re.sub(
        r"^transformer_layer_(\d+)", lambda m: f"layer_with_weights-{int(m[1]) + 1}", name
    )
    return re.sub(r"^pooler/", f"layer_with_weights-{num_layers + 1}/", name)


def _in_head(name: str) -> list[str]:
    name = name.removeprefix(garden_keys.MASKED_LM)
    return [name] if name == _OUTPUT_BIAS else _replaced(name, _HEAD_PATHS).split("/")


def _replaced(name: str, rules: tuple[tuple[str, str], ...]) -> str:
    for pattern, path in rules:
        name = re.sub(pattern, path, name)
    return name


def _put(tree: dict[str, Any], path: list[str], value: tf.Variable) -> None:
    for part in path[:-1]:
        tree = tree.setdefault(part, {})
    tree[path[-1]] = value


def _trackable(tree: dict[str, Any]) -> tf.train.Checkpoint:
    """Turns nested dicts into objects whose attributes are the keys."""
    return tf.train.Checkpoint(
        **{
            name: _trackable(value) if isinstance(value, dict) else value
            for name, value in tree.items()
        }
    )
