"""One quantization, tried on a model: the file if it is good, and the figures in any case."""

from __future__ import annotations

import dataclasses
import pathlib
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Literal

import tf_keras as keras

from tfdistill import errors
from tfdistill.data.tasks import TaskSpec
from tfdistill.manifest import Manifest

from ..file import delegation
from ..targets.tflite import to_tflite

Measure = Callable[[pathlib.Path], Mapping[str, Any]]
Report = Callable[["Trial"], None]
Verdict = Literal["good", "beyond bounds", "impossible", "failed"]

# Bounds that every finite answer keeps: for the figures of a file that will not be kept.
_NO_BOUNDS = {
    "max_error": 1e30,
    "mean_error": 1e30,
    "sqnr_db": -1e30,
    "argmax_agreement": 0.0,
    "metric_drop": 1e30,
}


@dataclasses.dataclass(frozen=True)
class Trial:
    """What came of one quantization.

    Figures are None (or empty) where there is no file to take them from.

    Attributes:
      name: The quantization.
      layers: Pattern of layer names -> the quantization of those layers.
      verdict: "good"; "beyond bounds", converted, but its answers differ too far; "impossible", not
        to be had for this model and these arguments; "failed", when it was converted or run.
      why: The error where it is not good, otherwise "".
      size_bytes: Size of the file.
      zipped_bytes: Its size after deflate, as in an APK or a download.
      p50_ms: Sequence length -> median latency on this host, where it was measured.
      peak_rss_bytes: Largest resident memory of a process that runs the file, where measured.
      model_metrics: The model's metrics on the examples that were checked.
      file_metrics: The file's.
      primary_metric: The name of the metric that counts, or None without a task.
      argmax_agreement: Share of equal decisions, None where nothing is decided.
      sqnr_db: Signal to quantization noise; None where the answers are equal bit for bit.
      real_inputs: Whether the examples were real, not drawn.
      num_examples: Examples that were checked.
      partitions: XNNPACK's chains of operators, the most of any signature.
    """

    name: str
    layers: dict[str, str]
    verdict: Verdict
    why: str = ""
    size_bytes: int | None = None
    zipped_bytes: int | None = None
    p50_ms: dict[int, float] = dataclasses.field(default_factory=dict)
    peak_rss_bytes: int | None = None
    model_metrics: dict[str, float] = dataclasses.field(default_factory=dict)
    file_metrics: dict[str, float] = dataclasses.field(default_factory=dict)
    primary_metric: str | None = None
    argmax_agreement: float | None = None
    sqnr_db: float | None = None
    real_inputs: bool = True
    num_examples: int = 0
    partitions: int | None = None

    @property
    def metric_drop(self) -> float | None:
        """The primary metric of the model minus that of the file; None without labels."""
        name = self.primary_metric
        if name is None or name not in self.model_metrics or name not in self.file_metrics:
            return None
        return self.model_metrics[name] - self.file_metrics[name]

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values for JSON, with `metric_drop`."""
        values = dataclasses.asdict(self)
        values["p50_ms"] = {str(length): value for length, value in self.p50_ms.items()}
        return {**values, "metric_drop": self.metric_drop}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Trial:
        """Builds a trial from what `as_dict` gave.

        Raises:
          TypeError: If fields are missing or unknown.
        """
        fields = {name: value for name, value in values.items() if name != "metric_drop"}
        fields["p50_ms"] = {int(length): value for length, value in fields["p50_ms"].items()}
        return cls(**fields)


def attempt(
    model: keras.Model,
    file: pathlib.Path,
    quantize: str,
    *,
    layers: Mapping[str, str] | None = None,
    measure: Measure | None = None,
    refused: pathlib.Path | None = None,
    **arguments: Any,
) -> Trial:
    """Exports a model in one quantization and takes its figures.

    Args:
      model: The model.
      file: The .tflite file to write, replaced if it is there; not written unless it is good.
      quantize: The quantization.
      layers: As for `to_tflite`.
      measure: Measures a file: gives "p50_ms" by length and "peak_rss_bytes", as
        `tfdistill.benchmark.glance` does. None leaves these figures out.
      refused: Where a file goes whose answers differ too far: it is converted once more, for its
        figures. None: it gets none.
      **arguments: The other arguments of `to_tflite`.

    Returns:
      The trial. Only what concerns the quantization is caught: an unusable model, vocabulary or
      set of examples raises what `to_tflite` raises.
    """
    layers = dict(layers or {})
    arguments = {**arguments, "quantize": quantize, "layers": layers or None, "overwrite": True}
    task = arguments.get("task")
    try:
        card = to_tflite(model, file, **arguments)
        return _good(card, file, layers, measure, task)
    except errors.ParityError as error:
        far_off = Trial(quantize, layers, "beyond bounds", str(error))
    except errors.ConfigError as error:
        return Trial(quantize, layers, "impossible", str(error))
    except errors.ExportError as error:
        return Trial(quantize, layers, "failed", str(error))
    if refused is None:
        return far_off
    try:
        card = to_tflite(model, refused, **{**arguments, "bounds": _NO_BOUNDS})
    except errors.ExportError:  # not finite, or the signatures disagree: there are no figures
        return far_off
    found = _good(card, refused, layers, measure, task)
    return dataclasses.replace(found, verdict=far_off.verdict, why=far_off.why)


def _good(
    card: Manifest,
    file: pathlib.Path,
    layers: dict[str, str],
    measure: Measure | None,
    task: TaskSpec | None,
) -> Trial:
    measured: Mapping[str, Any] = {} if measure is None else measure(file)
    partitions = [found.partitions for found in delegation.delegate(file).values()]
    parity = card.parity
    assert parity is not None  # to_tflite always compares
    return Trial(
        card.quantization,
        layers,
        "good",
        size_bytes=card.model.size_bytes,
        zipped_bytes=len(zlib.compress(file.read_bytes(), 9)),
        p50_ms=dict(measured.get("p50_ms", {})),
        peak_rss_bytes=measured.get("peak_rss_bytes"),
        model_metrics=dict(parity.model_metrics),
        file_metrics=dict(parity.file_metrics),
        primary_metric=None if task is None else task.primary_metric,
        argmax_agreement=parity.argmax_agreement,
        sqnr_db=parity.sqnr_db,
        real_inputs=parity.inputs == "real",
        num_examples=parity.num_examples,
        partitions=max(partitions, default=None),
    )
