"""Finds and opens a Hugging Face checkpoint: a folder, or a hub id that becomes one."""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import safetensors

from tfdistill import errors
from tfdistill.io import contents, files, ledger, safe_paths
from tfdistill.tokenization import reading as tokenizer_reading
from tfdistill.tokenization.tokenizer import Tokenizer
from tfdistill.tokenization.wordpiece import VOCAB_FILE
from tfdistill.weights import filling, folders, hf_config, keys, roberta_names

WEIGHTS_FILE = "model.safetensors"
CONFIG_FILE = "config.json"
LIBRARY_FILE = "config_sentence_transformers.json"  # of sentence-transformers
INDEX_FILE = f"{WEIGHTS_FILE}.index.json"  # of a checkpoint in several parts
_PARTS = "model-*.safetensors"
_OF_MODULE = ("*.json", "model*.safetensors", VOCAB_FILE)
# Those of a sentence encoder: its modules, each in a folder such as 1_Pooling.
SENTENCE_FILES = ("modules.json", "*sentence*.json", *(f"[0-9]_*/{name}" for name in _OF_MODULE))
_FLOATS = ("F16", "BF16", "F32", "F64")
_INTEGERS = ("BOOL", "I16", "U16", "I32", "U32", "I64", "U64")  # of buffers, never of weights
_QUANTIZERS = {  # what they call their tensors
    "bitsandbytes": (".SCB", ".absmax", ".quant_map", ".weight_format"),
    "GPTQ or AWQ": (".qweight", ".qzeros"),
}
HUB_ID = re.compile(
    r"(?P<name>[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?)(@(?P<revision>[A-Za-z0-9][\w./-]*))?"
)


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """The files of a checkpoint, read but not yet fitted to a model.

    Attributes:
      folder: Its folder.
      raw_config: The content of config.json.
      tensors: Canonical key -> array in PyTorch's layout; ignored ones left out.
      ignored: Keys that hold nothing for us, and prefixes and rows that were left out.
      tokenizer: Its tokenizer, or None if there is neither vocab.txt nor tokenizer.json.
      layout: What wrote the tensors: "pt" or "tf".
      max_length: The most tokens of an example that its tokenizer allows, or None.
      types_pairs: Whether its tokenizer gives the second text of a pair token type 1.
      shapes_only: Whether the tensors were left unread.
    """

    folder: pathlib.Path
    raw_config: dict[str, Any]
    tensors: dict[str, np.ndarray]
    ignored: tuple[str, ...]
    tokenizer: Tokenizer | None
    layout: str
    max_length: int | None = None
    types_pairs: bool = True
    shapes_only: bool = False

    @property
    def is_tinybert(self) -> bool:
        """Whether it carries TinyBERT's projections, so that its head is TinyBERT's."""
        return any(keys.TINYBERT_MARK.fullmatch(key) for key in self.ignored)


def open_checkpoint(source: files.Path, *, shapes_only: bool = False) -> Checkpoint:
    """Reads a checkpoint.

    Args:
      source: A folder with config.json and model.safetensors, or model.safetensors.index.json and
        the parts that it names (and the files of its tokenizer if it has them), or the id of one
        on the Hugging Face hub, of which only these files are fetched: `org/name`, or
        `org/name@revision` with a branch, tag or commit.
      shapes_only: Whether the tensors are left unread: zeros of their shapes, to see what fits.

    Returns:
      Its content.

    Raises:
      WeightsError: If it cannot be found or fetched, is of an architecture that we do not have, a
        file is missing or corrupt, a tensor holds NaN, infinity or no floats, or its tokenizer
        splits text in a way that ours does not.
    """
    folder, raw_config = read_kind(checkpoint_folder(source))
    if adapter := folders.adapter(folder):
        raise errors.WeightsError(f"checkpoint {folder}", "whole weights", *adapter)
    read = tokenizer_reading.read_folder(folder)
    tensors, ignored, layout = read_parts(folder, shapes_only=shapes_only)
    if raw_config["model_type"] == "xlm-roberta":
        pad_id = None if read.tokenizer is None else read.tokenizer.pad_id
        raw_config, tensors, more = roberta_names.as_bert(
            raw_config, tensors, what=str(folder), pad_id=pad_id
        )
        ignored += more
    if read.tokenizer is not None and read.tokenizer.names_all_rows:
        raw_config, more = _named_rows(raw_config, tensors, read.tokenizer)
        ignored += more
    return Checkpoint(
        folder=folder,
        raw_config=raw_config,
        tensors=tensors,
        ignored=ignored,
        tokenizer=read.tokenizer,
        layout=layout,
        max_length=read.max_length,
        types_pairs=read.types_pairs,
        shapes_only=shapes_only,
    )


