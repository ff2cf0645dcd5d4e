"""The faults of the outputs beside the TFLite file, by name, for a BERT with three classes.

Each is in the function that writes the output. Those of the Hugging Face folder: `planted_folder`.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any
from unittest import mock

import keras as keras3
import numpy as np
import planted_files
import planted_folder
import tensorflow as tf
from replaced import Replaced

from export.file import metadata
from export.model import graph
from export.targets import android_bundle, saved_model, text_graph
from export.targets import keras3 as bridge
from tfdistill.tflite import editing

LABELS = ("no", "yes", "maybe")


def _lines_exchanged(content: bytes, first: int, second: int) -> bytes:
    lines = content.splitlines(keepends=True)
    lines[first], lines[second] = lines[second], lines[first]
    return b"".join(lines)


def _argument(position: int, change: Callable[[Any], Any]) -> Callable[..., None]:
    """Saves another argument: 1 the model, 2 the tokenizer, 3 the answers, 4 the length."""

    def save_changed(save: Any, *arguments: Any) -> None:
        changed = list(arguments)
        changed[position] = change(changed[position])
        save(*changed)

    return save_changed


def _other_vocabulary(save: Any, *arguments: Any) -> None:
    ids = [*range(150), 151, 150, *range(152, arguments[2].vocab_size)]
    _argument(2, lambda tokenizer: tokenizer.subset(ids))(save, *arguments)


def _outputs(change: Callable[[Any, Any], dict[str, Any]]) -> Callable[..., None]:
    """Saves outputs that are made of the right ones and of the logits."""
    return _argument(
        3, lambda answer: lambda logits: {**answer(logits), **change(answer(logits), logits)}
    )


def _other_features(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[..., Any]:
    def encode_changed(encode: Any, *arguments: Any) -> dict[str, Any]:
        features = encode(*arguments)
        return {**features, **change(features)}

    return encode_changed


def _signatures(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[..., None]:
    def save_changed(save: Any, module: Any, folder: str, signatures: dict[str, Any]) -> None:
        save(module, folder, signatures=change(signatures))

    return save_changed


SAVED_MODEL: dict[str, Replaced] = {
    "ids": Replaced(
        text_graph,
        "encode",
        _other_features(
            lambda features: {
                "input_ids": tf.where(features["input_ids"] == 1, 2, features["input_ids"])
            }
        ),
    ),
    "padding attended to": Replaced(
        text_graph,
        "encode",
        _other_features(
            lambda features: {"attention_mask": tf.ones_like(features["attention_mask"])}
        ),
    ),
    "lower-casing": Replaced(
        saved_model,
        "_save",
        _argument(2, lambda tokenizer: tokenizer.replace(lower_case=False)),
    ),
    "lines of the vocabulary exchanged": Replaced(
        saved_model, "_save", _other_vocabulary, "vocabulary in the graph"
    ),
    "max_length one shorter": Replaced(saved_model, "_save", _argument(4, lambda n: n - 1)),
    "max_length one longer": Replaced(saved_model, "_save", _argument(4, lambda n: n + 1)),
    "labels exchanged": Replaced(
        saved_model,
        "_answer",
        lambda answer, names, **options: answer(names[::-1], **options),
    ),
    "outputs exchanged": Replaced(
        saved_model,
        "_save",
        _outputs(lambda outputs, _: {"scores": outputs["scores"][:, ::-1]}),
    ),
    "score of the least label": Replaced(
        saved_model,
        "_save",
        _outputs(lambda outputs, _: {"score": tf.reduce_min(outputs["scores"], -1)}),
    ),
    "logits as scores": Replaced(
        saved_model, "_save", _outputs(lambda _, logits: {"scores": logits})
    ),
    "default signature of pairs": Replaced(
        tf.saved_model,
        "save",
        _signatures(lambda saved: {**saved, "serving_default": saved["serving_text_pair"]}),
    ),
    "a signature lost": Replaced(
        tf.saved_model,
        "save",
        _signatures(lambda saved: {key: saved[key] for key in saved if key != "serving_text_pair"}),
    ),
}


def _translated(change: Callable[[Any], object], message: str) -> Replaced:
    """The translation is changed in place before it is saved."""

    def translate_changed(translate: Any, model: Any) -> Any:
        translated = translate(model)
        change(translated)
        return translated

    return Replaced(bridge, "translate", translate_changed, message)


def _numbers(layer: str, number: int, change: Callable[[np.ndarray], np.ndarray], message: str):
    """A tensor of a layer is changed."""

    def apply(translated: Any) -> None:
        weights = translated.get_layer(layer).get_weights()
        weights[number] = change(weights[number].copy())
        translated.get_layer(layer).set_weights(weights)

    return _translated(apply, message)


def _one_number(*place: int) -> Callable[[np.ndarray], np.ndarray]:
    def change(values: np.ndarray) -> np.ndarray:
        values[place] += 1e-3
        return values

    return change


def _exchange_layers(translated: Any) -> None:
    first, second = (translated.get_layer(f"layer_{number}_query") for number in (0, 1))
    values = first.get_weights()
    first.set_weights(second.get_weights())
    second.set_weights(values)


def _set_rates(translated: Any) -> None:
    for layer in translated.layers:
        if isinstance(layer, keras3.layers.Dropout):
            layer.rate = 0.5


def _layer(layer: str, attribute: str, value: Any, message: str) -> Replaced:
    return _translated(
        lambda translated: setattr(translated.get_layer(layer), attribute, value), message
    )


def _kind(kind: str, function: Callable[..., Any]) -> Replaced:
    """Layers of a kind are translated into another function."""

    def translate_otherwise(translate: Any, model: Any) -> Any:
        with mock.patch.dict(bridge._TRANSLATIONS, {kind: function}):
            return translate(model)

    return Replaced(
        bridge, "translate", translate_otherwise, "student.keras does not answer like the model"
    )


KERAS: dict[str, Replaced] = {
    "layers exchanged": _translated(_exchange_layers, "layer_0_query, tensor 0"),
    "matrix scaled": _numbers("layer_1_key", 0, lambda values: values * 1.001, "1_key"),
    "matrix zeroed": _numbers("pooler", 0, lambda values: values * 0, "pooler"),
    "bias dropped": _numbers("classifier", 1, lambda values: values * 0, "classifier"),
    "outputs exchanged": _numbers("classifier", 0, lambda values: values[:, ::-1], "classifier"),
    "one number of one word": _numbers(
        "word_embeddings", 0, _one_number(199, 31), "word_embeddings, tensor 0: .* 1 others"
    ),
    "last position": _numbers("position_embeddings", 0, _one_number(-1, 0), "position_embeddings"),
    "token types exchanged": _numbers(
        "token_type_embeddings", 0, lambda values: values[::-1], "token_type_embeddings"
    ),
    "scale of a normalisation": _numbers(
        "layer_1_layer_norm", 0, lambda values: values * 1.0001, "layer_1_layer_norm"
    ),
    "eps": _layer("embeddings_layer_norm", "epsilon", 1e-9, "embeddings_layer_norm, epsilon"),
    "rate of dropout": _translated(_set_rates, "rate"),
    "activation of a layer": _layer(
        "pooler", "activation", keras3.activations.relu, "pooler, activation"
    ),
    "no mask": _kind("AttentionProbabilities", lambda _, scores, mask: keras3.ops.softmax(scores)),
    "a weak mask": _kind("AttentionMask", lambda layer, mask: bridge._mask(layer, mask) * 1e-9),
    "GELU approximated": _kind(
        "Activation", lambda layer, states: keras3.ops.gelu(states, approximate=True)
    ),
    "second token for the first": _kind("FirstToken", lambda layer, states: states[:, 1]),
    "positions reversed": _kind(
        "PositionEmbedding",
        lambda layer, ids: bridge._positions(layer, ids[:, ::-1])[:, ::-1],
    ),
}


def _packed(change: Callable[[dict[str, bytes]], dict[str, bytes]], message: str) -> Replaced:
    """The files in the copy are others."""
    return Replaced(
        metadata,
        "_append",
        lambda append, path, contents: append(path, change(dict(contents))),
        message,
    )


def _file(name: str, change: Callable[[bytes], bytes], message: str) -> Replaced:
    return _packed(lambda contents: {**contents, name: change(contents[name])}, message)


def _rename_output(_: Any, model: Any, name: str, _temperature: float) -> None:
    (entry,) = model.signatureDefs
    entry.outputs[0].name = name


def _in_copy(fault: str) -> Replaced:
    """The copy of the file has one of the faults of a file."""

    def keep_changed(keep: Any, model: Any, key: str) -> None:
        keep(model, key)
        planted_files.FILE[fault](planted_files.File(model, np.random.default_rng(0)))

    return Replaced(editing, "keep_signature", keep_changed, "answers within")


_OTHER_TEMPERATURES: dict[str, Callable[[float], float]] = {
    "left out": lambda value: 1.0,
    "applied twice": lambda value: value**2,
    "inverted": lambda value: 1 / value,
}


def _divided(change: Callable[[float], float]) -> Replaced:
    """The logits of a file of probabilities are divided by another number."""
    return Replaced(
        graph,
        "at_temperature",
        lambda divide, model, value: divide(model, change(value)),
        "weight classifier/kernel",
    )


def _kernel_alone(divide: Any, model: Any, value: float) -> Any:
    copy = divide(model, value)
    _, bias = model.get_layer("classifier").get_weights()
    copy.get_layer("classifier").bias.assign(bias)
    return copy


PROBABILITIES: dict[str, Replaced] = {
    **{f"temperature {fault}": _divided(c) for fault, c in _OTHER_TEMPERATURES.items()},
    "temperature of the bias left out": Replaced(
        graph, "at_temperature", _kernel_alone, "weight classifier/bias"
    ),
}

MEDIAPIPE: dict[str, Replaced] = {
    "labels exchanged": _file(
        "labels.txt", lambda c: _lines_exchanged(c, 0, 2), "labels.txt .*line 1: .*no"
    ),
    "tokens exchanged": _file(
        "vocab.txt", lambda c: _lines_exchanged(c, 150, 151), "vocab.txt .*line 151"
    ),
    "a label renamed": _file("labels.txt", lambda c: c.replace(b"maybe", b"Maybe"), "line 3"),
    "a token lost": _file("vocab.txt", lambda c: c[:-5], "vocab.txt .*line 200"),
    "no labels": _packed(lambda c: {"vocab.txt": c["vocab.txt"]}, "files for MediaPipe"),
    "no softmax": Replaced(editing, "add_softmax", _rename_output, "answers within"),
    **{
        f"temperature {fault}": Replaced(
            editing,
            "add_softmax",
            lambda add, model, name, value, change=change: add(model, name, change(value)),
            "answers within",
        )
        for fault, change in _OTHER_TEMPERATURES.items()
    },
    **{
        fault: _in_copy(fault)
        for fault in ("gamma in another order", "a row zeroed", "softmax twice")
    },
}


def _written(name: str, change: Callable[[bytes], bytes], message: str) -> Replaced:
    """A file of the bundle is changed after it was written."""

    def write_changed(write: Any, file: pathlib.Path, content: Any) -> None:
        write(file, content)
        if file.name == name:
            file.write_bytes(change(file.read_bytes()))

    return Replaced(android_bundle, "_write", write_changed, message)


def _other_id(content: bytes) -> bytes:
    header, first, *others = content.splitlines(keepends=True)
    case = json.loads(first)
    case["input_ids"][1] += 1
    return b"".join([header, json.dumps(case).encode() + b"\n", *others])


def _other_name(content: bytes) -> bytes:
    manifest = json.loads(content)
    return json.dumps({**manifest, "name": "other"}).encode()


ANDROID: dict[str, Replaced] = {
    "vocabulary": _written("vocab.txt", lambda c: _lines_exchanged(c, 50, 51), "vocab.txt"),
    "labels": _written("labels.txt", lambda c: _lines_exchanged(c, 0, 1), "labels.txt"),
    "model": _written("model.tflite", lambda c: c[:-1] + bytes([c[-1] ^ 1]), "model.tflite"),
    "golden answers": _written("golden.json", lambda c: c + b" ", "golden.json"),
    "manifest": _written("model.json", _other_name, "model.json"),
    "ids of a text": _written("tokens.jsonl", _other_id, "tokens.jsonl, 1 texts"),
    "a text lost": _written("tokens.jsonl", lambda c: c[: c[:-1].rindex(b"\n") + 1], "first line"),
}
FAULTS: dict[str, dict[str, Replaced]] = {
    "hf": planted_folder.FAULTS,
    "saved_model": SAVED_MODEL,
    "keras": KERAS,
    "probabilities": PROBABILITIES,
    "mediapipe": MEDIAPIPE,
    "android": ANDROID,
}
