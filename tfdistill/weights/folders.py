"""Folders that hold no checkpoint of ours, and how they become one."""

from __future__ import annotations

import fnmatch
import pathlib

DESCRIPTION = "classifier.json"
"""The file that describes a saved BiLSTM or static student."""
_CLASS = "AutoModelForSequenceClassification"
ADAPTER_FILE = "adapter_config.json"
_LFS = b"version https://git-lfs"


def adapter(folder: pathlib.Path) -> tuple[str, str] | None:
    """The fault of a folder that holds an adapter, and the remedy; None with others.

    Beside whole weights, too: transformers applies it to them where peft is installed.
    """
    if not any(folder.glob("adapter_model.*")) and not (folder / ADAPTER_FILE).is_file():
        return None
    return (
        "an adapter (LoRA or alike): changes to the weights of another model",
        f"Merge it with peft: AutoPeftModelFor{_CLASS.removeprefix('AutoModelFor')}"
        ".from_pretrained(folder).merge_and_unload().save_pretrained(merged).",
    )


def other_format(folder: pathlib.Path) -> tuple[str, str] | None:
    """Names the format of a folder without model.safetensors or config.json."""
    if fault := adapter(folder):
        return fault
    for pattern, received, remedy in _FORMATS:
        if any(folder.glob(pattern)):
            return received, remedy
    return None


def format_of_file(name: str) -> tuple[str, str] | None:
    """Names the format of a file that stands in the place of a folder, by its name."""
    for pattern, received, remedy in (*_FORMATS, *_SINGLE_FILES):
        if fnmatch.fnmatchcase(name.lower(), pattern):
            return received, remedy
    return None


def is_lfs_pointer(path: pathlib.Path) -> bool:
    """Checks whether a file is the pointer that git leaves for a large file it did not fetch."""
    with path.open("rb") as file:
        return file.read(len(_LFS)) == _LFS


def _conversion(package: str, name: str) -> str:
    return (
        f"Convert it where {package} is installed, with the class of its head: "
        f"{name}.from_pretrained(folder).save_pretrained(folder, safe_serialization=True)."
    )


_ORIGINAL = "Take the checkpoint that it was made from (config.json and model.safetensors)."
_SAVE = "Load it in Python and save it with tfdistill.weights.save_hf."
_GARDEN = (
    "tfdistill.weights.load_garden reads those of the Model Garden, save_hf writes the folder; "
    "transformers 4 converts BERT's first ones (convert_bert_original_tf_checkpoint_to_pytorch)."
)
_FORMATS = (
    (
        "pytorch_model*.bin*",
        "only pytorch_model.bin, which can run code when it is opened",
        _conversion("PyTorch", _CLASS),
    ),
    ("tf_model*.h5*", "only tf_model.h5", _conversion("transformers 4", f"TF{_CLASS}")),
    (
        "flax_model*.msgpack*",
        "only flax_model.msgpack",
        _conversion("transformers 4 with Flax", f"Flax{_CLASS}"),
    ),
    ("*.gguf", "a GGUF file, whose weights are for llama.cpp", _ORIGINAL),
    ("*.onnx", "an ONNX file, a graph without names of layers", _ORIGINAL),
    ("onnx/*.onnx", "an ONNX file, a graph without names of layers", _ORIGINAL),
    ("*.tflite", "a TFLite file: the result of an export", _ORIGINAL),
    ("saved_model.pb", "a SavedModel, a graph without names of layers", _ORIGINAL),
    ("*.ckpt*.index", "a checkpoint of TensorFlow 1 or the Model Garden", _GARDEN),
    ("ckpt-*.index", "a checkpoint of TensorFlow 1 or the Model Garden", _GARDEN),
    ("*.keras", "a model of Keras, without a config.json of Hugging Face", _SAVE),
    ("*.weights.h5", "weights of Keras, without a config.json of Hugging Face", _SAVE),
    ("*.h5", "a model of Keras, without a config.json of Hugging Face", _SAVE),
)
_PYTORCH = "weights of PyTorch, which can run code when they are opened"
_SINGLE_FILES = (
    *((f"*.{end}", _PYTORCH, _conversion("PyTorch", _CLASS)) for end in ("bin", "pt", "pth")),
    ("*.ckpt", "a checkpoint of TensorFlow 1 or of PyTorch Lightning", _GARDEN),
    ("*.safetensors", "one file of a checkpoint", "Name the folder that holds it."),
)
