"""`auto`: the smallest or fastest quantization that costs no more than it may."""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import tf_keras as keras

from tfdistill import errors, models
from tfdistill.io import files
from tfdistill.manifest import Manifest
from tfdistill.results import Trial

from ..checking.evidence import FloatConversion
from ..checking.layer_errors import culprits, layer_errors
from ..conversion import prepare
from ..conversion import quantize as quantizing
from ..conversion.quantize import Quantization
from ..model import inputs
from ..model.request import ExportRequest, check_options
from .trial import ROUNDING, Measure, Report, Trials, drop_faults, trials

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..model.options import ExportOptions

# Where some layers of the best file are in float32, others are tried that may save this share.
_LEAST_SAVING = 0.05
_MAX_ROUNDS = 3  # of leaving more layers in float
_MOST_FLOAT_LAYERS = 0.5  # share of the layers: beyond it little is quantized
_PLAINNESS = ("dynamic", "weight_only", "float", "static")


def auto(
    model: keras.Model,
    path: files.Path,
    *,
    names: Sequence[str] | None = None,
    max_drop: float = 0.01,
    prefer: Literal["size", "latency"] = "size",
    measure: Measure | None = None,
    report: Report | None = None,
    **options: Unpack[ExportOptions],
) -> Manifest:
    """Exports a model in the best quantization whose file is accurate enough.

    "size": tries from the fewest bits on and takes the first file within `max_drop`; of one number
    of bits, activations that are quantized on the fly come first, calibrated ones, which a CPU
    computes slowly, last. "latency": tries all and takes the fastest on this host. Where integers
    fail, the layers that add most of the error are found by comparing all tensors of the file with
    those of the float32 file, and it is tried again with these in float32, up to three times.

    Each file is held to the bounds of its quantization, too (see `to_tflite`). Without labels or
    without a task these decide alone.

    Args:
      model: As for `to_tflite`.
      path: The .tflite file to write, with what belongs to it.
      names: Quantizations that may be taken; default all of `quantizations()`.
      max_drop: Most that the task's primary metric may fall from the model to the file.
      prefer: What is best.
      measure: Measures a file: returns "p50_ms" by length, as
        `tfdistill.benchmark.quick_benchmark` does. Needed for "latency".
      report: Called with each trial as soon as it is finished.
      **options: See `ExportOptions`; `quantize` and `layers` are chosen.

    Returns:
      The manifest of the file; `quantization` and `quantized_layers` have what was chosen.

    Raises:
      ConfigError: If an argument is not valid.
      DataError: If the examples do not fit the model or the lengths.
      OutputExistsError: If a file is there and `overwrite` is not given.
      ParityError: If no file is good enough; nothing is written.
      ExportError: If none can be had for other reasons.

    Examples:
      >>> formats = ["float16", "dynamic_wi8_afp32"]
      >>> card = export.auto(student, "best/model.tflite", names=formats, max_drop=1.0, data=data)
      >>> card.quantization
      'dynamic_wi8_afp32'
    """
    order = _order(model, names)
    _check(max_drop, prefer, measure)
    check_options(options, but=("quantize", "layers", "variants"))
    request = ExportRequest(model, path, **options)
    bounds = {"metric_drop": max_drop, **(request.bounds or {})}
    measure = measure if prefer == "latency" else None
    with trials(request.replace(bounds=bounds), measure=measure, report=report) as tried:
        search = _Search(tried, frozenset(value.name for value in order), max_drop)
        for quantization in order:
            search.consider(quantization)
        if search.best is None:
            raise _nothing(tried.rows, max_drop)
        return tried.deliver(search.best[1])


