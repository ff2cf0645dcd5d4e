"""`auto`: the smallest or fastest quantization that costs no more than it may."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import tf_keras as keras

from tfdistill import errors
from tfdistill.io import files
from tfdistill.manifest import Manifest
from tfdistill.results import Trial

from ..checking.evidence import FloatConversion
from ..conversion import quantize as quantizing
from ..conversion.quantize import Quantization
from ..model.request import ExportRequest, check_options
from .trial import ROUNDING, Measure, Report, drop_faults, trials

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..model.options import ExportOptions

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
    computes slowly, last. "latency": tries all and takes the fastest on this host.

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
      The manifest of the file; `quantization` has what was chosen.

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
    order = _order(names)
    _check(max_drop, prefer, measure)
    check_options(options, but=("quantize", "layers", "variants"))
    request = ExportRequest(model, path, **options)
    bounds = {"metric_drop": max_drop, **(request.bounds or {})}
    measure = measure if prefer == "latency" else None
    with trials(request.replace(bounds=bounds), measure=measure, report=report) as tried:
        floats = FloatConversion(tried.folder / "float32.tflite")
        best: tuple[Trial, pathlib.Path] | None = None
        for quantization in order:
            if best is not None and measure is None:  # those that follow are no smaller
                break
            named = tried.request.replace(quantize=quantization.name, layers={})
            trial, file = tried.attempt(named, floats)
            if _is_good(trial, max_drop) and (best is None or _p50_ms(trial) < _p50_ms(best[0])):
                best = trial, file
        if best is None:
            raise _nothing(tried.rows, max_drop)
        return tried.deliver(best[1])


def _is_good(trial: Trial, max_drop: float) -> bool:
    drop = trial.metric_drop
    return trial.verdict == "good" and (drop is None or drop <= max_drop + ROUNDING)


def _p50_ms(trial: Trial) -> float:
    """The geometric mean of the medians in ms."""
    return math.exp(sum(map(math.log, trial.p50_ms.values())) / len(trial.p50_ms))


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


def _order(names: Sequence[str] | None) -> list[Quantization]:
    """The quantizations from the smallest to the largest; of one size the plainest first."""
    return sorted(
        quantizing.chosen(names),
        key=lambda value: (
            value.bytes_per_weight,
            _PLAINNESS.index(value.method),
        ),
    )


def _nothing(trials: Sequence[Trial], max_drop: float) -> errors.TfdistillError:
    """The error for a search that found nothing."""
    lines = []
    for trial in trials:
        if trial.verdict == "good":
            why = f"{trial.primary_metric} falls by {trial.metric_drop:.4g}"
        else:
            why = trial.why.replace("\n", " ")
        lines.append(f"  - {trial.name}: {why}")
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
