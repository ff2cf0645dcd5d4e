"""Vectors of sentence encoders in PyTorch, for `answers_from_transformers.py --kind embedding`.

The encoder may be of any architecture; what follows it is read from the folder, as
sentence-transformers writes it, and computed here. That package is not needed.
"""

from __future__ import annotations

import importlib
import json
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

# Of Pooling: key of its config.json in earlier versions -> name in later ones.
POOLINGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
}
ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "Identity": lambda values: values,
    "Tanh": np.tanh,
}
MODULES = "modules.json"
DEFAULT_LENGTH = 256
_WITHOUT = ("onnx/*", "openvino/*", "*.h5", "*.msgpack")  # what PyTorch does not read
_LEAST = 1e-12
_NO_LENGTH = 1e6  # from here on a length means that none is known
_ENCODERS = {"t5": "T5EncoderModel", "mt5": "MT5EncoderModel"}  # of models that also decode


class Dense(NamedTuple):
    """A projection, ``f(x W^T + b)``.

    Attributes:
      kernel: W, float32 (width, width before).
      bias: b, float32 (width,).
      activation: f, of `ACTIVATIONS`.
    """

    kernel: np.ndarray
    bias: np.ndarray
    activation: str


class Modules(NamedTuple):
    """What a folder says of its sentence encoder.

    Attributes:
      transformer: The folder of the encoder.
      poolings: Of `POOLINGS`; several are put behind each other.
      projections: What follows them.
      normalize: Whether vectors are scaled to length 1.
      max_length: The most tokens of a text.
      lower_case: Whether texts are lower-cased first.
      prompt: What is put in front of every text.
    """

    transformer: pathlib.Path
    poolings: tuple[str, ...]
    projections: tuple[Dense, ...]
    normalize: bool
    max_length: int
    lower_case: bool
    prompt: str


def find_folder(model: str) -> pathlib.Path:
    """The folder of a model; one on the hub is fetched."""
    if pathlib.Path(model).is_dir():
        return pathlib.Path(model)
    hub = importlib.import_module("huggingface_hub")
    return pathlib.Path(hub.snapshot_download(model, ignore_patterns=list(_WITHOUT)))


def read_modules(folder: pathlib.Path, prompt: str | None = None) -> Modules:
    """Reads what a folder of sentence-transformers says.

    Args:
      folder: The folder of modules.json.
      prompt: Replaces the prompt that the folder names.

    Returns:
      The modules.

    Raises:
      SystemExit: If one is missing, or would give other vectors than are computed here.
    """
    listed = _read(folder / MODULES)
    folders: dict[str, pathlib.Path] = {}
    dense: list[Dense] = []
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        sys.exit(f"{folder / MODULES}: expected a list of modules, received {listed!r}.")
    for entry in listed:
        kind, place = str(entry.get("type")).rpartition(".")[2], folder / str(entry.get("path", ""))
        if not place.resolve().is_relative_to(folder.resolve()):
            sys.exit(f"{folder / MODULES}: expected folders in it, received {entry['path']!r}.")
        order = ["Transformer", "Pooling", "Dense", "Normalize"]
        in_order = kind in order and all(order.index(kind) >= order.index(name) for name in folders)
        if not in_order or (kind in folders and kind != "Dense"):
            sys.exit(
                f"{folder / MODULES}: expected Transformer, Pooling, perhaps Dense, perhaps "
                f"Normalize, received {entry.get('type')!r}."
            )
        folders[kind] = place
        if kind == "Dense":
            dense.append(_read_dense(place))
    if not {"Transformer", "Pooling"} <= folders.keys():
        sys.exit(f"{folder / MODULES}: expected Transformer and Pooling, received {list(folders)}.")
    pooling = _read(folders["Pooling"] / "config.json")
    named = _read(folder / "config_sentence_transformers.json", required=False)
    if prompt is None:
        prompts: dict[str, str] = named.get("prompts") or {}
        prompt = prompts.get(named.get("default_prompt_name", ""), "")
    if prompt and not pooling.get("include_prompt", True):
        sys.exit(f"{folders['Pooling']}: expected include_prompt, received a pooling without it.")
    settings = _read(folders["Transformer"] / "sentence_bert_config.json", required=False)
    longest = settings.get("max_seq_length")
    if longest is None:
        tokenizer = _read(folders["Transformer"] / "tokenizer_config.json", required=False)
        longest = tokenizer.get("model_max_length")
    return Modules(
        folders["Transformer"],
        _poolings(folders["Pooling"], pooling),
        tuple(dense),
        "Normalize" in folders,
        longest if longest is not None and longest < _NO_LENGTH else DEFAULT_LENGTH,
        settings.get("do_lower_case") is True,
        prompt,
    )


