"""`auto`: the smallest or fastest quantization that costs no more than it may."""

from __future__ import annotations

import dataclasses
import functools
import math
import pathlib
import shutil
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import tf_keras as keras

from tfdistill import errors, models
from tfdistill.data.task_data import TaskData
from tfdistill.io import files
from tfdistill.manifest import Manifest, read_manifest
from tfdistill.results import Trial
from tfdistill.tasks import Examples, TaskSpec
from tfdistill.tasks.encoded import Truncation

from ..checking.evidence import FloatConversion
from ..checking.layer_errors import culprits, layer_errors
from ..conversion import prepare
from ..conversion import quantize as quantizing
from ..conversion.quantize import Quantization
from ..file import bundle
from ..model import inputs
from ..model.request import ExportRequest
from .trial import Measure, Report, attempt

_ROUNDING = 1e-9  # of decimal bounds such as 0.94 - 0.93
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
    data: TaskData | None = None,
    device: str = "cpu",
    lengths: Sequence[int] | None = None,
    softmax: bool = False,
    check_on: Any = None,
    promise_on: Any = None,
    calibrate_on: Any = None,
    num_calibration: int = 200,
    seed: int = 1,
    texts: Examples | None = None,
    task: TaskSpec | None = None,
    vocab_file: files.Path | None = None,
    lower_case: bool | None = None,
    truncation: Truncation = "end",
    labels: Sequence[str] | None = None,
    bounds: Mapping[str, float] | None = None,
    metadata: bool | None = None,
    allow_weak: bool = False,
    overwrite: bool = False,
    name: str | None = None,
    timeout_s: float = 1800,
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
      data: As for `to_tflite`, as all that follow; quantization and layers are chosen.
      device: As there.
      lengths: As there.
      softmax: As there.
      check_on: As there.
      promise_on: As there.
      calibrate_on: As there.
      num_calibration: As there.
      seed: As there.
      texts: As there.
      task: As there.
      vocab_file: As there.
      lower_case: As there.
      truncation: As there.
      labels: As there.
      bounds: As there.
      metadata: As there.
      allow_weak: As there.
      overwrite: As there.
      name: As there.
      timeout_s: As there.

    Returns:
      The manifest of the file; `quantization` and `quantized_layers` have what was chosen.

    Raises:
      ConfigError: If an argument is not valid.
      DataError: If the examples do not fit the model or the lengths.
      OutputExistsError: If a file is there and `overwrite` is not given.
      ParityError: If no file is good enough; nothing is written.
      ExportError: If none can be had for other reasons.
    """
    order = _order(model, names)
    _check(max_drop, prefer, measure)
    request = ExportRequest(
        model,
        path,
        data=data,
        device=device,
        lengths=lengths,
        softmax=softmax,
        check_on=check_on,
        promise_on=promise_on,
        calibrate_on=calibrate_on,
        num_calibration=num_calibration,
        seed=seed,
        texts=texts,
        task=task,
        vocab_file=vocab_file,
        lower_case=lower_case,
        truncation=truncation,
        labels=labels,
        bounds=bounds,
        metadata=metadata,
        allow_weak=allow_weak,
        overwrite=overwrite,
        name=name,
        timeout_s=timeout_s,
    )
    paths = bundle.paths_of(path)
    unknown = dict.fromkeys((paths.model, paths.manifest, paths.golden))
    bundle.check_free(unknown, overwrite=request.overwrite)
    request = request.collected().replace(
        name=request.manifest_name, bounds={"metric_drop": max_drop, **(request.bounds or {})}
    )
    with files.temporary_folder("auto") as temporary:
        search = _Search(
            request,
            frozenset(quantization.name for quantization in order),
            temporary,
            max_drop,
            measure if prefer == "latency" else None,
            report,
        )
        for quantization in order:
            search.consider(quantization)
        if search.best is None:
            raise _nothing(search.trials, max_drop)
        chosen = move(search.best[1], paths, overwrite=request.overwrite)
    bundle.write_card(paths.model, chosen)
    return chosen


@dataclasses.dataclass
class _Search:
    """Tries quantizations and keeps the best file so far, each in a folder of its own."""

    request: ExportRequest  # each trial changes its path, quantization and layers
    allowed: frozenset[str]  # names of the quantizations that may be taken
    folder: pathlib.Path  # where the files of the trials go
    max_drop: float  # most that the primary metric may fall
    # measures a file, where the fastest is the best; None where the smallest is
    measure: Measure | None
    report: Report | None  # called with each trial
    trials: list[Trial] = dataclasses.field(default_factory=list)
    best: tuple[Trial, pathlib.Path] | None = None  # the best trial so far and its file
    _float_file: pathlib.Path | None = None  # a good one

    @functools.cached_property
    def _floats(self) -> FloatConversion:
        """What all trials are made of."""
        return FloatConversion(self.folder / "float32.tflite")

    def consider(self, quantization: Quantization) -> None:
        """Tries a quantization and, where integers fail, with some layers in float."""
        tried = any(trial.name == quantization.name for trial in self.trials)
        if tried or self._hopeless(quantization):
            return
        trial, file = self._try(quantization.name, {})
        layers: tuple[str, ...] = ()
        weighty = {layer.name for layer in self.request.model.layers if layer.weights}
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
        number = len(self.trials)
        file, refused = self._new_file(f"{number}"), self._new_file(f"{number}-refused")
        may_mix = quantizing.quantization(name).weight_bits <= 8
        trial = attempt(
            self.request.replace(path=file, quantize=name, layers=layers),
            floats=self._floats,
            measure=self.measure,
            refused=refused if may_mix else None,
        )
        self.trials.append(trial)
        if self.report is not None:
            self.report(trial)
        if name == "float32" and file.is_file():
            self._float_file = file
        eligible = self._good(trial) and name in self.allowed
        if eligible and (self.best is None or self._cost(trial) < self._cost(self.best[0])):
            self.best = trial, file
        return trial, file if trial.verdict == "good" else refused

    def _new_file(self, name: str) -> pathlib.Path:
        """Returns a file in a folder of its own, where it gets the manifest's name of the target.

        That is not model.json where the target's model.json is about another file.
        """
        folder = self.folder / name
        folder.mkdir()
        target = bundle.paths_of(self.request.path)
        if target.manifest.name != "model.json":
            shutil.copyfile(target.model.with_name("model.json"), folder / "model.json")
        return folder / target.model.name

    def _good(self, trial: Trial) -> bool:
        drop = trial.metric_drop
        return trial.verdict == "good" and (drop is None or drop <= self.max_drop + _ROUNDING)

    def _cost(self, trial: Trial) -> float:
        """Returns the size or, where speed counts, the geometric mean of the medians in ms."""
        if self.measure is None:
            return trial.size_bytes or 0
        return math.exp(sum(map(math.log, trial.p50_ms.values())) / len(trial.p50_ms))

    def _hopeless(self, quantization: Quantization) -> bool:
        """Whether a quantization could not be smaller by enough than the best file."""
        if self.best is None or self.measure is not None:
            return False
        trial = self.best[0]
        bits = quantizing.quantization(trial.name).bytes_per_weight
        if not trial.layers and bits <= quantization.bytes_per_weight:
            return True
        least = _least_bytes(self.request.model, quantization)
        return least > (1 - _LEAST_SAVING) * (trial.size_bytes or 0)

    def _name_culprits(self, quantization: Quantization, file: pathlib.Path) -> tuple[str, ...]:
        """Returns the layers that add most of a file's error; none where no file is exact."""
        if self._float_file is None:
            self._try("float32", {})
        if self._float_file is None:
            return ()
        model, examples = self.request.model, self.request.check_on
        if examples is None:
            examples = inputs.draw(models.config_of(model), sorted(self.request.chosen_lengths))
        names = [layer.name for layer in model.layers]
        layers = layer_errors(self._float_file, file, examples, names)
        if quantization.method != "static":  # nothing but matrices is quantized
            matrices = set(prepare.with_matrices(model))
            layers = [dataclasses.replace(error, readers=()) for error in layers]
            layers = [error for error in layers if error.layer in matrices]
        return culprits(layers)


def _check(max_drop: float, prefer: str, measure: Measure | None) -> None:
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
    least = min(quantization.bytes_per_constant)
    return sum(
        int(weight.shape.num_elements())
        * (quantization.bytes_per_weight if len(weight.shape) > 1 else least)
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


def move(file: pathlib.Path, paths: bundle.ExportPaths, *, overwrite: bool) -> Manifest:
    """Moves an export to its paths, all of its files or none."""
    sources = bundle.paths_of(file)
    contents: dict[pathlib.Path, bytes | pathlib.Path] = {}
    pairs = zip(dataclasses.astuple(sources), dataclasses.astuple(paths), strict=True)
    for source, target in sorted(pairs, key=lambda pair: pair[0] == sources.manifest):  # the last
        if source.is_file():
            contents[target] = source if source == sources.model else source.read_bytes()
    small = {
        target: None if isinstance(content, pathlib.Path) else content
        for target, content in contents.items()
    }
    bundle.check_free(small, overwrite=overwrite)
    bundle.write(contents)
    return read_manifest(paths.model)
