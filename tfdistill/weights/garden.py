"""Model Garden TF2 checkpoints (tf-models-official), and their params.yaml -> our models."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras
from tensorflow.core.protobuf import trackable_object_graph_pb2

from tfdistill import errors, models
from tfdistill.io import files, reading
from tfdistill.models import EncoderConfig, MobileBertConfig
from tfdistill.tokenization.reading import read_tokenizer
from tfdistill.tokenization.tokenizer import Tokenizer
from tfdistill.tokenization.wordpiece import VOCAB_FILE
from tfdistill.weights import filling, garden_keys
from tfdistill.weights.filling import LoadReport
from tfdistill.weights.load import LoadedModel

_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_BOOKKEEPING = ("optimizer/", "save_counter/", "global_step", "_CHECKPOINTABLE")
_SLOT = "/.OPTIMIZER_SLOT/"


def load_garden(
    source: files.Path,
    preset_or_config: str | EncoderConfig | None = None,
    *,
    lower_case: bool = True,
) -> LoadedModel:
    """Loads a MobileBERTEncoder or a BertEncoder of tf-models-official.

    The checkpoint may hold more: heads, a pre-trainer around the encoder, an optimizer. It tells
    sizes but not which activation or normalization is between them; those come from the
    params.yaml that the Garden's trainer writes, or from the caller. Whether there is a pooler is
    read off the checkpoint.

    Args:
      source: A folder with one checkpoint (the newest, where a file named "checkpoint" says so),
        or the prefix of one, for example ".../bert_model.ckpt".
      preset_or_config: The architecture; None reads params.yaml next to the checkpoint. A BERT
        preset's name means its shape with Google's GELU, the approximation by tanh; a
        configuration is taken as it is.
      lower_case: Whether its tokenizer lower-cases.

    Returns:
      The encoder, its configuration, vocab.txt if one is next to the checkpoint, and what became
      of every tensor, by the names in the checkpoint.

    Raises:
      WeightsError: If the checkpoint is missing or corrupt, its architecture is not known or is
        another one (the message lists the first names that differ), or a tensor is not finite.
      ConfigError: If there is no such preset.
    """
    return _load(source, preset_or_config, lower_case, words=False)


def load_garden_masked_lm(
    source: files.Path,
    preset_or_config: str | EncoderConfig | None = None,
    *,
    lower_case: bool = True,
) -> LoadedModel:
    """Loads the masked language model of a Garden pre-training run.

    Args:
      source: As for `load_garden`.
      preset_or_config: As for `load_garden`.
      lower_case: As for `load_garden`.

    Returns:
      The model, its configuration, vocabulary and report; see `load_garden`.

    Raises:
      WeightsError: As `load_garden` does; also if there is no such head, or params.yaml gives it
        another activation than the encoder.
      ConfigError: If there is no such preset.
    """
    return _load(source, preset_or_config, lower_case, words=True)


def _load(
    source: files.Path, shape: str | EncoderConfig | None, lower_case: bool, *, words: bool
) -> LoadedModel:
    """Loads a masked language model, or the encoder alone."""
    prefix, tensors, ignored = _open(source)
    config, activation = _architecture(prefix, shape)
    if words and activation not in (None, config.hidden_act):
        raise errors.WeightsError(
            f"mlm_activation in {PARAMS_FILE}",
            f"the encoder's, {config.hidden_act!r}",
            repr(activation),
            "Load the encoder alone with load_garden.",
        )
    poolers = {name for name in tensors if name.startswith(garden_keys.POOLERS)}
    head = {name for name in tensors if name.startswith(garden_keys.MASKED_LM)}
    config = config.replace(pooler=bool(poolers) and not words)
    model = models.build_masked_lm(config) if words else models.build_encoder(config)
    left_out = poolers if words else head
    report = _fill(model, prefix, tensors, ignored=ignored, left_out=left_out)
    return LoadedModel(model, config, _tokenizer(prefix, config, lower_case), report)


def _architecture(
    prefix: pathlib.Path, shape: str | EncoderConfig | None
) -> tuple[EncoderConfig, str | None]:
    """Returns the encoder and the activation of the masked-LM head, None where nobody says."""
    activation = None
    if shape is None:
        read = read_params(prefix.parent)
        if read is None:
            raise errors.WeightsError(
                f"architecture of {prefix}",
                f"{PARAMS_FILE} next to it, a preset or a configuration",
                "none of them",
                'Pass one, for example load_garden(path, "mobilebert").',
            )
        config, activation = read
    elif isinstance(shape, str):
        config = models.preset(shape)
        if config.family == "bert" and config.hidden_act == "gelu":
            config = config.replace(hidden_act="gelu_tanh")
    else:
        config = shape
    garden_keys.check(config)
    return config, activation


def _open(source: files.Path) -> tuple[pathlib.Path, dict[str, np.ndarray], list[str]]:
    """Returns the prefix, canonical name -> tensor, and the names of all other variables."""
    prefix = _prefix(pathlib.Path(source).expanduser())
    tensors: dict[str, np.ndarray] = {}
    others = []
    for name, tensor in _read(prefix):
        canonical = garden_keys.canonical_name(name)
        if canonical is None:
            others.append(name)
        elif canonical in tensors:
            raise errors.WeightsError(
                str(prefix),
                f"one variable called {canonical}",
                "two: it holds several encoders",
                "Save the one encoder: tf.train.Checkpoint(encoder=encoder).save(...).",
            )
        else:
            tensors[canonical] = np.asarray(tensor, np.float32)
    broken = [name for name, tensor in tensors.items() if not np.isfinite(tensor).all()]
    if broken:
        what = f"NaN or infinity in {filling.shortened(broken)}"
        raise errors.WeightsError(str(prefix), "finite weights", what)
    return prefix, tensors, others


def _read(prefix: pathlib.Path) -> list[tuple[str, np.ndarray]]:
    """Returns name and value of every variable that is not of an optimizer or a counter."""
    try:
        reader = tf.train.load_checkpoint(str(prefix))
        keys = list(reader.get_variable_to_shape_map())
        if _OBJECT_GRAPH in keys:
            graph = trackable_object_graph_pb2.TrackableObjectGraph()
            graph.ParseFromString(reader.get_tensor(_OBJECT_GRAPH))
            named = [(a.full_name, a.checkpoint_key) for n in graph.nodes for a in n.attributes]
        else:  # name-based, as tf.compat.v1.train.Saver writes it
            named = [(key, key) for key in keys]
        return [
            (name, reader.get_tensor(key))
            for name, key in named
            if key in keys and _SLOT not in key and not key.startswith(_BOOKKEEPING)
        ]
    except (tf.errors.OpError, ValueError, RuntimeError, IndexError) as error:
        raise errors.WeightsError(
            str(prefix),
            "a whole TensorFlow checkpoint",
            str(error).strip().splitlines()[0],
            "It is missing or corrupt; copy its .index and .data files again.",
        ) from error


def _prefix(path: pathlib.Path) -> pathlib.Path:
    if not path.is_dir():
        return path
    newest = tf.train.latest_checkpoint(str(path))
    if newest is not None:
        return pathlib.Path(newest)
    indices = sorted(path.glob("*.index"))
    if len(indices) != 1:
        raise errors.WeightsError(
            f"folder {path}",
            "one checkpoint (a file *.index)",
            [file.name for file in indices] or "none",
            "Give the prefix of the one to load." if indices else "",
        )
    return indices[0].with_suffix("")


def _fill(
    model: keras.Model,
    prefix: pathlib.Path,
    tensors: dict[str, np.ndarray],
    *,
    ignored: Sequence[str],
    left_out: set[str],
) -> LoadReport:
    """Copies tensors into the model after every name has been found right."""
    wanted = garden_keys.variables(model)
    offered = {name: tensor for name, tensor in tensors.items() if name not in left_out}
    received = filling.mismatch(wanted, offered)
    if received:
        if not tensors:
            received += f"; it holds: {filling.shortened(ignored) or 'no named variables'}"
        raise errors.WeightsError(
            f"checkpoint {prefix}",
            f"the variables of a Model Garden {models.config_of(model).family} encoder of "
            "these sizes",
            received,
            "It is of another architecture: give the configuration that it was trained with.",
        )
    filling.assign(model, wanted, offered)
    return LoadReport(
        loaded=tuple(sorted(offered)),
        ignored=tuple(sorted({*ignored, *(left_out & set(tensors))})),
        fresh=(),
    )


def _tokenizer(prefix: pathlib.Path, config: EncoderConfig, lower_case: bool) -> Tokenizer | None:
    path = prefix.parent / VOCAB_FILE
    if not path.is_file():
        return None
    tokenizer = read_tokenizer(path, lower_case)
    tokenizer.check_rows(config.vocab_size)
    return tokenizer


PARAMS_FILE = "params.yaml"
# One word, two functions: the Garden's own table says "gelu" for the approximation by tanh, Keras,
# whom its MobileBERT asks, for the exact one.
_ACTIVATIONS = {"gelu": "gelu_tanh", "relu": "relu"}
_MOBILEBERT_ACTIVATIONS = {"gelu": "gelu", "relu": "relu"}


def read_params(folder: pathlib.Path) -> tuple[EncoderConfig, str | None] | None:
    """Reads params.yaml as the Garden's trainer writes it."""
    path = folder / PARAMS_FILE
    if not path.is_file():
        return None
    try:
        raw = reading.read_yaml(path, error=errors.WeightsError)
        model = raw["task"]["model"]
        encoder = model["encoder"]
        kind = encoder["type"]
        shape = encoder[kind]
    except (KeyError, TypeError) as error:
        raise errors.WeightsError(
            str(path), "task.model.encoder as the Model Garden writes it", repr(error)
        ) from error
    if kind not in ("bert", "mobilebert"):
        raise errors.WeightsError(f"encoder type in {path}", "'bert' or 'mobilebert'", repr(kind))
    config = _mobilebert(shape) if kind == "mobilebert" else _bert(shape)
    activation = model.get("mlm_activation")
    return config, None if activation is None else _activation(activation, _ACTIVATIONS)


