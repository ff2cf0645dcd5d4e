"""A request, checked before the long work starts, and brought into one form."""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import tf_keras as keras

from tfdistill import compress, errors, models
from tfdistill.compress import rebuild
from tfdistill.tasks import TaskSpec
from tfdistill.tasks.encoded import EncodedExamples
from tfdistill.tokenization.tokenizer import Tokenizer

from ..file import bundle
from ..file import metadata as tflite_metadata
from ..model import graph, inputs, signature
from ..model.heads import HEADS, OutputHead
from ..model.request import (
    ExportRequest,
    check_promise,
    check_prompt,
    check_recall,
    check_task,
    check_texts,
    check_vocabulary,
    labels_of,
)
from . import calibrate, device_form
from . import quantize as quantizing
from .device_form import DeviceForm
from .quantize import SMALLEST_QUANTIZED, Bounds, Quantization

_POSITIONS = "position_embeddings"  # each signature keeps some of its rows


@dataclasses.dataclass(frozen=True, eq=False)
class ExportPlan:
    """A valid request, and what follows from it."""

    request: ExportRequest
    model: keras.Model  # its model in float32, with logits at the temperature
    head: OutputHead  # what the model answers for
    quantization: Quantization
    layers: Mapping[str, Quantization]  # those with a quantization of their own
    quantize_aware: bool  # whether the model has the ranges of its activations
    bounds: Bounds  # how far the file may differ
    lengths: tuple[int, ...]  # ascending
    examples: EncodedExamples  # what the file is checked on
    # labelled examples that chose nothing, for promises, or None
    promise_on: EncodedExamples | None
    # the training examples, which tell texts of another kind; None without promises
    trained_on: EncodedExamples | None
    calibration: EncodedExamples | None  # the examples to calibrate on
    task: TaskSpec | None
    labels: tuple[str, ...]  # empty where not known or for a regression
    tokenizer: Tokenizer | None
    metadata: bool  # whether the file gets MediaPipe's metadata
    device: DeviceForm  # the form of the file for its processor
    is_variant: bool = False  # whether it is a further file in the manifest of another one
    temperature: float = 1.0  # what divides the logits inside the file; 1 of a file of logits

    def at_temperature(self, temperature: float) -> ExportPlan:
        """Returns the plan of the file that divides its logits."""
        if temperature == self.temperature:
            return self
        model = graph.at_temperature(self.request.model, temperature)
        return dataclasses.replace(self, model=model, temperature=temperature)

    @property
    def paths(self) -> bundle.ExportPaths:
        """The paths of its files."""
        paths = bundle.paths_of(self.request.path, self.tokenizer)
        return paths.for_device(self.device.name) if self.is_variant else paths

    @property
    def config(self) -> models.EncoderConfig:
        """The encoder."""
        return models.config_of(self.model)

    @property
    def num_labels(self) -> int:
        """Width of the logits."""
        return models.num_labels_of(self.model) or 0

    @property
    def is_float(self) -> bool:
        """Whether the file is the float32 conversion itself."""
        return self.quantization.name == "float32" and not self.layers

    @property
    def real_examples(self) -> bool:
        """Whether the examples are real, not drawn."""
        return self.request.check_on is not None


def make_plans(request: ExportRequest) -> list[ExportPlan]:
    """Plans the file that is asked for and its variants, on the same examples."""
    variants = request.variants
    if not variants:
        return [make_plan(request)]
    if request.device in variants:
        raise errors.ConfigError(
            "variants", f"files for others than {request.device}", list(variants)
        )
    request = request.collected()
    plans = [make_plan(request)]
    for device, quantize in variants.items():
        variant = request.replace(device=device, quantize=quantize, variants={})
        plans.append(dataclasses.replace(make_plan(variant), is_variant=True))
    return plans


def make_plan(request: ExportRequest) -> ExportPlan:
    """Checks a request and brings it into one form."""
    model, softmax, patterns = request.model, request.softmax, request.layers or {}
    quantization = quantizing.quantization(request.quantize)
    config = models.config_of(model)
    lengths = signature.check_lengths(request.chosen_lengths, config.max_positions)
    graph.check_head(model)
    head = HEADS[models.head_of(model)]
    num_labels = models.num_labels_of(model) or 0
    aware = compress.is_quantize_aware(model)
    layers = resolve(model, quantization, patterns)
    device = device_form.form(request.device, quantization, *layers.values())
    loosest = functools.reduce(
        Bounds.loosest, (value.bounds for value in layers.values()), quantization.bounds
    )
    _check_method(model, quantization, layers, aware)
    check_task(request.task, head, num_labels, softmax=softmax)
    labels, task = labels_of(request.task, request.labels, head, num_labels)
    tokenizer = request.tokenizer
    if tokenizer is not None:
        check_vocabulary(tokenizer, config.vocab_size)
        check_prompt(tokenizer, head)
    real = request.check_on is not None
    examples = inputs.collect(request.check_on) if real else inputs.draw(config, lengths)
    inputs.check_examples(examples, config, lengths)
    check_texts(request.texts, examples, task, real=real)
    promise_on = trained_on = None
    if request.promise_on is not None:
        promise_on = inputs.collect(request.promise_on, "promise_on")
        inputs.check_examples(promise_on, config, lengths, "promise_on")
        check_promise(promise_on, examples if real else None, task, request.promise_answers)
        if request.calibrate_on is not None:
            trained_on = inputs.collect(request.calibrate_on, "calibrate_on")
    if request.min_recall is not None:
        check_recall(request.min_recall, task, promises=promise_on is not None)
    calibration = None
    if quantization.needs_calibration and not aware:
        calibration = calibrate.draw(
            trained_on or request.calibrate_on,
            request.num_calibration,
            request.seed,
            config,
            lengths,
        )
    obstacles = tflite_metadata.obstacles(
        head=head.name,
        kind=None if task is None else task.kind,
        pair=task is not None and task.reads_pairs,
        lengths=lengths,
        softmax=softmax,
        labels=labels,
        tokenizer=tokenizer,
    )
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
        promise_on,
        trained_on,
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
            f"a {config.title}, whose ranges the litert-quantizer cannot measure",
            "Take dynamic_wi8_afp32: as small, and more accurate.",
        )
    if not aware:
        check_blocks(stored_weights(model, quantization, layers))
        return
    if quantization.name != "static_wi8_ai8" or layers:
        raise errors.ConfigError(
            "quantize of a quantization-aware model",
            "static_wi8_ai8, which it was trained for, for all of its layers",
            f"{quantization.name}{' and layers of another' if layers else ''}",
            f"In other quantizations export {compress.FLOAT_WEIGHTS}.",
        )
    compress.check_ranges(model)


