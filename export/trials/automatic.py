"""`auto`: the smallest or fastest quantization that costs no more than it may."""

from __future__ import annotations

import dataclasses
import math
import pathlib
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import tf_keras as keras

from tfdistill import errors, files, models
from tfdistill.manifest import Manifest, read_manifest

from ..checking.layer_errors import culprits, layer_errors
from ..conversion import mixed
from ..conversion import quantize as quantizing
from ..conversion.quantize import Quantization
from ..file import bundle
from ..model import inputs
from .trial import Measure, Report, Trial, attempt

_ROUNDING = 1e-9  # of decimal bounds such as 0.94 - 0.93
# Where some layers of the best file are in float32, others are tried that may save this share.
_LEAST_SAVING = 0.05
_MAX_ROUNDS = 3  # of leaving more layers in float
_MOST_FLOAT_LAYERS = 0.5  # share of the layers: beyond it little is quantized
_PLAINNESS = ("dynamic", "weight_only", "float", "static")


@dataclasses.dataclass(frozen=True)
class _Found:
    """A file that may be taken."""

    trial: Trial
    file: pathlib.Path

    @property
    def latency(self) -> float:
        """Geometric mean of the medians over the lengths, in ms."""
        return math.exp(sum(map(math.log, self.trial.p50_ms.values())) / len(self.trial.p50_ms))

    @property
    def size_bytes(self) -> int:
        """Size of the file."""
        return self.trial.size_bytes or 0


