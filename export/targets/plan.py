"""What an export is asked to do, checked before the long work starts."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import tf_keras as keras

from tfdistill import errors, files, models
from tfdistill.data.encoded import EncodedExamples
from tfdistill.data.tasks import Examples, TaskSpec
from tfdistill.data.tokenize import Tokenizer

from ..conversion import calibrate, mixed
from ..conversion import quantize as quantizing
from ..conversion.quantize import Bounds, Quantization
from ..file import metadata as tflite_metadata
from ..model import checks, graph, inputs, signature


@dataclasses.dataclass(frozen=True)
class Plan:
    """A valid request for an export.

    Attributes:
      name: Name in the manifest.
      model: The classifier, in float32.
      config: Its encoder.
      head: What it answers: "sequence", "token" or "span".
      num_labels: Width of its logits.
      quantization: How the file stores numbers.
      layers: Layers with a quantization of their own.
      patterns: The patterns of layer names that were asked for -> name of a quantization.
      quantize_aware: Whether the model brings the ranges of its activations along.
      bounds: How far the file may differ.
      lengths: Sequence lengths, ascending.
      softmax: Whether the file gives probabilities.
      examples: What the file is checked on.
      real: Whether the examples are real, not drawn.
      calibration: The examples to calibrate on, or None.
      seed: Seed of their draw.
      texts: The texts of the examples, or None.
      task: The task, or None.
      labels: Label names, empty where not known or for a regression.
      vocab_file: The vocabulary, or None.
      tokenizer: Its tokenizer, or None.
      lower_case: Whether text is lower-cased.
      metadata: Whether the file gets MediaPipe's metadata.
    """

    name: str
    model: keras.Model
    config: models.EncoderConfig
    head: str
    num_labels: int
    quantization: Quantization
    layers: Mapping[str, Quantization]
    patterns: Mapping[str, str]
    quantize_aware: bool
    bounds: Bounds
    lengths: tuple[int, ...]
    softmax: bool
    examples: EncodedExamples
    real: bool
    calibration: EncodedExamples | None
    seed: int
    texts: Examples | None
    task: TaskSpec | None
    labels: tuple[str, ...]
    vocab_file: pathlib.Path | None
    tokenizer: Tokenizer | None
    lower_case: bool
    metadata: bool


def make_plan(
    model: keras.Model,
    *,
    name: str,
    quantize: str,
    layers: Mapping[str, str] | None,
    lengths: Sequence[int],
    softmax: bool,
    check_on: Any,
    calibrate_on: Any,
    num_calibration: int,
    seed: int,
    texts: Examples | None,
    task: TaskSpec | None,
    vocab_file: files.Path | None,
    lower_case: bool,
    labels: Sequence[str] | None,
    bounds: Mapping[str, float] | None,
    metadata: bool | None,
) -> Plan:
    """Checks the arguments of `to_tflite`, which documents them, and brings them into one form.

    Raises:
      ConfigError: If an argument is not valid.
      DataError: If the examples do not fit the model or the lengths.
      ShapeError: If `model` is not of `tfdistill.models`.
      VocabularyError: If the vocabulary cannot be used or does not fit the model's embedding.
    """
    quantization = quantizing.quantization(quantize)
    config = models.config_of(model)
    chosen = signature.check_lengths(lengths, config.max_positions)
    graph.check_head(model)
    head = models.head_of(model)
    num_labels = models.num_labels_of(model) or 0
    aware = mixed.is_quantize_aware(model)
    own = mixed.resolve(model, quantization, layers or {})
    loosest = functools.reduce(
        Bounds.loosest, (value.bounds for value in own.values()), quantization.bounds
    )
    _check_method(model, quantization, own, aware)
    checks.check_task(task, head, num_labels, softmax=softmax)
    names, task = checks.labels_of(task, labels, head, num_labels)
    tokenizer = None
    if vocab_file is not None:
        tokenizer = checks.open_vocabulary(
            vocab_file, lower_case=lower_case, num_rows=config.vocab_size
        )
    real = check_on is not None
    examples = inputs.collect(check_on) if real else inputs.draw(config, chosen)
    inputs.check_examples(examples, config, chosen)
    checks.check_texts(texts, examples, task, real=real)
    calibration = None
    if quantization.needs_calibration and not aware:
        calibration = calibrate.draw(calibrate_on, num_calibration, seed, config, chosen)
    return Plan(
        name=name,
        model=graph.in_float32(model),
        config=config,
        head=head,
        num_labels=num_labels,
        quantization=quantization,
        layers=own,
        patterns=dict(layers or {}),
        quantize_aware=aware,
        bounds=loosest.replace(bounds or {}),
        lengths=chosen,
        softmax=softmax,
        examples=examples,
        real=real,
        calibration=calibration,
        seed=seed,
        texts=texts,
        task=task,
        labels=names,
        vocab_file=None if vocab_file is None else pathlib.Path(vocab_file),
        tokenizer=tokenizer,
        lower_case=lower_case,
        metadata=tflite_metadata.wanted(
            metadata,
            tflite_metadata.obstacles(
                head=head,
                kind=None if task is None else task.kind,
                pair=task is not None and task.pair_column is not None,
                lengths=chosen,
                softmax=softmax,
                labels=names,
                vocab_file=vocab_file,
                lower_case=lower_case,
            ),
        ),
    )


def _check_method(
    model: keras.Model, quantization: Quantization, layers: Mapping[str, Quantization], aware: bool
) -> None:
    """Checks that a quantization can be made of this model."""
    if quantization.method == "static" and isinstance(models.config_of(model), models.BiLstmConfig):
        raise errors.ConfigError(
            f"quantize {quantization.name}",
            "an encoder with attention",
            "a BiLSTM, whose ranges the ai-edge-quantizer cannot measure",
            "Take dynamic_wi8_afp32: as small, and more accurate.",
        )
    if not aware:
        mixed.check_blocks(mixed.stored_weights(model, quantization, layers))
        return
    from tfdistill import compress

    if quantization.name != "static_wi8_ai8" or layers:
        raise errors.ConfigError(
            "quantize of a quantization-aware model",
            "static_wi8_ai8, which it was trained for, for all of its layers",
            f"{quantization.name}{' and layers of another' if layers else ''}",
            "Export compress.strip(model), its float weights, in other quantizations.",
        )
    compress.check_ranges(model)
