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

from tfdistill import errors, models
from tfdistill.io import files, reading, safe_paths
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
_LIBRARY = "sentence_transformers"
_TYPES = f"{_LIBRARY}.models."
# The settings of the encoder; the library reads the first of these that says something.
_SETTINGS_FILES = tuple(
    f"sentence_{family}_config.json"
    for family in "bert roberta distilbert camembert albert xlm-roberta xlnet".split()
)
# What the files of the modules may say: a value that is required, or None for a key that is read
# elsewhere or changes no vector. `null` and an empty value say nothing.
_OF_VECTORS = {
    "module_input_name": "sentence_embedding",
    "module_output_name": "sentence_embedding",
}
_ALLOWED: dict[str, dict[str, Any]] = {
    "Transformer": {
        "max_seq_length": None,
        "do_lower_case": None,
        "transformer_task": "feature-extraction",
        "modality_config": {
            "text": {"method": "forward", "method_output_name": "last_hidden_state"}
        },
        "module_output_name": "token_embeddings",
        "unpad_inputs": None,  # an optimisation
    },
    "Pooling": {
        "word_embedding_dimension": None,
        "embedding_dimension": None,
        "pooling_mode": None,
        "include_prompt": None,  # see `read_modules`
    },
    "Dense": {
        **dict.fromkeys(("in_features", "out_features", "bias", "activation_function")),
        **_OF_VECTORS,
    },
    "Normalize": _OF_VECTORS,
    "library": {
        "__version__": None,
        "model_type": "SentenceTransformer",
        "similarity_fn_name": None,
        "prompts": None,
        "default_prompt_name": None,
        "truncate_dim": None,
    },
}
_PROMPT_NAME = "default"  # in folders that are written
_KEYS = {"linear.weight": "vector_dense.weight", "linear.bias": "vector_dense.bias"}


@dataclasses.dataclass(frozen=True)
class SentenceModules:
    """The description of a sentence encoder in its folder."""

    encoder: pathlib.Path  # the folder of the transformer
    head: models.Head  # its width is that of the projection, or 0
    tensors: dict[str, np.ndarray]  # of the projection, as `weights.keys` calls them
    lower_case: bool  # in front of the tokenizer
    max_length: int | None  # the most tokens of a text (`max_seq_length`)
    prompt: str  # in front of every text that is encoded


def has_modules(folder: files.Path) -> bool:
    """Checks whether a folder is a sentence encoder of sentence-transformers, no cross-encoder."""
    folder = pathlib.Path(folder)
    if not (folder / MODULES_FILE).is_file():
        return False
    library = checkpoint.read_json(folder / checkpoint.LIBRARY_FILE, required=False)
    return library.get("model_type") != "CrossEncoder"


def read_modules(folder: pathlib.Path) -> SentenceModules:
    """Reads the modules of a folder."""
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
    folders: dict[str, pathlib.Path] = {}
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise errors.WeightsError(str(path), "a list of modules", type(listed).__name__)
    for entry in listed:
        package, _, kind = str(entry.get("type", "")).rpartition(".")
        kind = kind if package.partition(".")[0] == _LIBRARY else ""  # not code of the folder's own
        place = entry.get("path", "")
        if not isinstance(place, str) or (place and not safe_paths.is_plain_name(place)):
            raise errors.WeightsError(f"{path}, path", "a folder next to it", repr(place))
        if kind not in _ORDER or kind in folders:
            raise errors.WeightsError(
                f"{path}, module {entry.get('idx', len(folders))}",
                f"{', '.join(_ORDER)}, each once",
                repr(entry.get("type")),
                "Its vectors would not be those of the model. Take another sentence encoder.",
            )
        folders[kind] = folder / place
    if tuple(folders) != tuple(kind for kind in _ORDER if kind in folders) or len(folders) < 2:
        raise errors.WeightsError(
            str(path), " then ".join(_ORDER), " then ".join(folders) or "none"
        )
    if "Pooling" not in folders or "Transformer" not in folders:
        raise errors.WeightsError(str(path), "Transformer then Pooling", " then ".join(folders))
    head = models.Head("embedding", pooling=_pooling(folders["Pooling"]))
    tensors: dict[str, np.ndarray] = {}
    if "Dense" in folders:
        projection, tensors = _dense(folders["Dense"])
        width = len(tensors["vector_dense.weight"])
        head = dataclasses.replace(head, projection=projection, num_labels=width)
    head = dataclasses.replace(head, normalize="Normalize" in folders)
    if "Normalize" in folders:
        _settings(folders["Normalize"] / checkpoint.CONFIG_FILE, "Normalize")
    prompt = _read_library(folder / checkpoint.LIBRARY_FILE, normalized=head.normalize)
    if prompt:
        path = folders["Pooling"] / checkpoint.CONFIG_FILE
        if not checkpoint.read_json(path, required=True).get("include_prompt", True):
            raise errors.WeightsError(
                f"{path}, include_prompt", "true: a mean over the prompt too", "false"
            )
    paths = [folders["Transformer"] / name for name in _SETTINGS_FILES]
    told = [path for path in paths if checkpoint.read_json(path, required=False)]
    path = (told or paths)[0]
    settings = _settings(path, "Transformer")
    limit = settings.get("max_seq_length")
    if limit is not None and (type(limit) is not int or limit < 1):
        raise errors.WeightsError(f"{path}, max_seq_length", "a number of tokens", repr(limit)[:80])
    lower_case = settings.get("do_lower_case") or False
    if not isinstance(lower_case, bool):
        raise errors.WeightsError(f"{path}, do_lower_case", "true or false", repr(lower_case)[:80])
    return SentenceModules(folders["Transformer"], head, tensors, lower_case, limit, prompt)