def _poolings(folder: pathlib.Path, settings: dict[str, Any]) -> tuple[str, ...]:
    named = settings.get("pooling_mode")
    if named is None:
        chosen = {
            key for key, value in settings.items() if key.startswith("pooling_mode_") and value
        }
        named = [POOLINGS[key] for key in POOLINGS if key in chosen]  # in this order
        named += sorted(chosen - POOLINGS.keys())
    named = [named] if isinstance(named, str) else list(named)
    if not named or not set(named) <= set(POOLINGS.values()):
        sys.exit(f"{folder}: expected a pooling of {[*POOLINGS.values()]}, received {named}.")
    return tuple(named)


def _read_dense(folder: pathlib.Path) -> Dense:
    settings = _read(folder / "config.json")
    activation = str(settings.get("activation_function", "Tanh")).rpartition(".")[2]
    path = folder / "model.safetensors"
    if path.is_file():
        tensors = importlib.import_module("safetensors.numpy").load_file(path)
    else:
        loaded = importlib.import_module("torch").load(
            folder / "pytorch_model.bin", map_location="cpu", weights_only=True
        )
        tensors = {name: tensor.float().numpy() for name, tensor in loaded.items()}
    kernel = tensors.pop("linear.weight", None)
    bias = tensors.pop("linear.bias", None)
    if kernel is None or tensors or activation not in ACTIVATIONS:
        sys.exit(
            f"{folder}: expected linear.weight and linear.bias with an activation of "
            f"{[*ACTIVATIONS]}, received {activation} and {[*tensors] or 'no weight'}."
        )
    bias = np.zeros(len(kernel), np.float32) if bias is None else bias
    return Dense(kernel.astype(np.float32), bias.astype(np.float32), activation)


def _read(path: pathlib.Path, *, required: bool = True) -> Any:
    if not path.is_file() and not required:
        return {}
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as fault:
        sys.exit(f"{path}: expected the JSON of a sentence encoder, received {fault}.")


def vectors_of(states: np.ndarray, mask: np.ndarray, modules: Modules) -> np.ndarray:
    """Pools, projects and scales states.

    With h_l the states and m the mask: ``sum_l m_l h_l / sum_l m_l`` ("mean"), ``max over l with
    m_l = 1 of h_l`` ("max"), the state of the first token ("cls"); then each projection; then
    ``x / |x|``.

    Args:
      states: float32 (n, tokens, width).
      mask: (n, tokens), 1 where a token is no padding.
      modules: What the folder says.

    Returns:
      float32 (n, width of the last module).
    """
    real = mask.astype(bool)[:, :, None]  # (n, tokens, 1)
    pooled = {
        "cls": lambda: states[np.arange(len(states)), real[:, :, 0].argmax(axis=1)],
        "max": lambda: np.where(real, states, -np.inf).max(axis=1),
        "mean": lambda: (states * real).sum(axis=1) / np.maximum(real.sum(axis=1), 1),
    }
    vectors = np.concatenate([pooled[name]() for name in modules.poolings], axis=1)
    for layer in modules.projections:
        vectors = ACTIVATIONS[layer.activation](vectors @ layer.kernel.T + layer.bias)
    if modules.normalize:
        vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), _LEAST)
    return vectors.astype(np.float32)


def load_predict(
    modules: Modules, device: str | None, max_length: int
) -> Callable[[Sequence[Sequence[str]]], list[dict[str, Any]]]:
    """Loads encoder and tokenizer; see `answers_from_transformers.load_predict`.

    Args:
      modules: What the folder says.
      device: Of PyTorch; None: cuda if there is one.
      max_length: The most tokens of a text.
    """
    torch, transformers = importlib.import_module("torch"), importlib.import_module("transformers")
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(modules.transformer))
    kind = _read(modules.transformer / "config.json").get("model_type")
    model = getattr(transformers, _ENCODERS.get(kind, "AutoModel"))
    model = model.from_pretrained(str(modules.transformer)).to(device).eval()

    def predict(rows: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        texts = [modules.prompt + text.strip() for (text,) in rows]
        if modules.lower_case:
            texts = [text.lower() for text in texts]
        inputs = tokenizer(
            texts, truncation=True, max_length=max_length, padding=True, return_tensors="pt"
        ).to(device)
        with torch.inference_mode():
            states = model(**inputs).last_hidden_state.float().cpu().numpy()
        text_vectors = vectors_of(states, inputs["attention_mask"].cpu().numpy(), modules)
        # Nine digits give back the same float32.
        return [
            {"vector": [float(f"{value:.9g}") for value in row]} for row in text_vectors.tolist()
        ]

    return predict