def _bert(shape: Mapping[str, Any]) -> EncoderConfig:
    width = shape.get("hidden_size", 768)
    for name, plain in (("embedding_size", (None, width)), ("norm_first", (None, False))):
        if shape.get(name) not in plain:
            raise errors.WeightsError(f"{PARAMS_FILE} {name}", f"one of {plain}", shape[name])
    return EncoderConfig(
        num_layers=shape.get("num_layers", 12),
        hidden_size=width,
        num_heads=shape.get("num_attention_heads", 12),
        intermediate_size=shape.get("intermediate_size", 3072),
        vocab_size=shape.get("vocab_size", 30522),
        max_positions=shape.get("max_position_embeddings", 512),
        type_vocab_size=shape.get("type_vocab_size", 2),
        hidden_act=_activation(shape.get("hidden_activation", "gelu"), _ACTIVATIONS),
        dropout=shape.get("dropout_rate", 0.1),
        attention_dropout=shape.get("attention_dropout_rate", 0.1),
    )


def _mobilebert(shape: Mapping[str, Any]) -> MobileBertConfig:
    narrow = shape.get("use_bottleneck_attention", False)
    return MobileBertConfig(
        num_layers=shape.get("num_blocks", 24),
        hidden_size=shape.get("hidden_size", 512),
        num_heads=shape.get("num_attention_heads", 4),
        intermediate_size=shape.get("intermediate_size", 4096),
        vocab_size=shape.get("word_vocab_size", 30522),
        max_positions=shape.get("max_sequence_length", 512),
        type_vocab_size=shape.get("type_vocab_size", 2),
        hidden_act=_activation(shape.get("hidden_activation", "gelu"), _MOBILEBERT_ACTIVATIONS),
        dropout=shape.get("hidden_dropout_prob", 0.1),
        attention_dropout=shape.get("attention_probs_dropout_prob", 0.1),
        pooler=shape.get("classifier_activation", True),
        embedding_size=shape.get("word_embed_size", 128),
        bottleneck_size=shape.get("intra_bottleneck_size", 1024),
        num_feed_forward=shape.get("num_feedforward_networks", 1),
        shared_key_query=not narrow and shape.get("key_query_shared_bottleneck", False),
        bottleneck_attention=narrow,
        normalization=shape.get("normalization_type", "layer_norm"),
    )


def _activation(name: Any, names: Mapping[str, str]) -> str:
    if name not in names:
        raise errors.WeightsError(
            f"activation in {PARAMS_FILE}", f"one of {sorted(names)}", repr(name)
        )
    return names[name]
