"""What an export is asked to do, checked before the long work starts."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import tf_keras as keras

from tfdistill import errors, files, models
from tfdistill.data.encoded import EncodedExamples
from tfdistill.data.tasks import Examples, TaskSpec
from tfdistill.data.tokenize import Tokenizer

from . import quantize as quantizing
from . import signature, verify
from .quantize import Bounds, Quantization


@dataclasses.dataclass(frozen=True)
class Plan:
    """A valid request for an export.

    Attributes:
      name: Name in the manifest.
      model: The classifier, in float32.
      config: Its encoder.
      num_labels: Width of its logits.
      quantization: How the file stores numbers.
      bounds: How far the file may differ.
      lengths: Sequence lengths, ascending.
      softmax: Whether the file gives probabilities.
      examples: What the file is checked on.
      real: Whether the examples are real, not drawn.
      texts: The texts of the examples, or None.
      task: The task, or None.
      labels: Label names, empty where not known or for a regression.
      vocab_file: The vocabulary, or None.
      tokenizer: Its tokenizer, or None.
      lower_case: Whether text is lower-cased.
    """

    name: str
    model: keras.Model
    config: models.EncoderConfig
    num_labels: int
    quantization: Quantization
    bounds: Bounds
    lengths: tuple[int, ...]
    softmax: bool
    examples: EncodedExamples
    real: bool
    texts: Examples | None
    task: TaskSpec | None
    labels: tuple[str, ...]
    vocab_file: pathlib.Path | None
    tokenizer: Tokenizer | None
    lower_case: bool


def make_plan(
    model: keras.Model,
    *,
    name: str,
    quantize: str,
    lengths: Sequence[int],
    softmax: bool,
    check_on: Any,
    texts: Examples | None,
    task: TaskSpec | None,
    vocab_file: files.Path | None,
    lower_case: bool,
    labels: Sequence[str] | None,
    bounds: Mapping[str, float] | None,
) -> Plan:
    """Checks the arguments of `to_tflite`, which documents them, and brings them into one form.

    Raises:
      ConfigError: If an argument is not valid.
      DataError: If the examples do not fit the model or the lengths.
      ShapeError: If `model` is not of `tfdistill.models`.
      VocabularyError: If the vocabulary cannot be used or is larger than the model's.
    """
    quantization = quantizing.quantization(quantize)
    config = models.config_of(model)
    chosen = signature.check_lengths(lengths, config.max_positions)
    signature.check_head(model)
    num_labels = models.num_labels_of(model) or 0
    if softmax and num_labels == 1:
        raise errors.ConfigError(errors.explain("softmax", "a classifier", "a regression"))
    if softmax and task is not None and task.kind == "multi_label":
        raise errors.ConfigError(
            errors.explain("softmax", "classes that exclude each other", "several labels at once")
        )
    names, task = _labels(task, labels, num_labels)
    tokenizer = None
    if vocab_file is not None:
        tokenizer = Tokenizer(vocab_file, lower_case=lower_case)
        if tokenizer.vocab_size > config.vocab_size:
            raise errors.VocabularyError(
                errors.explain(
                    f"vocabulary {vocab_file}",
                    f"at most {config.vocab_size} tokens, the rows of the model's embedding",
                    tokenizer.vocab_size,
                )
            )
    real = check_on is not None
    examples = verify.collect(check_on) if real else verify.draw(config, chosen)
    verify.check_examples(examples, config, chosen)
    if texts is not None and len(texts) != len(examples):
        raise errors.DataError(
            errors.explain("texts", f"{len(examples)}, as many as in check_on", len(texts))
        )
    return Plan(
        name=name,
        model=_in_float32(model),
        config=config,
        num_labels=num_labels,
        quantization=quantization,
        bounds=quantization.bounds.replace(bounds or {}),
        lengths=chosen,
        softmax=softmax,
        examples=examples,
        real=real,
        texts=texts,
        task=task,
        labels=names,
        vocab_file=None if vocab_file is None else pathlib.Path(vocab_file),
        tokenizer=tokenizer,
        lower_case=lower_case,
    )


def _labels(
    task: TaskSpec | None, labels: Sequence[str] | None, num_labels: int
) -> tuple[tuple[str, ...], TaskSpec | None]:
    """Returns the label names and the task that has them."""
    if task is not None and task.regression != (num_labels == 1):
        raise errors.ConfigError(
            errors.explain(
                f"task {task.name!r}", f"a model for {task.kind}", f"{num_labels} outputs"
            )
        )
    names = tuple(labels) if labels else task.labels if task is not None else ()
    expected = 0 if num_labels == 1 else num_labels
    if names and (len(names) != expected or len(set(names)) != len(names)):
        raise errors.ConfigError(
            errors.explain("labels", f"{expected} different names, one for each output", names)
        )
    if any(not label or "\n" in label or "\r" in label for label in names):
        raise errors.ConfigError(errors.explain("labels", "names of one line each", names))
    if task is not None and names != task.labels:
        if task.labels:
            raise errors.ConfigError(
                errors.explain(
                    "labels",
                    f"the order of task {task.name!r}, {task.labels}",
                    names,
                    "Pass the task in the order of the model: task.with_labels(labels).",
                )
            )
        task = task.with_labels(names)
    return names, task


def _in_float32(model: keras.Model) -> keras.Model:
    """Returns the model, or its copy in float32 where it computes in another type."""
    floats = {layer.compute_dtype for layer in model.layers if layer.weights}
    return model if floats <= {"float32"} else models.with_policy(model, "float32")