def _pooling(folder: pathlib.Path) -> str:
    settings = _settings(folder / checkpoint.CONFIG_FILE, "Pooling", required=True)
    chosen = [key for key, value in settings.items() if key.startswith("pooling_mode_") and value]
    named = settings.get("pooling_mode")  # of later versions, which name it, or several
    if named:
        modes = named if isinstance(named, list) else [named]
        chosen = [_MODES.get(str(mode), str(mode)) for mode in modes]
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
    settings = _settings(folder / checkpoint.CONFIG_FILE, "Dense", required=True)
    activations = {path: name for name, path in _ACTIVATIONS.items()}
    activation = settings.get("activation_function", _ACTIVATIONS["tanh"])
    if not isinstance(activation, str) or activation not in activations:
        raise errors.WeightsError(
            f"{folder / checkpoint.CONFIG_FILE}, activation_function",
            f"one of {', '.join(activations)}",
            repr(activation),
        )
    tensors, _, _ = checkpoint.read_parts(folder)
    kernel = tensors.get("linear.weight")
    if kernel is None or kernel.ndim != 2 or not set(tensors) <= set(_KEYS):
        raise errors.WeightsError(
            f"tensors of {folder}", " and ".join(_KEYS), ", ".join(sorted(tensors)) or "none"
        )
    tensors.setdefault("linear.bias", np.zeros(len(kernel), np.float32))
    return activations[activation], {_KEYS[key]: value for key, value in tensors.items()}


def _settings(path: pathlib.Path, kind: str, *, required: bool = False) -> dict[str, Any]:
    """Reads the settings of a module; one that nobody here reads is refused by name."""
    settings, allowed = checkpoint.read_json(path, required=required), _ALLOWED[kind]
    faults = []
    for key, value in settings.items():
        if value in (None, False, "", {}, []) or key.startswith("pooling_mode_"):
            continue
        if key not in allowed:
            remedy = "Remove it if the vectors are the same without it."
            expected = "a setting that tfdistill reads"
            faults.append(errors.explain(f"{path}, {key}", expected, repr(value)[:80], remedy))
        elif allowed[key] not in (None, value):
            faults.append(errors.explain(f"{path}, {key}", repr(allowed[key]), repr(value)[:80]))
    if faults:
        raise errors.WeightsError("\n".join(faults))
    return settings


def _read_library(path: pathlib.Path, *, normalized: bool) -> str:
    """Returns the default prompt; refuses shortened vectors, and another similarity than cosine."""
    settings = _settings(path, "library")
    named, prompts = settings.get("default_prompt_name"), settings.get("prompts") or {}
    if not isinstance(prompts, dict) or not all(isinstance(p, str) for p in prompts.values()):
        raise errors.WeightsError(f"{path}, prompts", "texts by their names", repr(prompts)[:80])
    if named is not None and (not isinstance(named, str) or named not in prompts):
        raise errors.WeightsError(
            f"{path}, default_prompt_name",
            f"one of {', '.join(prompts) or 'the names in prompts, where there are none'}",
            repr(named)[:80],
        )
    if (width := settings.get("truncate_dim")) is not None:
        raise errors.WeightsError(
            f"{path}, truncate_dim",
            "none",
            repr(width)[:80],
            "Cut and normalise the vectors, and remove the setting from a copy of the folder.",
        )
    similarity = settings.get("similarity_fn_name")
    if similarity not in (None, "cosine") and not (normalized and similarity == "dot"):
        raise errors.WeightsError(
            f"{path}, similarity_fn_name",
            "'cosine' (or 'dot' of normalised vectors)",
            repr(similarity)[:80],
            "Vectors are compared by their cosine here. Remove the setting if that is what you "
            "want.",
        )
    return "" if named is None else prompts[named]


def write_modules(model: keras.Model, folder: pathlib.Path, max_length: int) -> None:
    """Writes what follows the encoder of an embedding model, next to its files."""
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
    write_json(folder / MODULES_FILE, modules)
    limits = {"max_seq_length": max_length, "do_lower_case": False}
    write_json(folder / _SETTINGS_FILES[0], limits)


def write_prompt(prompt: str, folder: pathlib.Path) -> None:
    """Writes what stands in front of every text, next to the modules; nothing of no prompt."""
    if prompt:
        settings = {"prompts": {_PROMPT_NAME: prompt}, "default_prompt_name": _PROMPT_NAME}
        write_json(folder / checkpoint.LIBRARY_FILE, settings)


def _write(folder: pathlib.Path, settings: Mapping[str, Any]) -> None:
    folder.mkdir()
    write_json(folder / checkpoint.CONFIG_FILE, settings)


def write_json(path: pathlib.Path, value: Any) -> None:
    """Writes JSON that other libraries read: without a checksum of ours."""
    files.atomic_write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")
