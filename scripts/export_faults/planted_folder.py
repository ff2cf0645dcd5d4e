"""The faults of a Hugging Face folder, by name, for a BERT with three classes or more."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import safetensors.numpy
from replaced import Replaced

from tfdistill.tokenization import wordpiece
from tfdistill.tokenization.wordpiece import WordPiece
from tfdistill.weights import sentence_modules

_WORDS = "bert.embeddings.word_embeddings.weight"
_QUERIES = [f"bert.encoder.layer.{number}.attention.self.query.weight" for number in (0, 1)]

Tensors = dict[str, np.ndarray]


def _tensors(change: Callable[[Tensors], object], message: str | None = None) -> Replaced:
    """The tensors are changed in place before they are saved."""

    def save_changed(save_file: Any, tensors: Tensors, path: Any, **options: Any) -> None:
        tensors = {key: value.copy() for key, value in tensors.items()}
        change(tensors)
        save_file(tensors, path, **options)

    return Replaced(safetensors.numpy, "save_file", save_changed, message)


def _json(file: str, change: Callable[[dict[str, Any]], object]) -> Replaced:
    """The content of a JSON file is changed in place before it is written."""

    def write_changed(write: Any, path: pathlib.Path, value: Any) -> None:
        value = json.loads(json.dumps(value))
        if path.name == file:
            change(value)
        write(path, value)

    return Replaced(sentence_modules, "write_json", write_changed)


def _exchanged(values: np.ndarray, first: int, second: int) -> np.ndarray:
    order = np.arange(len(values))
    order[[first, second]] = second, first
    return values[order]


def _scale(key: str, factor: float) -> Callable[[Tensors], object]:
    return lambda tensors: tensors.update({key: tensors[key] * np.float32(factor)})


def _exchange_queries(tensors: Tensors) -> None:
    first, second = _QUERIES
    tensors[first], tensors[second] = tensors[second], tensors[first]


def _exchange_labels(config: dict[str, Any]) -> None:
    table = config["id2label"]
    table["0"], table["1"] = table["1"], table["0"]
    config["label2id"] = {name: int(index) for index, name in table.items()}


def _exchange_one_table(config: dict[str, Any]) -> None:
    table = config["label2id"]
    first, second, *_ = table
    table[first], table[second] = table[second], table[first]


def _exchanged_tokens(tokenizer: Any) -> Any:
    return tokenizer.subset(_exchanged(np.arange(tokenizer.vocab_size), 5, 6))


def _other_order(tokens: Any) -> list[str]:
    return list(map(str, _exchanged(np.array(list(tokens)), 5, 6)))


FAULTS: dict[str, Replaced] = {
    "a number of a word": _tensors(
        lambda tensors: tensors[_WORDS].__setitem__((6, 0), 0.5),
        r"word_embeddings.weight, 1 of \d+.*\(6, 0\)",
    ),
    "a bias lost": _tensors(_scale("classifier.bias", 0)),
    "a matrix scaled": _tensors(_scale("classifier.weight", 1.01)),
    "a matrix transposed": _tensors(
        lambda tensors: tensors.update(
            {key: tensors[key].T.copy() for key in ("bert.pooler.dense.weight",)}
        )
    ),
    "two layers exchanged": _tensors(_exchange_queries),
    "two outputs exchanged": _tensors(
        lambda tensors: tensors.update(
            {key: _exchanged(tensors[key], 0, 1) for key in ("classifier.weight",)}
        )
    ),
    "eps": _json("config.json", lambda config: config.update(layer_norm_eps=1e-6)),
    "activation": _json("config.json", lambda config: config.update(hidden_act="gelu_new")),
    "heads": _json(
        "config.json",
        lambda config: config.update(num_attention_heads=config["num_attention_heads"] // 2),
    ),
    "labels exchanged": _json("config.json", _exchange_labels),
    "labels exchanged in one table": _json("config.json", _exchange_one_table),
    "lower-casing of tokenizer_config.json": _json(
        "tokenizer_config.json", lambda config: config.update(do_lower_case=False)
    ),
    "length of tokenizer_config.json": _json(
        "tokenizer_config.json", lambda config: config.update(model_max_length=8)
    ),
    "lines of vocab.txt exchanged": Replaced(
        wordpiece, "format_vocab", lambda written, tokens: written(_other_order(tokens))
    ),
    "tokens of tokenizer.json exchanged": Replaced(
        WordPiece,
        "save_json",
        lambda save, written, path: save(_exchanged_tokens(written), path),
    ),
    "lower-casing of tokenizer.json": Replaced(
        WordPiece,
        "save_json",
        lambda save, written, path: save(written.replace(lower_case=not written.lower_case), path),
    ),
}
