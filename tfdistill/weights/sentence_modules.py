"""The modules of a sentence-transformers folder: what follows the encoder, read and written.

`modules.json` lists Transformer, Pooling, and perhaps Dense and Normalize, each with a folder of
its own. What would give other vectors than ours is refused.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors.numpy
import tf_keras as keras

from tfdistill import errors, files, models, reading, safe_paths
from tfdistill.models import embedding
from tfdistill.weights import checkpoint

MODULES_FILE = "modules.json"
_ORDER = ("Transformer", "Pooling", "Dense", "Normalize")
# Of Pooling: ours -> key of its config.json.
_MODES = {
    "mean": "pooling_mode_mean_tokens",
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
}
_ACTIVATIONS = {
    "linear": "torch.nn.modules.linear.Identity",
    "tanh": "torch.nn.modules.activation.Tanh",
}
_TYPES = "sentence_transformers.models."
_KEYS = {"linear.weight": "vector_dense.weight", "linear.bias": "vector_dense.bias"}


@dataclasses.dataclass(frozen=True)
class SentenceModules:
    """What a folder says of its sentence encoder.

    Attributes:
      encoder: The folder of the transformer.
      head: The head; its width is that of the projection, or 0.
      tensors: Those of the projection, as `weights.keys` calls them.
      lower_case: Whether text is lower-cased in front of the tokenizer.
    """

    encoder: pathlib.Path
    head: models.Head
    tensors: dict[str, np.ndarray]
    lower_case: bool


def has_modules(folder: files.Path) -> bool:
    """Whether a folder is one of sentence-transformers."""
    return (pathlib.Path(folder) / MODULES_FILE).is_file()


def read_modules(folder: pathlib.Path) -> SentenceModules:
    """Reads the modules of a folder.

    Args:
      folder: The folder of modules.json.

    Returns:
      What the modules say.

    Raises:
      WeightsError: If the folder has no modules.json, or one is missing, malformed, or of a kind or
        with a setting that gives other vectors than ours.
    """
    path = folder / MODULES_FILE
    if not path.is_file():
        raise errors.WeightsError(
            f"sentence encoder {folder}",
            f"a sentence-transformers folder, with {MODULES_FILE} and 1_Pooling/config.json",
            f"no {MODULES_FILE}",
            "How its states are pooled is not known without it. Copy these files from where the "
            "model came from.",
        )
    listed = reading.read_json(path, error=errors.WeightsError, expected="a list of modules")
    found: dict[str, pathlib.Path] = {}
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise errors.WeightsError(str(path), "a list of modules", type(listed).__name__)
    for entry in listed:
        kind, place = str(entry.get("type", "")).rpartition(".")[2], entry.get("path", "")
        if not isinstance(place, str) or (place and not safe_paths.is_plain_name(place)):
            raise errors.WeightsError(f"{path}, path", "a folder next to it", repr(place))
        if kind not in _ORDER or kind in found:
            raise errors.WeightsError(
                f"{path}, module {entry.get('idx', len(found))}",
                f"{', '.join(_ORDER)}, each once",
                repr(entry.get("type")),
                "Its vectors would not be those of the model. Take another sentence encoder.",
            )
        found[kind] = folder / place
    if tuple(found) != tuple(kind for kind in _ORDER if kind in found) or len(found) < 2:
        raise errors.WeightsError(str(path), " then ".join(_ORDER), " then ".join(found) or "none")
    if "Pooling" not in found or "Transformer" not in found:
        raise errors.WeightsError(str(path), "Transformer then Pooling", " then ".join(found))
    head = models.Head("embedding", pooling=_pooling(found["Pooling"]))
    tensors: dict[str, np.ndarray] = {}
    if "Dense" in found:
        projection, tensors = _dense(found["Dense"])
        width = len(tensors["vector_dense.weight"])
        head = dataclasses.replace(head, projection=projection, num_labels=width)
    head = dataclasses.replace(head, normalize="Normalize" in found)
    _refuse_prompt(folder)
    settings = checkpoint.read_json(
        found["Transformer"] / "sentence_bert_config.json", required=False
    )
    return SentenceModules(
        found["Transformer"], head, tensors, settings.get("do_lower_case", False) is True
    )


def _pooling(folder: pathlib.Path) -> str:
    settings = checkpoint.read_json(folder / checkpoint.CONFIG_FILE, required=True)
    chosen = [key for key, value in settings.items() if key.startswith("pooling_mode_") and value]
    named = settings.get("pooling_mode")  # of later versions, which name it
    if not chosen and isinstance(named, str):
        chosen = [_MODES.get(named, named)]
    modes = {key: mode for mode, key in _MODES.items()}
    if len(chosen) != 1 or chosen[0] not in modes:
        raise errors.WeightsError(
            f"{folder / checkpoint.CONFIG_FILE}, pooling",
            f"one of {', '.join(_MODES.values())}",
            ", ".join(chosen) or "none",
            "Other poolings are not supported. Take another sentence encoder.",
        )
    return modes[chosen[0]]


def _dense(folder: pathlib.Path) -> tuple[str, dict[str, np.ndarray]]:
    """Returns the activation of a projection, and its tensors."""
    settings = checkpoint.read_json(folder / checkpoint.CONFIG_FILE, required=True)
    activations = {path: name for name, path in _ACTIVATIONS.items()}
    activation = settings.get("activation_function", _ACTIVATIONS["tanh"])
    if activation not in activations:
        raise errors.WeightsError(
            f"{folder / checkpoint.CONFIG_FILE}, activation_function",
            f"one of {', '.join(activations)}",
            repr(activation),
        )
    found, _, _ = checkpoint.read_tensors(folder / checkpoint.WEIGHTS_FILE)
    kernel = found.get("linear.weight")
    if kernel is None or kernel.ndim != 2 or not set(found) <= set(_KEYS):
        raise errors.WeightsError(
            f"tensors of {folder}", " and ".join(_KEYS), ", ".join(sorted(found)) or "none"
        )
    found.setdefault("linear.bias", np.zeros(len(kernel), np.float32))
    return activations[activation], {_KEYS[key]: value for key, value in found.items()}


def _refuse_prompt(folder: pathlib.Path) -> None:
    path = folder / "config_sentence_transformers.json"
    name = checkpoint.read_json(path, required=False).get("default_prompt_name")
    if name is not None:
        raise errors.WeightsError(
            f"{path}, default_prompt_name",
            "none",
            repr(name),
            "Put the prompt in front of your texts yourself, and remove the setting.",
        )


def write_modules(model: keras.Model, folder: pathlib.Path) -> None:
    """Writes what follows the encoder of an embedding model, next to its files.

    Args:
      model: A model of `models.build_embedder`.
      folder: The folder, with the encoder's files in it.
    """
    head, config = models.read_head(model), models.config_of(model)
    listed = [("", "Transformer"), ("1_Pooling", "Pooling")]
    pooled = {
        "word_embedding_dimension": config.hidden_size,
        **{key: mode == head.pooling for mode, key in _MODES.items()},
    }
    _write(folder / "1_Pooling", pooled)
    if head.projection is not None:
        listed.append(("2_Dense", "Dense"))
        kernel, bias = model.get_layer(embedding.DENSE).get_weights()
        settings = {
            "in_features": len(kernel),
            "out_features": len(bias),
            "bias": True,
            "activation_function": _ACTIVATIONS[head.projection],
        }
        _write(folder / "2_Dense", settings)
        tensors = {"linear.weight": np.ascontiguousarray(kernel.T), "linear.bias": bias}
        safetensors.numpy.save_file(
            tensors, folder / "2_Dense" / checkpoint.WEIGHTS_FILE, metadata={"format": "pt"}
        )
    if head.normalize:
        listed.append((f"{len(listed)}_Normalize", "Normalize"))
        (folder / listed[-1][0]).mkdir()
    modules = [
        {"idx": index, "name": str(index), "path": place, "type": _TYPES + kind}
        for index, (place, kind) in enumerate(listed)
    ]
    files.atomic_write_json(folder / MODULES_FILE, modules)
    limits = {"max_seq_length": config.max_positions, "do_lower_case": False}
    files.atomic_write_json(folder / "sentence_bert_config.json", limits)


def _write(folder: pathlib.Path, settings: Mapping[str, Any]) -> None:
    folder.mkdir()
    path = folder / checkpoint.CONFIG_FILE
    path.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
