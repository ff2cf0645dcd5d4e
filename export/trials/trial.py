"""Files that are tried: one with its figures in any case, and all of a search for one path."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import pathlib
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tfdistill import errors
from tfdistill.io import files
from tfdistill.manifest import Manifest, read_manifest
from tfdistill.results import Trial
from tfdistill.tflite import TfliteModel
from tfdistill.tflite.agreement import Bounds

from ..checking.confidence import at_temperature
from ..checking.evidence import FloatConversion
from ..checking.verify import verify
from ..conversion import convert
from ..conversion import quantize as quantizing
from ..conversion.prepare import make_plan
from ..file import bundle
from ..model.request import ExportRequest
from ..targets.tflite import check_free, refuse_weak, write

Measure = Callable[[pathlib.Path], Mapping[str, Any]]
Report = Callable[[Trial], None]

ROUNDING = 1e-9  # of decimal bounds such as 0.94 - 0.93
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
    names = [request.quantize, *(request.layers or {}).values()]
    worth = functools.reduce(Bounds.loosest, (quantizing.quantization(n).bounds for n in names))
    held = request.replace(bounds={**worth.as_dict(), **(request.bounds or {})})

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


def drop_faults(max_drop: float) -> list[str]:
    """Lists what is wrong with the most that a metric may fall."""
    if 0 <= max_drop <= 1:
        return []
    return [errors.explain("max_drop", "a drop from 0 to 1", max_drop)]


@dataclasses.dataclass
class Trials:
    """The files that a search tries, each in a folder of its own, and the figures of all."""

    request: ExportRequest  # of the file that is looked for: a trial changes parts of it
    folder: pathlib.Path  # where the files go
    measure: Measure | None = None  # measures a file
    report: Report | None = None  # called with the figures of each
    rows: list[Trial] = dataclasses.field(default_factory=list)

    def attempt(
        self, request: ExportRequest, floats: FloatConversion
    ) -> tuple[Trial, pathlib.Path]:
        """Tries one; returns its figures and its file, which is there if it is good."""
        file = self._new_file(f"{len(self.rows)}")
        request = request.replace(path=file, name=self.request.manifest_name)
        trial = attempt(request, floats=floats, measure=self.measure)
        self.rows.append(trial)
        if self.report is not None:
            self.report(trial)
        return trial, file

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

    def deliver(self, file: pathlib.Path) -> Manifest:
        """Moves a file to the path of the request, with all that belongs to it or not at all."""
        tokenizer = self.request.tokenizer
        sources, paths = (bundle.paths_of(path, tokenizer) for path in (file, self.request.path))
        contents: dict[pathlib.Path, bytes | pathlib.Path] = {}
        pairs = zip(dataclasses.astuple(sources), dataclasses.astuple(paths), strict=True)
        for source, target in sorted(pairs, key=lambda pair: pair[0] == sources.manifest):  # last
            if source.is_file():
                contents[target] = source if source == sources.model else source.read_bytes()
        small = {
            target: None if isinstance(content, pathlib.Path) else content
            for target, content in contents.items()
        }
        bundle.check_free(small, overwrite=self.request.overwrite)
        bundle.write(contents)
        manifest = read_manifest(paths.model)
        bundle.write_card(paths.model, manifest)
        return manifest


@contextlib.contextmanager
def trials(
    request: ExportRequest, *, measure: Measure | None = None, report: Report | None = None
) -> Iterator[Trials]:
    """Refuses a path that is taken, and holds the folder of the files while a search lasts."""
    paths = bundle.paths_of(request.path)
    unknown = dict.fromkeys((paths.model, paths.manifest, paths.golden))
    bundle.check_free(unknown, overwrite=request.overwrite)
    with files.temporary_folder("trials") as folder:
        yield Trials(request.collected(), folder, measure, report)
