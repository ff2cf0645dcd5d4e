"""answers.safetensors: what models answer to one labelled set, so that a report needs no model."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from tfdistill import errors
from tfdistill.io import files, reading
from tfdistill.tasks import Examples
from tfdistill.tasks.spec import TaskSpec

FILE_NAME = "answers.safetensors"
TEST_FILE = f"test/{FILE_NAME}"  # of a run: what its models answer to the test set
_FORMAT_VERSION = "1"
_LONGEST = 300  # characters of a text; a report shows no more
_TASK = ("name", "kind", "labels", "metrics", "primary_metric", "positive_label")


@dataclasses.dataclass(frozen=True, eq=False)
class LabelledAnswers:
    """The answers of one or more models to the same labelled texts."""

    task: TaskSpec  # as far as metrics and names of labels need it
    gold: np.ndarray  # as `Examples.labels`
    # Name of the model -> float32 (n, num_labels), in the order of the task's labels; log
    # probabilities of a file that gives probabilities.
    logits: dict[str, np.ndarray]
    examples: str  # a hash of texts and labels: equal where two sets of answers can be paired
    texts: tuple[str, ...] = ()  # n texts, cut; empty where they were left out
    model_sha256: str = ""  # of the file that answered
    # int32 (n, 2): the gold class, and that of the large model whose answers trained the student,
    # as `model_answers.ModelAnswers` has them; None where there is none
    large: np.ndarray | None = None


def of_examples(
    examples: Examples,
    logits: dict[str, np.ndarray],
    *,
    with_texts: bool = True,
    model_sha256: str = "",
    large: np.ndarray | None = None,
) -> LabelledAnswers | None:
    """The answers of models to a labelled set; `logits` are float (n, num_labels) by model.

    `large` is as in `LabelledAnswers`.

    None for words and spans, whose answers are not one row a text, and without labels.
    """
    task, pairs = examples.spec, examples.pairs
    if not task.traits.row_a_text or examples.labels is None:
        return None
    whole = examples.texts
    if pairs is not None:
        whole = [f"{first} ‖ {second}" for first, second in zip(whole, pairs, strict=True)]
    digest = hashlib.sha256(json.dumps([whole, examples.labels.tolist()]).encode())
    arrays = {name: np.asarray(values, np.float32) for name, values in logits.items()}
    texts = tuple(_cut(text) for text in whole) if with_texts else ()
    named = {"model_sha256": model_sha256, "large": large}
    return LabelledAnswers(task, examples.labels, arrays, digest.hexdigest(), texts, **named)


def to_bytes(answers: LabelledAnswers) -> bytes:
    """Serializes answers, with a checksum."""
    tensors = {f"logits.{name}": values for name, values in answers.logits.items()}
    tensors["gold"] = answers.gold
    tensors |= {} if answers.large is None else {"large": answers.large}
    tensors["texts"] = np.frombuffer(json.dumps(answers.texts).encode(), np.uint8)
    tensors = {name: np.ascontiguousarray(values) for name, values in tensors.items()}
    task = {name: getattr(answers.task, name) for name in _TASK}
    metadata = {
        "format_version": _FORMAT_VERSION,
        "task": json.dumps(task),
        "examples": answers.examples,
        "model_sha256": answers.model_sha256,
    }
    metadata["sha256"] = _checksum(tensors, metadata)
    return safetensors.numpy.save(tensors, metadata)


def write(answers: LabelledAnswers, path: files.Path) -> None:
    """Writes answers, whole or not at all."""
    with files.atomic_write(path) as temporary:
        temporary.write_bytes(to_bytes(answers))


def read(path: files.Path) -> LabelledAnswers:
    """Reads answers; refuses a file that is damaged or of another format."""
    files.check_readable(path)
    try:
        with safetensors.safe_open(pathlib.Path(path), framework="numpy") as file:
            metadata = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if metadata["format_version"] != _FORMAT_VERSION:
            raise ValueError(f"format_version {metadata['format_version']}")
        if metadata.pop("sha256") != _checksum(tensors, metadata):
            raise ValueError("content with another checksum")
        task = TaskSpec(
            text_column="", label_column="", **_task(reading.parse_json(metadata["task"], "task"))
        )
        gold = tensors["gold"]
        logits = {
            name.removeprefix("logits."): values
            for name, values in tensors.items()
            if name.startswith("logits.")
        }
        texts = tuple(map(str, reading.parse_json(tensors["texts"].tobytes(), "texts")))
        for values in logits.values():
            if values.shape != (len(gold), task.num_labels) or len(texts) not in (0, len(gold)):
                raise ValueError(f"logits {values.shape} of {len(gold)} labels")
        return LabelledAnswers(
            *(task, gold, logits, metadata["examples"], texts, metadata["model_sha256"]),
            tensors.get("large"),
        )
    except (OSError, ValueError, KeyError, TypeError, safetensors.SafetensorError) as error:
        raise errors.DataError(
            f"{path}", f"answers of format_version {_FORMAT_VERSION}", error, "Remove the file."
        ) from error


def _task(values: Any) -> dict[str, Any]:
    if not isinstance(values, dict) or set(values) != set(_TASK):
        raise ValueError("a task with other fields")
    return values


def _checksum(tensors: dict[str, np.ndarray], metadata: dict[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name in sorted(tensors):
        values = tensors[name]
        digest.update(f"{name} {values.dtype} {values.shape} ".encode())
        digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
