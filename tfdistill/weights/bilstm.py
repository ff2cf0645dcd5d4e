"""A BiLSTM or static student on disk: weights, vocabulary, labels; `transformers` has no class.

Nothing in such a folder is ever executed: the shape follows from the tensors, the network is built
here, and only numbers are read.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import safetensors.numpy
import tf_keras as keras

from tfdistill import errors, models
from tfdistill.io import files, ledger
from tfdistill.tokenization import reading
from tfdistill.tokenization.tokenizer import Tokenizer, checked_prompt, checked_truncation
from tfdistill.weights import checkpoint
from tfdistill.weights.filling import LoadReport
from tfdistill.weights.folders import DESCRIPTION
from tfdistill.weights.load import LoadedModel

_FORMAT_VERSION = 1
_LSTM = ("kernel", "recurrent_kernel", "bias")
_DENSE = ("kernel", "bias")
_LAYERS = {  # layer -> its weights in order
    "word_embeddings": ("embeddings",),
    "lstm_forward": _LSTM,
    "lstm_backward": _LSTM,
    "dense": _DENSE,
    "classifier": _DENSE,
}


def save_bilstm(
    model: keras.Model,
    folder: files.Path,
    *,
    labels: Sequence[str],
    tokenizer: Tokenizer,
) -> None:
    """Writes model.safetensors, the vocabulary and classifier.json into a folder that exists.

    Args:
      model: A BiLSTM or static student of `tfdistill.models`.
      folder: The folder.
      labels: Names of the classes in the order of the logits.
      tokenizer: Its tokenizer.
    """
    folder = pathlib.Path(folder)
    tensors = {
        f"{layer}/{name}": value
        for layer, names in _LAYERS.items()
        if layer in {model_layer.name for model_layer in model.layers}
        for name, value in zip(names, model.get_layer(layer).get_weights(), strict=True)
    }
    with files.atomic_write(folder / checkpoint.WEIGHTS_FILE) as temporary:
        safetensors.numpy.save_file(tensors, temporary)
    files.atomic_write_text(folder / tokenizer.file_name, tokenizer.file_text)
    description: dict[str, Any] = {
        "format_version": _FORMAT_VERSION,
        "labels": list(labels),
        "lower_case": tokenizer.lower_case,
        "truncation": tokenizer.truncation,
    }
    if tokenizer.prompt:
        description["prompt"] = tokenizer.prompt
    files.atomic_write_json(folder / DESCRIPTION, description)


def load_bilstm(folder: files.Path) -> LoadedModel:
    """Loads what `save_bilstm` wrote.

    Args:
      folder: The folder.

    Returns:
      The model with its labels and vocabulary.

    Raises:
      WeightsError: If a file is missing or damaged, or the tensors are not those of such a model.
    """
    folder = pathlib.Path(folder)
    ledger.check_folder(folder)
    described = checkpoint.read_json(folder / DESCRIPTION, required=True)
    labels, lower_case = described.get("labels"), described.get("lower_case")
    named = isinstance(labels, list) and all(isinstance(label, str) for label in labels)
    if not named or not isinstance(lower_case, bool):
        raise errors.WeightsError(
            f"{folder / DESCRIPTION}", "a list of labels, and lower_case", described
        )
    source = folder / checkpoint.WEIGHTS_FILE
    what = f"{folder / DESCRIPTION}, truncation"
    truncation = checked_truncation(described.get("truncation", "end"), what)
    read, _ = checkpoint.read_tensors(source)
    tensors = {name: array for name, array in read.items() if array is not None}
    prompt = checked_prompt(described.get("prompt"), f"{folder / DESCRIPTION}, prompt")
    vocab_file = reading.vocab_file_of(folder)
    tokenizer = reading.read_tokenizer(vocab_file, lower_case, truncation, prompt)
    config, num_labels = _shape(tensors, source, tokenizer.pad_id)
    tokenizer.check_rows(config.vocab_size)
    model = models.build_bilstm(config, num_labels)
    for layer, names in _LAYERS.items():
        if f"{layer}/{names[0]}" in tensors:
            model.get_layer(layer).set_weights([tensors[f"{layer}/{name}"] for name in names])
    report = LoadReport(loaded=tuple(sorted(tensors)), ignored=(), fresh=())
    return LoadedModel(
        model,
        config,  # pyright: ignore[reportArgumentType]  # `models.config_of` returns either, too
        tokenizer,
        report,
        tuple(labels or ()),
    )


def _shape(
    tensors: dict[str, np.ndarray], source: pathlib.Path, pad_id: int
) -> tuple[models.WordVectorConfig, int]:
    """Derives the configuration and the number of labels from the shapes of the tensors."""
    shapes = {name: array.shape for name, array in tensors.items()}
    try:
        rows, width = shapes["word_embeddings/embeddings"]
        features, num_labels = shapes["classifier/kernel"]
        dense = 0
        if "dense/kernel" in shapes:
            features, dense = shapes["dense/kernel"]
        common: dict[str, Any] = {
            "embedding_size": width,
            "dense_size": dense,
            "vocab_size": rows,
            "pad_token_id": pad_id,
        }
        if "lstm_forward/kernel" in shapes:
            config: models.WordVectorConfig = models.BiLstmConfig(
                **common,
                hidden_size=shapes["lstm_forward/recurrent_kernel"][0],
                bidirectional="lstm_backward/kernel" in shapes,
            )
        else:
            config = models.StaticConfig(**common)
        if features == 4 * config.text_width:
            config = config.replace(pair_encoding="siamese")
        fits = shapes == _expected(config, num_labels)
        fits = fits and all(
            array.dtype.kind == "f" and np.isfinite(array).all() for array in tensors.values()
        )
    except (KeyError, ValueError, errors.ConfigError):
        fits = False
    if not fits:
        raise errors.WeightsError(
            f"{source}",
            "finite weights of word vectors, LSTMs and dense layers that fit each other",
            ", ".join(f"{name} {shape}" for name, shape in list(shapes.items())[:6]) or "none",
            "It was not saved by a run, or is damaged.",
        )
    return config, num_labels


def _expected(config: models.WordVectorConfig, num_labels: int) -> dict[str, tuple[int, ...]]:
    expected: dict[str, tuple[int, ...]] = {
        "word_embeddings/embeddings": (config.vocab_size, config.embedding_size)
    }
    if isinstance(config, models.BiLstmConfig):
        units = config.hidden_size
        lstm = {
            "kernel": (config.embedding_size, 4 * units),
            "recurrent_kernel": (units, 4 * units),
            "bias": (4 * units,),
        }
        directions = ("forward", "backward")[: config.directions]
        expected |= {f"lstm_{way}/{name}": lstm[name] for way in directions for name in lstm}
    if config.dense_size:
        expected["dense/kernel"] = (config.feature_width, config.dense_size)
        expected["dense/bias"] = (config.dense_size,)
    last = config.dense_size or config.feature_width
    return {**expected, "classifier/kernel": (last, num_labels), "classifier/bias": (num_labels,)}