@dataclasses.dataclass(frozen=True)
class StoredWeight:
    """A weight as the file should hold it."""

    layer: str
    shape: tuple[int, ...]
    quantization: Quantization

    @property
    def num_elements(self) -> int:
        """Product of the dimensions."""
        return math.prod(self.shape)

    @property
    def is_matrix(self) -> bool:
        """Whether it is a matrix large enough to be quantized."""
        return len(self.shape) > 1 and self.num_elements >= SMALLEST_QUANTIZED


def resolve(
    model: keras.Model, base: Quantization, layers: Mapping[str, str]
) -> dict[str, Quantization]:
    """Resolves which layers take another quantization than the file's `base`: name -> quantization.

    The first pattern, as for a shell, that fits a layer counts. Raises ConfigError if a pattern
    fits no layer or changes nothing, or a quantization cannot be combined with `base`.
    """
    names = [layer.name for layer in model.layers]
    chosen: dict[str, Quantization] = {}
    matrices = set(with_matrices(model))
    for pattern, name in layers.items():
        quantization = quantizing.quantization(name)
        what = f"layers, {pattern!r}"
        if quantization.method == "static":
            raise errors.ConfigError(
                what,
                "a quantization of weights",
                f"{name}, which is one of activations",
                "Give the file that one as `quantize`, and other layers another here.",
            )
        fitting = fnmatch.filter(names, pattern)
        if not fitting:
            raise errors.ConfigError(
                what,
                "a pattern of layer names",
                "one that fits no layer",
                errors.nearest(pattern.strip("*"), names),
            )
        if base.method != "static" and not matrices & set(fitting):
            raise errors.ConfigError(
                what,
                f"layers with weight matrices, which alone are quantized in {base.name}",
                ", ".join(fitting[:3]),
            )
        for layer in fitting:
            chosen.setdefault(layer, quantization)
    return {layer: quantization for layer, quantization in chosen.items() if quantization != base}


def with_matrices(model: keras.Model) -> list[str]:
    """Returns the names of the layers with a matrix that operators multiply by or look up in."""
    return [
        layer.name
        for layer in model.layers
        if layer.name != _POSITIONS and any(len(weight.shape) > 1 for weight in _weights(layer))
    ]


def stored_weights(
    model: keras.Model, base: Quantization, layers: Mapping[str, Quantization]
) -> list[StoredWeight]:
    """Lists a model's weights, except position tables, of which each signature keeps some rows."""
    seen: set[int] = set()
    stored = []
    for layer in model.layers:
        if layer.name == _POSITIONS:
            continue
        for weight in _weights(layer):
            if id(weight) not in seen:
                seen.add(id(weight))
                shape = tuple(int(size) for size in weight.shape)
                stored.append(StoredWeight(layer.name, shape, layers.get(layer.name, base)))
    return stored


def check_blocks(weights: Sequence[StoredWeight]) -> None:
    """Refuses blocks that do not divide the rows of a matrix; says what to take instead."""
    misfits: dict[str, int] = {}
    for weight in weights:
        block = weight.quantization.block
        if block is None or not weight.is_matrix:
            continue
        # A row is what is multiplied with one input: (inputs, outputs) is transposed.
        width = weight.shape[-1] if "embeddings" in weight.layer else weight.shape[0]
        if width % block:
            misfits[weight.layer] = width
    if not misfits:
        return
    widths = ", ".join(str(width) for width in sorted(set(misfits.values())))
    some = ", ".join(list(misfits)[:3]) + (", ..." if len(misfits) > 3 else "")
    names = {weight.quantization.name for weight in weights if weight.layer in misfits}
    raise errors.ConfigError(
        f"quantize {' and '.join(sorted(names))}",
        "widths that its blocks divide",
        f"{widths} ({some})",
        "Take dynamic_wi4_afp32, which has a scale for each row of any width (for these layers "
        "alone: layers={pattern: that}), or train a student whose widths are multiples.",
    )


def _weights(layer: keras.layers.Layer) -> Sequence[Any]:
    """Returns a layer's weights, without the ranges that a quantization-aware one has besides."""
    return layer.float_weights if isinstance(layer, rebuild.Rounded) else layer.weights