def auto(
    model: keras.Model,
    path: files.Path,
    *,
    names: Sequence[str] | None = None,
    max_drop: float = 0.01,
    prefer: Literal["size", "latency"] = "size",
    measure: Measure | None = None,
    report: Report | None = None,
    overwrite: bool = False,
    **arguments: Any,
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
      max_drop: Most that the task's primary metric of the file may lie below the model's.
      prefer: What is best.
      measure: Measures a file: gives "p50_ms" by length, as `tfdistill.benchmark.glance` does.
        Needed for "latency".
      report: Is told of each trial as soon as it is finished.
      overwrite: Whether existing files may be replaced.
      **arguments: The other arguments of `to_tflite` but `quantize` and `layers`, which are chosen.

    Returns:
      The manifest of the file; `quantization` and `quantized_layers` say what was taken.

    Raises:
      ConfigError: If an argument is not valid.
      DataError: If the examples do not fit the model or the lengths.
      OutputExistsError: If a file is there and `overwrite` is not given.
      ParityError: If no file is good enough; nothing is written.
      ExportError: If none can be had for other reasons.
    """
    order = _order(model, names)
    _check(max_drop, prefer, measure, arguments)
    places = bundle.places(path)
    unknown = dict.fromkeys((places.model, places.manifest, places.golden))
    bundle.check_free(unknown, overwrite=overwrite)
    for examples in ("check_on", "calibrate_on"):
        if arguments.get(examples) is not None:  # an iterator would be used up by the first trial
            arguments[examples] = inputs.collect(arguments[examples])
    arguments["name"] = arguments.get("name") or places.model.stem
    arguments["bounds"] = {"metric_drop": max_drop, **(arguments.get("bounds") or {})}
    with tempfile.TemporaryDirectory(prefix="tfdistill-auto-") as temporary:
        search = _Search(
            model,
            frozenset(quantization.name for quantization in order),
            pathlib.Path(temporary),
            places,
            max_drop,
            prefer,
            measure,
            report,
            arguments,
        )
        for quantization in order:
            search.consider(quantization)
        if search.best is None:
            raise _nothing(search.trials, max_drop)
        return _put(search.best.file, places, overwrite=overwrite)


class _Search:
    """Tries quantizations and keeps the best file so far, each in a folder of its own."""

    def __init__(
        self,
        model: keras.Model,
        allowed: frozenset[str],
        folder: pathlib.Path,
        places: bundle.Places,
        max_drop: float,
        prefer: str,
        measure: Measure | None,
        report: Report | None,
        arguments: Mapping[str, Any],
    ) -> None:
        self.trials: list[Trial] = []
        self.best: _Found | None = None
        self._allowed = allowed
        self._model = model
        self._folder = folder
        self._places = places
        self._max_drop = max_drop
        self._prefer = prefer
        self._measure = measure if prefer == "latency" else None
        self._report = report
        self._arguments = arguments
        self._reference: pathlib.Path | None = None

    def consider(self, quantization: Quantization) -> None:
        """Tries a quantization and, where integers fail, with some layers in float."""
        tried = any(trial.name == quantization.name for trial in self.trials)
        if tried or self._hopeless(quantization):
            return
        trial, file = self._try(quantization.name, {})
        layers: tuple[str, ...] = ()
        for _ in range(_MAX_ROUNDS):
            if self._good(trial) or trial.size_bytes is None or quantization.weight_bits > 8:
                return
            named = self._name_culprits(quantization, file)
            more = tuple(dict.fromkeys((*layers, *named)))
            limit = _MOST_FLOAT_LAYERS * sum(bool(layer.weights) for layer in self._model.layers)
            if more == layers or len(self._weighty(more)) > limit:
                return
            layers = more
            trial, file = self._try(quantization.name, dict.fromkeys(layers, "float32"))

    def _try(self, name: str, layers: dict[str, str]) -> tuple[Trial, pathlib.Path]:
        """Makes a trial; returns it and its file, which may be a refused one or missing."""
        number = len(self.trials)
        file, refused = (self._place(f"{number}"), self._place(f"{number}-refused"))
        trial = attempt(
            self._model,
            file,
            name,
            layers=layers,
            measure=self._measure,
            refused=refused if self._may_mix(name) else None,
            **self._arguments,
        )
        self.trials.append(trial)
        if self._report is not None:
            self._report(trial)
        if name == "float32" and file.is_file():
            self._reference = file
        if self._good(trial) and name in self._allowed:
            found = _Found(trial, file)
            if self.best is None or self._better(found, self.best):
                self.best = found
        return trial, file if trial.verdict == "good" else refused

    def _place(self, name: str) -> pathlib.Path:
        """A file in a folder of its own where its neighbours get the names of the final place."""
        folder = self._folder / name
        folder.mkdir()
        if self._places.manifest.name != "model.json":  # model.json is about another file there
            shutil.copyfile(self._places.model.with_name("model.json"), folder / "model.json")
        return folder / self._places.model.name

    def _good(self, trial: Trial) -> bool:
        drop = trial.metric_drop
        return trial.verdict == "good" and (drop is None or drop <= self._max_drop + _ROUNDING)

    def _better(self, one: _Found, other: _Found) -> bool:
        if self._prefer == "latency":
            return one.latency < other.latency
        return one.size_bytes < other.size_bytes

    def _hopeless(self, quantization: Quantization) -> bool:
        """Whether a quantization could not be smaller by enough than the best file."""
        if self.best is None or self._prefer == "latency":
            return False
        trial = self.best.trial
        bits = quantizing.quantization(trial.name).bytes_per_weight
        if not trial.layers and bits <= quantization.bytes_per_weight:
            return True
        least = _least_bytes(self._model, quantization)
        return least > (1 - _LEAST_SAVING) * self.best.size_bytes

    def _may_mix(self, name: str) -> bool:
        return quantizing.quantization(name).weight_bits <= 8

    def _name_culprits(self, quantization: Quantization, file: pathlib.Path) -> tuple[str, ...]:
        """The layers that add most of a file's error; none where it cannot be told."""
        if self._reference is None:
            self._try("float32", {})
        if self._reference is None:
            return ()
        examples = self._arguments.get("check_on")
        if examples is None:
            signatures = read_manifest(self._reference, verify=False).signatures.values()
            lengths = sorted(entry.sequence_length for entry in signatures)
            examples = inputs.draw(models.config_of(self._model), lengths)
        names = [layer.name for layer in self._model.layers]
        found = layer_errors(self._reference, file, examples, names)
        if quantization.method != "static":  # nothing but matrices is quantized
            matrices = set(mixed.with_matrices(self._model))
            found = [dataclasses.replace(error, readers=()) for error in found]
            found = [error for error in found if error.layer in matrices]
        return culprits(found)

    def _weighty(self, layers: Sequence[str]) -> list[str]:
        held = {layer.name for layer in self._model.layers if layer.weights}
        return [name for name in layers if name in held]


def _check(
    max_drop: float, prefer: str, measure: Measure | None, arguments: Mapping[str, Any]
) -> None:
    faults = []
    if not 0 <= max_drop <= 1:
        faults.append(errors.explain("max_drop", "a drop from 0 to 1", max_drop))
    if prefer not in ("size", "latency"):
        faults.append(errors.explain("prefer", "'size' or 'latency'", repr(prefer)))
    if prefer == "latency" and measure is None:
        faults.append(
            errors.explain(
                "prefer='latency'",
                "measure, a function from a file to its latencies",
                "none",
                "Pass measure=tfdistill.benchmark.glance.",
            )
        )
    for argument in ("quantize", "layers"):
        if arguments.get(argument) is not None:
            faults.append(
                errors.explain(
                    argument, "none: auto chooses", arguments[argument], "Use to_tflite for it."
                )
            )
    if faults:
        raise errors.ConfigError("\n".join(faults))


def _order(model: keras.Model, names: Sequence[str] | None) -> list[Quantization]:
    """The quantizations from the smallest to the largest; of one size the plainest first."""
    chosen = list(quantizing.quantizations()) if names is None else list(dict.fromkeys(names))
    if not chosen:
        raise errors.ConfigError("names", "at least one quantization", "none")
    values = [quantizing.quantization(name) for name in chosen]
    return sorted(
        values,
        key=lambda value: (
            value.bytes_per_weight,
            _PLAINNESS.index(value.method),
            _least_bytes(model, value),
        ),
    )


def _least_bytes(model: keras.Model, quantization: Quantization) -> float:
    """Bytes of the weights alone: what no file of that quantization undercuts."""
    matrices = sum(int(weight.shape.num_elements()) for weight in model.weights if _wide(weight))
    others = sum(int(weight.shape.num_elements()) for weight in model.weights if not _wide(weight))
    least = min(quantization.bytes_per_constant)
    return matrices * quantization.bytes_per_weight + others * least


def _wide(weight: Any) -> bool:
    return len(weight.shape) > 1


def _nothing(trials: Sequence[Trial], max_drop: float) -> errors.TfdistillError:
    """The error for a search that found nothing."""
    lines = []
    for trial in trials:
        kept = f" with {', '.join(trial.layers)} in float32" if trial.layers else ""
        if trial.verdict == "good":
            why = f"{trial.primary_metric} falls by {trial.metric_drop:.4g}"
        else:
            why = trial.why.replace("\n", " ")
        lines.append(f"  - {trial.name}{kept}: {why}")
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


def _put(file: pathlib.Path, places: bundle.Places, *, overwrite: bool) -> Manifest:
    """Moves an export to its place, all of its files or none."""
    made = bundle.places(file)
    contents: dict[pathlib.Path, bytes | pathlib.Path] = {}
    pairs = zip(dataclasses.astuple(made), dataclasses.astuple(places), strict=True)
    for source, target in sorted(pairs, key=lambda pair: pair[0] == made.manifest):  # the last
        if source.is_file():
            contents[target] = source if source == made.model else source.read_bytes()
    known = {
        target: None if isinstance(content, pathlib.Path) else content
        for target, content in contents.items()
    }
    bundle.check_free(known, overwrite=overwrite)
    bundle.write(contents)
    return read_manifest(places.model)
