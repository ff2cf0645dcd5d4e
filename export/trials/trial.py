"""One quantization, tried on a model: the file if it is good, and the figures in any case."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from tfdistill import errors
from tfdistill.io import files
from tfdistill.manifest import Manifest
from tfdistill.results import Trial
from tfdistill.tflite import TfliteModel
from tfdistill.tflite.agreement import Bounds

from ..checking.confidence import at_temperature
from ..checking.evidence import FloatConversion
from ..checking.verify import verify
from ..conversion import convert
from ..conversion import quantize as quantizing
from ..conversion.prepare import make_plan
from ..model.request import ExportRequest
from ..targets.tflite import check_free, refuse_weak, write

Measure = Callable[[pathlib.Path], Mapping[str, Any]]
Report = Callable[[Trial], None]

# Bounds that every finite answer keeps: for the figures of a file that will not be kept.
_NO_BOUNDS = {
    "max_error": 1e30,
    "mean_error": 1e30,
    "sqnr_db": -1e30,
    "argmax_agreement": 0.0,
    "metric_drop": 1e30,
}


def attempt(
    request: ExportRequest,
    *,
    floats: FloatConversion,
    measure: Measure | None = None,
    refused: pathlib.Path | None = None,
) -> Trial:
    """Exports a model in one quantization and takes its figures.

    The file is held to the bounds of its quantization, beyond which it is not worth choosing; one
    that exists is replaced, and none is written unless it is good. `measure` gives "p50_ms" by
    length, "busy_lengths" and "peak_rss_bytes" of a file, as `tfdistill.benchmark.quick_benchmark`
    does. `floats` is the float32 conversion, which all trials of one model share; a file whose
    answers differ too far goes to `refused`, for its figures. Only what concerns the quantization
    is caught: an unusable model, vocabulary or set of examples raises what `to_tflite` raises.
    """
    request = request.replace(overwrite=True)
    held = request.replace(bounds={**_worth(request).as_dict(), **(request.bounds or {})})

    def failed(verdict: str, error: errors.TfdistillError) -> Trial:
        layers = dict(request.layers or {})
        return Trial(name=request.quantize, layers=layers, verdict=verdict, why=str(error))  # pyright: ignore[reportArgumentType]

    with files.temporary_folder("trial") as folder:
        try:
            plan = make_plan(held)
            check_free([plan])
            if floats.reference is None:
                refuse_weak(plan)
            (plan,) = at_temperature([plan])
            converted = convert.convert(plan, folder, floats.file)
            return _good(held, write([verify(converted, floats)]), measure)
        except errors.ParityError as error:
            beyond = failed("beyond bounds", error)
        except errors.ConfigError as error:
            return failed("impossible", error)
        except errors.ExportError as error:
            return failed("failed", error)
        if refused is None:
            return beyond
        unbounded = request.replace(path=refused, bounds=_NO_BOUNDS)
        plan = make_plan(unbounded).at_temperature(plan.temperature)
        try:
            verified = verify(dataclasses.replace(converted, plan=plan), floats)
            trial = _good(unbounded, write([verified]), measure)
        except errors.ExportError:  # not the model in this format: there are no figures
            return beyond
    update = {"verdict": beyond.verdict, "why": beyond.why}
    return trial.model_copy(update=update)


def _worth(request: ExportRequest) -> Bounds:
    """Returns the bounds beyond which a file of the requested quantization is not worth it."""
    names = [request.quantize, *(request.layers or {}).values()]
    bounds = [quantizing.quantization(name).bounds for name in names]
    return functools.reduce(Bounds.loosest, bounds)


def _good(request: ExportRequest, manifest: Manifest, measure: Measure | None) -> Trial:
    file = pathlib.Path(request.path)
    measured: Mapping[str, Any] = {} if measure is None else measure(file)
    with TfliteModel(file, isolated=True) as model:
        partitions = [taken.partitions for taken in model.delegations().values()]
    parity = manifest.parity
    assert parity is not None  # an export always compares
    return Trial(
        name=manifest.quantization,
        layers=dict(request.layers or {}),
        verdict="good",
        size_bytes=manifest.model.size_bytes,
        zipped_bytes=len(zlib.compress(file.read_bytes(), 9)),
        p50_ms=dict(measured.get("p50_ms", {})),
        busy_lengths=tuple(measured.get("busy_lengths", ())),
        peak_rss_bytes=measured.get("peak_rss_bytes"),
        model_metrics=dict(parity.model_metrics),
        file_metrics=dict(parity.file_metrics),
        primary_metric=None if request.task is None else request.task.primary_metric,
        argmax_agreement=parity.argmax_agreement,
        sqnr_db=parity.sqnr_db,
        real_inputs=parity.inputs == "real",
        num_examples=parity.num_examples,
        partitions=max(partitions, default=None),
    )