def _named_rows(
    raw_config: dict[str, Any], tensors: dict[str, np.ndarray], tokenizer: Tokenizer
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Takes the rows out of the tensors that no token names; returns config.json and these rows."""
    size, rows = tokenizer.vocab_size, raw_config.get("vocab_size", 0)
    dropped = []
    for key in keys.OF_WORDS:
        tensor = tensors.get(key)
        if tensor is not None and tensor.ndim and len(tensor) == rows and rows > size:
            tensors[key] = tensor[:size]
            dropped.append(f"rows {size} to {rows - 1} of {key}")
    sizes = {"vocab_size": size} if dropped else {}
    return {**raw_config, **sizes, "pad_token_id": tokenizer.pad_id}, tuple(dropped)


def read_kind(
    folder: pathlib.Path, also: Collection[str] = ()
) -> tuple[pathlib.Path, dict[str, Any]]:
    """The folder with the encoder of a checkpoint, and its config.json, of a kind that we have."""
    if not (folder / CONFIG_FILE).is_file():
        inner = sorted(folder.glob(f"0_*/{CONFIG_FILE}"))  # the encoder of a sentence encoder
        folder = inner[0].parent if len(inner) == 1 else folder
    raw_config = read_json(folder / CONFIG_FILE, required=True)
    hf_config.check_kind(raw_config, what=f"{folder / CONFIG_FILE}, model_type", also=also)
    return folder, raw_config


def existing_tokenizer(tokenizer: Tokenizer | None, name: object) -> Tokenizer:
    """Returns the tokenizer of a checkpoint that has one.

    Args:
      tokenizer: The tokenizer, or None.
      name: What messages call the checkpoint.

    Raises:
      WeightsError: If there is none.
    """
    if tokenizer is None:
        raise errors.WeightsError(
            f"tokenizer of {name}",
            f"{tokenizer_reading.JSON_FILE} or {VOCAB_FILE} next to the weights",
            "neither",
            "Copy the file from where the weights came from.",
        )
    return tokenizer


def checkpoint_folder(source: files.Path, more: Sequence[str] = ()) -> pathlib.Path:
    """Finds the folder of a checkpoint; one on the hub is fetched, one of a run is verified."""
    path = pathlib.Path(source).expanduser()
    if path.is_dir():
        ledger.check_folder(path)
        return path
    if path.exists():
        _, remedy = folders.format_of_file(path.name) or ("", "Name the folder that holds it.")
        raise errors.WeightsError("checkpoint", "a folder or a hub id", f"the file {path}", remedy)
    named = HUB_ID.fullmatch(source) if isinstance(source, str) else None
    if named is None:
        raise errors.WeightsError("checkpoint", "an existing folder or a hub id", repr(str(source)))
    import huggingface_hub

    wanted = [CONFIG_FILE, LIBRARY_FILE, WEIGHTS_FILE, INDEX_FILE, _PARTS, *tokenizer_reading.FILES]
    more = (*more, folders.ADAPTER_FILE)
    try:
        patterns = [*wanted, *more]
        return pathlib.Path(
            huggingface_hub.snapshot_download(
                named["name"], revision=named["revision"], allow_patterns=patterns
            )
        )
    except (OSError, ValueError) as error:  # every error of the hub, of the network and offline
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise errors.WeightsError(
            f"checkpoint {source!r}",
            "a folder here or a model on the Hugging Face hub",
            f"no folder here, and from the hub {type(error).__name__}: {reason.rstrip('.')}",
            f"Without a network, copy {', '.join(wanted)} into a folder and give its path.",
        ) from error


def hub_commit(source: files.Path) -> str | None:
    """The commit of the hub's model that was loaded from its cache; None of a folder.

    Args:
      source: What `open_checkpoint` takes.
    """
    if pathlib.Path(source).expanduser().is_dir() or not HUB_ID.fullmatch(str(source)):
        return None
    folder = checkpoint_folder(source)
    return folder.name if folder.parent.name == "snapshots" else None


def read_json(path: pathlib.Path, *, required: bool) -> dict[str, Any]:
    """Reads a file of a checkpoint that holds a JSON object; {} where it may be absent."""
    if required and not path.is_file():
        raise _missing(path, _checkpoint_below(path.parent))
    return tokenizer_reading.read_settings(path)


def read_parts(
    folder: pathlib.Path, *, shapes_only: bool = False
) -> tuple[dict[str, np.ndarray], tuple[str, ...], str]:
    """Reads model.safetensors, or the parts that the index names.

    The prefix of a wrapper, such as ``_orig_mod.`` of torch.compile, falls away.
    """
    whole, index = folder / WEIGHTS_FILE, folder / INDEX_FILE
    if whole.is_file() or not index.is_file():
        tensors, layout = read_tensors(whole, shapes_only=shapes_only)
        return _canonical(tensors, layout, whole)
    places = read_json(index, required=True).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise errors.WeightsError(f"{index}, weight_map", "a file name for each tensor", "none")
    names = list(dict.fromkeys(map(str, places.values())))
    for name in names:
        if not safe_paths.is_plain_name(name) or not name.endswith(".safetensors"):
            raise errors.WeightsError(
                f"{index}, weight_map", "names of .safetensors files next to it", repr(name)
            )
    tensors: dict[str, np.ndarray | None] = {}
    layout = "pt"
    for name in sorted(names):
        part = folder / name  # a plain name; in the cache of the hub a link to its blobs
        expected = {key for key, place in places.items() if place == name}
        more, layout = read_tensors(part, expected, shapes_only=shapes_only)
        tensors |= more  # no key is in two: the index has one place for each
    return _canonical(tensors, layout, index)


def read_tensors(
    path: pathlib.Path, expected: set[str] | None = None, *, shapes_only: bool = False
) -> tuple[dict[str, np.ndarray | None], str]:
    """Reads a file of tensors as they are called there; integers, which no weight is, as None."""
    if not path.is_file():
        raise _missing(path, "Fetch it from where the other files came from.")
    tensors: dict[str, np.ndarray | None] = {}
    try:
        layout, held = _header(path)
        if expected is not None and set(held) != expected:
            differing = filling.shortened(sorted(set(held) ^ expected))
            raise errors.WeightsError(
                str(path), "the tensors that the index names", f"a difference in {differing}"
            )
        if not held:
            raise errors.WeightsError(
                str(path), "tensors", "a file without any", "Fetch it again, or save it again."
            )
        for key, (kind, shape) in held.items():
            if kind in _INTEGERS or keys.is_ignored(key, layout):
                tensors[key] = None
            elif kind not in _FLOATS:
                raise errors.WeightsError(
                    f"{path}, {key}",
                    f"one of {', '.join(_FLOATS)}",
                    f"{kind}{_quantizer([*held])}",
                    hf_config.QUANTIZED,
                )
            else:
                tensors[key] = np.broadcast_to(np.float32(0), shape)
        if not shapes_only:
            with safetensors.safe_open(path, framework="numpy") as file:
                for key in (key for key, tensor in tensors.items() if tensor is not None):
                    with np.errstate(over="ignore"):  # infinity is refused by its key
                        tensors[key] = np.asarray(file.get_tensor(key), np.float32)
    except (safetensors.SafetensorError, OSError) as error:
        received, remedy = f"{error}", "It is corrupt; fetch it again."
        if folders.is_lfs_pointer(path):
            received = "a pointer of Git LFS to it"
            remedy = "Fetch the file itself: `git lfs pull` in its repository."
        raise errors.WeightsError(
            str(path), "a whole safetensors file", received, remedy
        ) from error
    return tensors, layout


@contents.once(max_files=32)
def _header(path: files.Path) -> tuple[str, dict[str, tuple[str, list[int]]]]:
    """What wrote the tensors of a file, and name -> type and shape."""
    with safetensors.safe_open(path, framework="numpy") as file:
        slices = {key: file.get_slice(key) for key in [*file.keys()]}
        held = {key: (part.get_dtype(), part.get_shape()) for key, part in slices.items()}
        return (file.metadata() or {}).get("format", "pt"), held


def _canonical(
    tensors: dict[str, np.ndarray | None], layout: str, path: pathlib.Path
) -> tuple[dict[str, np.ndarray], tuple[str, ...], str]:
    """Brings the keys of a checkpoint into one spelling; see `read_parts`."""
    wrapper = keys.wrapper_of(tensors, layout, what=str(path))
    arrays: dict[str, np.ndarray] = {}
    ignored = []
    for key, tensor in tensors.items():
        key = key.replace(keys.COMPILED, "").removeprefix(wrapper)
        canonical, transposed = keys.canonical_key(key, layout)
        if tensor is None or keys.IGNORED.fullmatch(canonical):
            ignored.append(canonical)
            continue
        if canonical in arrays:
            raise errors.WeightsError(str(path), f"one tensor for {canonical}", "two")
        arrays[canonical] = tensor.T if transposed else tensor
    broken = [key for key, tensor in arrays.items() if not np.isfinite(tensor).all()]
    if broken:
        raise errors.WeightsError(
            str(path), "finite weights", f"NaN or infinity in {filling.shortened(sorted(broken))}"
        )
    prefixes = [f"prefix {wrapper}"] if wrapper else []
    if any(keys.COMPILED in key for key in tensors):
        prefixes.append(f"prefix {keys.COMPILED}")
    return arrays, tuple(sorted([*ignored, *prefixes])), layout


def _quantizer(held: Sequence[str]) -> str:
    for name, endings in _QUANTIZERS.items():
        if any(key.endswith(endings) for key in held):
            return f", by {name}"
    return ""


def _checkpoint_below(folder: pathlib.Path) -> str:
    """Names a checkpoint inside a folder that is none itself: a run, a cache of the hub."""
    for depth in ("*", "*/*", "*/*/*"):
        for config in sorted(folder.glob(f"{depth}/{CONFIG_FILE}")):
            if (config.parent / WEIGHTS_FILE).is_file():
                return f"Did you mean {config.parent}?"
    return "Name the folder that contains the files of the checkpoint."


def _missing(path: pathlib.Path, remedy: str) -> errors.WeightsError:
    fault = folders.other_format(path.parent) or ("no such file", remedy)
    return errors.WeightsError("checkpoint", f"{path.name} in {path.parent}", *fault)
