"""A classifier as a preset of KerasHub: backbone, head, tokenizer and preprocessor in one folder.

A preset names one of KerasHub's classes, so only networks that these classes can be are written:
BERT with the tanh form of GELU, DistilBERT with the exact one. (KerasHub's own conversion of BERT
ignores the difference, which costs some 1e-3 in the logits; here it is refused.) Every other
network of the family can be written by `to_keras`.
"""

from __future__ import annotations

import functools
import importlib
import pathlib
from collections.abc import Container, Iterator, Sequence
from typing import Any

import numpy as np
import tf_keras as keras

from tfdistill import errors, files, models, work_folder
from tfdistill.data.tokenize import Tokenizer

from ..file import folders
from ..model import checks
from ..model.heads import HEADS
from . import keras3

KIND = "KerasHub preset"
_EPSILON = 1e-12  # of every LayerNorm in KerasHub's BERT and DistilBERT
_ACTIVATIONS = {"bert": "gelu_tanh", "distilbert": "gelu"}
_CLASSES = {"bert": "Bert", "distilbert": "DistilBert"}


def to_keras_hub(
    model: keras.Model,
    folder: files.Path,
    *,
    vocab_file: files.Path,
    lower_case: bool = True,
    labels: Sequence[str] | None = None,
    max_length: int | None = None,
    overwrite: bool = False,
) -> pathlib.Path:
    """Writes a classifier as a KerasHub preset.

    ``keras_hub.models.TextClassifier.from_preset(folder)`` loads it; it answers with logits. Its
    tokenizer is KerasHub's: the same ids for ordinary text, but it folds compatibility forms ("…"
    becomes "...") and recognizes special tokens in a text. The folder is loaded, and its network
    compared with the model, before it replaces anything.

    Args:
      model: A classifier or regression of whole texts: family "bert" with a pooler and
        `hidden_act` "gelu_tanh", or "distilbert" with "gelu".
      folder: The folder to write.
      vocab_file: The vocabulary that text is tokenized with.
      lower_case: Whether text is lower-cased.
      labels: Label names in the order of the logits. KerasHub has no field for them: they are
        written to labels.txt.
      max_length: Tokens that the preprocessor pads and cuts to; default the model's positions.
      overwrite: Whether a preset at that path is replaced.

    Returns:
      The folder.

    Raises:
      ConfigError: If KerasHub has no class for the network, or the labels do not fit.
      EnvironmentFault: If KerasHub is not installed.
      OutputExistsError: If the path exists and may not be replaced.
      ParityError: If the preset does not answer like the model.
      VocabularyError: If the vocabulary cannot be used or is larger than the model's.
      ExportError: If it cannot be written.
    """
    folder = pathlib.Path(folder)
    check_keras_hub(model)
    config = models.config_of(model)
    checks.labels_of(None, labels, HEADS["sequence"], models.num_labels_of(model) or 0)
    work_folder.WorkFolder(folder, KIND).check(overwrite=overwrite)
    tokenizer = Tokenizer(vocab_file, lower_case=lower_case)
    tokenizer.check_rows(config.vocab_size)
    hub = _keras_hub()
    length = config.max_positions if max_length is None else min(max_length, config.max_positions)
    classifier = _classifier(hub, model, tokenizer, length)
    with (
        folders.writing(f"preset {folder}"),
        work_folder.replaced(folder, KIND, overwrite=overwrite) as temporary,
    ):
        classifier.save_to_preset(str(temporary))
        if labels:
            text = "".join(f"{label}\n" for label in labels)
            (temporary / "labels.txt").write_text(text, encoding="utf-8")
        loaded = hub.models.TextClassifier.from_preset(str(temporary))
        rename = functools.partial(_renamed, wanted=loaded.input)
        keras3.check_same(model, loaded, folder.name, rename)
    return folder


def check_keras_hub(model: keras.Model) -> None:
    """Refuses a model that none of KerasHub's classes can be.

    Raises:
      ConfigError: With every reason.
      EnvironmentFault: If KerasHub is not installed.
    """
    faults = list(_faults(model))
    if faults:
        raise errors.ConfigError(
            "model for a KerasHub preset",
            "what its classes can be",
            "; ".join(faults),
            "Write a Keras 3 model instead (to_keras, --keras FILE.keras): it has no such limits.",
        )
    keras3.check_keras(model)
    _keras_hub()


