"""A request for an export, checked before the long work starts and brought into one form."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

import tf_keras as keras

from tfdistill import compress, errors, models
from tfdistill.data.tokenize import Tokenizer
from tfdistill.tasks import TaskSpec
from tfdistill.tasks.encoded import EncodedExamples

from ..file import metadata as tflite_metadata
from ..model import checks, graph, inputs, signature
from ..model.heads import HEADS, OutputHead
from ..model.request import ExportRequest
from . import calibrate, device_form, mixed, word_input
from . import quantize as quantizing
from .device_form import DeviceForm
from .quantize import Bounds, Quantization


@dataclasses.dataclass(frozen=True, eq=False)
class ExportPlan:
    """A valid request, and what follows from it.

    Attributes:
      request: What was asked for.
      model: Its model in float32.
      head: What the model answers for.
      quantization: How the file stores numbers.
      layers: Layers with a quantization of their own.
      quantize_aware: Whether the model has the ranges of its activations.
      bounds: How far the file may differ.
      lengths: Sequence lengths, ascending.
      examples: What the file is checked on.
      calibration: The examples to calibrate on, or None.
      task: The task, or None.
      labels: Label names, empty where not known or for a regression.
      tokenizer: The tokenizer, or None.
      metadata: Whether the file gets MediaPipe's metadata.
      device: The form of the file for the processor that it is for.
    """

    request: ExportRequest
    model: keras.Model
    head: OutputHead
    quantization: Quantization
    layers: Mapping[str, Quantization]
    quantize_aware: bool
    bounds: Bounds
    lengths: tuple[int, ...]
    examples: EncodedExamples
    calibration: EncodedExamples | None
    task: TaskSpec | None
    labels: tuple[str, ...]
    tokenizer: Tokenizer | None
    metadata: bool
    device: DeviceForm

    @property
    def config(self) -> models.EncoderConfig:
        """The encoder."""
        return models.config_of(self.model)

    @property
    def num_labels(self) -> int:
        """Width of the logits."""
        return models.num_labels_of(self.model) or 0

    @functools.cached_property
    def float_rows(self) -> inputs.Rows | None:
        """Looks up the model's own rows of words where the file takes these instead of ids."""
        return word_input.float_rows(self.model) if self.device.word_rows else None

    @property
    def is_float(self) -> bool:
        """Whether the file is the float32 conversion itself."""
        return self.quantization.name == "float32" and not self.layers

    @property
    def real_examples(self) -> bool:
        """Whether the examples are real, not drawn."""
        return self.request.check_on is not None


def make_plan(request: ExportRequest) -> ExportPlan:
    """Checks a request and brings it into one form.

    Raises:
      ConfigError: If an argument is not valid.
      DataError: If the examples do not fit the model or the lengths.
      ShapeError: If the model is not of `tfdistill.models`.
      VocabularyError: If the vocabulary cannot be used or does not fit the model's embedding.
    """
    model, softmax, patterns = request.model, request.softmax, request.layers or {}
    quantization = quantizing.quantization(request.quantize)
    config = models.config_of(model)
    lengths = signature.check_lengths(request.chosen_lengths, config.max_positions)
    graph.check_head(model)
    head = HEADS[models.head_of(model)]
    num_labels = models.num_labels_of(model) or 0
    aware = compress.is_quantize_aware(model)
    layers = mixed.resolve(model, quantization, patterns)
    device = device_form.form(request.device, quantization, *layers.values())
    if device.word_rows:
        word_input.check_model(model, quantize_aware=aware, layers=layers)
    loosest = functools.reduce(
        Bounds.loosest, (value.bounds for value in layers.values()), quantization.bounds
    )
    _check_method(model, quantization, layers, aware)
    checks.check_task(request.task, head, num_labels, softmax=softmax)
    labels, task = checks.labels_of(request.task, request.labels, head, num_labels)
    tokenizer = None
    if request.vocab_file is not None:
        tokenizer = checks.open_vocabulary(
            request.vocab_file, lower_case=request.lower_case, num_rows=config.vocab_size
        )
    real = request.check_on is not None
    examples = inputs.collect(request.check_on) if real else inputs.draw(config, lengths)
    inputs.check_examples(examples, config, lengths)
    checks.check_texts(request.texts, examples, task, real=real)
    calibration = None
    if quantization.needs_calibration and not aware:
        calibration = calibrate.draw(
            request.calibrate_on, request.num_calibration, request.seed, config, lengths
        )
    obstacles = tflite_metadata.obstacles(
        head=head.name,
        kind=None if task is None else task.kind,
        pair=task is not None and task.reads_pairs,
        lengths=lengths,
        softmax=softmax,
        labels=labels,
        vocab_file=request.vocab_file,
        lower_case=request.lower_case,
    )
    if device.word_rows:
        obstacles.append("MediaPipe feeds ids, the file takes rows of words")
    metadata = tflite_metadata.wanted(request.metadata, obstacles)
    return ExportPlan(
        request,
        graph.in_float32(model),
        head,
        quantization,
        layers,
        aware,
        loosest.replace(request.bounds or {}),
        lengths,
        examples,
        calibration,
        task,
        labels,
        tokenizer,
        metadata,
        device,
    )


def _check_method(
    model: keras.Model, quantization: Quantization, layers: Mapping[str, Quantization], aware: bool
) -> None:
    """Checks that a quantization can be made of this model."""
    config = models.config_of(model)
    if quantization.method == "static" and isinstance(config, models.WordVectorConfig):
        raise errors.ConfigError(
            f"quantize {quantization.name}",
            "an encoder with attention",
            f"a {config.title}, whose ranges the ai-edge-quantizer cannot measure",
            "Take dynamic_wi8_afp32: as small, and more accurate.",
        )
    if not aware:
        mixed.check_blocks(mixed.stored_weights(model, quantization, layers))
        return
    if quantization.name != "static_wi8_ai8" or layers:
        raise errors.ConfigError(
            "quantize of a quantization-aware model",
            "static_wi8_ai8, which it was trained for, for all of its layers",
            f"{quantization.name}{' and layers of another' if layers else ''}",
            "Export compress.strip(model), its float weights, in other quantizations.",
        )
    compress.check_ranges(model)