@dataclasses.dataclass
class _Search:
    """Tries quantizations and keeps the best file so far: the fastest, if they are measured."""

    trials: Trials
    allowed: frozenset[str]  # names of the quantizations that may be taken
    max_drop: float  # most that the primary metric may fall
    best: tuple[Trial, pathlib.Path] | None = None  # the best trial so far and its file
    _float_file: pathlib.Path | None = None  # a good one

    def __post_init__(self) -> None:
        """Names the float32 conversion, which all files are made of."""
        self._floats = FloatConversion(self.trials.folder / "float32.tflite")
        self._model = self.trials.request.model

    def consider(self, quantization: Quantization) -> None:
        """Tries a quantization and, where integers fail, with some layers in float."""
        tried = any(trial.name == quantization.name for trial in self.trials.rows)
        if tried or self._hopeless(quantization):
            return
        trial, file = self._try(quantization.name, {})
        layers: tuple[str, ...] = ()
        weighty = {layer.name for layer in self._model.layers if layer.weights}
        for _ in range(_MAX_ROUNDS):
            if self._good(trial) or trial.size_bytes is None or quantization.weight_bits > 8:
                return
            named = self._name_culprits(quantization, file)
            more = tuple(dict.fromkeys((*layers, *named)))
            if more == layers or len(weighty & set(more)) > _MOST_FLOAT_LAYERS * len(weighty):
                return
            layers = more
            trial, file = self._try(quantization.name, dict.fromkeys(layers, "float32"))

    def _try(self, name: str, layers: dict[str, str]) -> tuple[Trial, pathlib.Path]:
        """Makes a trial; returns it and its file, which may be a refused one or missing."""
        trial, file = self.trials.attempt(
            self.trials.request.replace(quantize=name, layers=layers),
            self._floats,
            keep_refused=quantizing.quantization(name).weight_bits <= 8,
        )
        if name == "float32" and file.is_file():
            self._float_file = file
        eligible = self._good(trial) and name in self.allowed
        if eligible and (self.best is None or self._cost(trial) < self._cost(self.best[0])):
            self.best = trial, file
        return trial, file

    def _good(self, trial: Trial) -> bool:
        drop = trial.metric_drop
        return trial.verdict == "good" and (drop is None or drop <= self.max_drop + ROUNDING)

    def _cost(self, trial: Trial) -> float:
        """Returns the size or, where speed counts, the geometric mean of the medians in ms."""
        if self.trials.measure is None:
            return trial.size_bytes or 0
        return math.exp(sum(map(math.log, trial.p50_ms.values())) / len(trial.p50_ms))

    def _hopeless(self, quantization: Quantization) -> bool:
        """Whether a quantization could not be smaller by enough than the best file."""
        if self.best is None or self.trials.measure is not None:
            return False
        trial = self.best[0]
        bits = quantizing.quantization(trial.name).bytes_per_weight
        if not trial.layers and bits <= quantization.bytes_per_weight:
            return True
        least = _least_bytes(self._model, quantization)
        return least > (1 - _LEAST_SAVING) * (trial.size_bytes or 0)

    def _name_culprits(self, quantization: Quantization, file: pathlib.Path) -> tuple[str, ...]:
        """Returns the layers that add most of a file's error; none where no file is exact."""
        if self._float_file is None:
            self._try("float32", {})
        if self._float_file is None:
            return ()
        request, model = self.trials.request, self._model
        examples = request.check_on
        if examples is None:
            examples = inputs.draw(models.config_of(model), sorted(request.chosen_lengths))
        names = [layer.name for layer in model.layers]
        layers = layer_errors(self._float_file, file, examples, names)
        if quantization.method != "static":  # nothing but matrices is quantized
            matrices = set(prepare.with_matrices(model))
            layers = [dataclasses.replace(error, readers=()) for error in layers]
            layers = [error for error in layers if error.layer in matrices]
        return culprits(layers)


def _check(max_drop: float, prefer: str, measure: Measure | None) -> None:
    faults = drop_faults(max_drop)
    if prefer not in ("size", "latency"):
        faults.append(errors.explain("prefer", "'size' or 'latency'", repr(prefer)))
    if prefer == "latency" and measure is None:
        faults.append(
            errors.explain(
                "prefer='latency'",
                "measure, a function from a file to its latencies",
                "none",
                "Pass measure=tfdistill.benchmark.quick_benchmark.",
            )
        )
    if faults:
        raise errors.ConfigError("\n".join(faults))


def _order(model: keras.Model, names: Sequence[str] | None) -> list[Quantization]:
    """The quantizations from the smallest to the largest; of one size the plainest first."""
    return sorted(
        quantizing.chosen(names),
        key=lambda value: (
            value.bytes_per_weight,
            _PLAINNESS.index(value.method),
            _least_bytes(model, value),
        ),
    )


def _least_bytes(model: keras.Model, quantization: Quantization) -> float:
    """Bytes of the weights alone: what no file of that quantization undercuts."""
    return sum(
        int(weight.shape.num_elements())
        * (quantization.bytes_per_weight if len(weight.shape) > 1 else quantization.least_bytes)
        for weight in model.weights
    )


def _nothing(trials: Sequence[Trial], max_drop: float) -> errors.TfdistillError:
    """The error for a search that found nothing."""
    lines = []
    for trial in trials:
        in_float = f" with {', '.join(trial.layers)} in float32" if trial.layers else ""
        if trial.verdict == "good":
            why = f"{trial.primary_metric} falls by {trial.metric_drop:.4g}"
        else:
            why = trial.why.replace("\n", " ")
        lines.append(f"  - {trial.name}{in_float}: {why}")
    tried = "\n".join(lines)
    if all(trial.verdict == "impossible" for trial in trials):
        return errors.ConfigError(f"No quantization is possible:\n{tried}")
    message = errors.explain(
        "quantize=auto",
        f"a file within its bounds and a drop of at most {max_drop:g}",
        f"none of {len(trials)} trials; nothing was written",
        "Allow a larger max_drop, train the student quantization-aware, or ask for one "
        "quantization with bounds of your own.",
    )
    kind = errors.ParityError
    if not any(trial.verdict in ("good", "beyond bounds") for trial in trials):
        kind = errors.ExportError
    return kind(f"{message}\n{tried}")