def _faults(model: keras.Model) -> Iterator[str]:
    config = models.config_of(model)
    if config.family not in _CLASSES or not isinstance(config, models.EncoderConfig):
        yield f"the family {config.family} (it has {' and '.join(_CLASSES)})"
        return
    head = models.read_head(model)
    if not head.traits.of_texts or not head.traits.classifies:
        yield f"the head {head.kind!r} (it has classifiers of whole texts)"
    if config.hidden_act != _ACTIVATIONS[config.family]:
        expected = _ACTIVATIONS[config.family]
        yield f"hidden_act {config.hidden_act} (its {config.family} has {expected})"
    if config.layer_norm_eps != _EPSILON:
        yield f"layer_norm_eps {config.layer_norm_eps} (it has {_EPSILON})"
    if config.head_size is not None:
        yield f"head_size {config.head_size} (its heads share hidden_size)"
    if config.embedding_size is not None:
        yield f"embedding_size {config.embedding_size} (its word table is in one piece)"


def _keras_hub() -> Any:
    try:
        return importlib.import_module("keras_hub")
    except ImportError as error:
        raise errors.EnvironmentFault(
            "KerasHub", "it to be installed", error, "pip install 'tfdistill[keras-hub]'"
        ) from error


def _classifier(hub: Any, model: keras.Model, tokenizer: Tokenizer, max_length: int) -> Any:
    """Builds KerasHub's classifier with the weights of the model."""
    config = models.config_of(model)
    assert isinstance(config, models.EncoderConfig)
    kind = _CLASSES[config.family]
    settings: dict[str, Any] = {
        "vocabulary_size": config.vocab_size,
        "num_layers": config.num_layers,
        "num_heads": config.num_heads,
        "hidden_dim": config.hidden_size,
        "intermediate_dim": config.intermediate_size,
        "dropout": config.dropout,
        "max_sequence_length": config.max_positions,
        "dtype": "float32",
    }
    if config.family == "bert":
        settings["num_segments"] = max(config.type_vocab_size, 2)
    backbone = getattr(hub.models, f"{kind}Backbone")(**settings)
    pieces = getattr(hub.models, f"{kind}Tokenizer")(
        vocabulary=tokenizer.vocab, lowercase=tokenizer.lower_case
    )
    classifier = getattr(hub.models, f"{kind}TextClassifier")(
        backbone,
        num_classes=models.num_labels_of(model),
        dropout=config.head_dropout,
        preprocessor=getattr(hub.models, f"{kind}TextClassifierPreprocessor")(
            pieces, sequence_length=max_length
        ),
    )
    for weight in classifier.weights:
        weight.assign(np.reshape(_value(model, weight.path, weight.shape), weight.shape))
    return classifier


def _value(model: keras.Model, path: str, shape: tuple[int, ...]) -> np.ndarray:
    """Finds the values of one of KerasHub's weights by its path.

    The kernels of its attention have the heads as an axis of their own: (d, h, k) for our (d, d).
    """
    owner, _, kind = path.rpartition("/")
    owner = owner.removeprefix("token_and_position_embedding/")
    if owner == "segment_embedding" and "token_type_ids" not in model.input_names:
        return np.zeros(shape, np.float32)
    block, _, part = owner.partition("/")
    if part:
        name = f"layer_{block.rpartition('_')[2]}_{_PARTS[part]}"
    elif owner == "pooled_dense":
        name = "pooler" if "pooler" in {layer.name for layer in model.layers} else "pre_classifier"
    else:
        name = _LAYERS[owner]
    index = {"embeddings": 0, "kernel": 0, "bias": 1, "gamma": 0, "beta": 1}[kind]
    return model.get_layer(name).get_weights()[index]


_LAYERS = {
    "token_embedding": "word_embeddings",
    "position_embedding": "position_embeddings",
    "segment_embedding": "token_type_embeddings",
    "embeddings_layer_norm": "embeddings_layer_norm",
    "logits": "classifier",
}
_PARTS = {
    "self_attention_layer/query": "query",
    "self_attention_layer/key": "key",
    "self_attention_layer/value": "value",
    "self_attention_layer/attention_output": "attention_output",
    "self_attention_layer_norm": "attention_layer_norm",
    "feedforward_intermediate_dense": "intermediate",
    "feedforward_output_dense": "output",
    "feedforward_layer_norm": "layer_norm",
}


def _renamed(features: dict[str, Any], wanted: Container[str]) -> dict[str, Any]:
    """Gives our inputs KerasHub's names: those that its model wants."""
    ids = features["input_ids"]
    named = {
        "token_ids": ids,
        "padding_mask": features["attention_mask"],
        "segment_ids": features.get("token_type_ids", np.zeros_like(ids)),
    }
    return {name: value for name, value in named.items() if name in wanted}
