"""Reads what a comparison shows: run folders, results, sweeps, folders of these."""

from __future__ import annotations

import collections
import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

from tfdistill import config, errors, manifest, results
from tfdistill.benchmark import result as benchmark_result
from tfdistill.io import files, reading
from tfdistill.report.devices import NamedResult
from tfdistill.results import METRICS_FILE, SWEEP_FILE

_BENCHMARK = "benchmark.json"
_DEEPEST = 3  # folders below the one that was named


@dataclasses.dataclass(frozen=True)
class NamedSweep:
    """A sweep of quantizations and its name in the report."""

    label: str
    sweep: results.SweepResults


@dataclasses.dataclass(frozen=True)
class Collection:
    """The results that a comparison shows."""

    results: tuple[NamedResult, ...] = ()  # of benchmarks, each with a name of its own
    sweeps: tuple[NamedSweep, ...] = ()
    synthetic: tuple[str, ...] = ()  # results whose models were trained on synthetic data
    unmeasured: tuple[str, ...] = ()  # runs and exports without a measurement


def gather(paths: Sequence[files.Path]) -> Collection:
    """Reads the results that a comparison shows.

    `paths` are run folders, export folders, benchmark results, folders of `tfdistill export
    --list`, or folders that hold such things; one that holds nothing of the kind, or something
    malformed, is refused. A path that occurs twice counts once.
    """
    result_files: list[pathlib.Path] = []
    for path in map(pathlib.Path, paths):
        here = _below(path, 0) if path.is_dir() else [path]
        here = [file for file in here if file.suffix != ".tflite"]
        if not here and files.is_there(path / manifest.FILE_NAME):
            here = [path / manifest.FILE_NAME]  # an export that nobody measured
        if not here:
            raise errors.DataError(_nothing_in(path))
        result_files += here
    unique = list({path.resolve(): path for path in result_files}.values())
    labels = dict(zip(unique, _labels(unique), strict=True))
    measured, sweeps, synthetic, unmeasured = [], [], [], []
    for path, label in labels.items():
        if path.name in (METRICS_FILE, manifest.FILE_NAME):
            unmeasured.append(label)
        elif path.name == SWEEP_FILE:
            sweeps.append(NamedSweep(label, results.read_result_file(path, results.SweepResults)))
        else:
            measured.append(NamedResult(label, benchmark_result.read_result(path)))
            of_run = path.parent / METRICS_FILE
            if files.is_there(of_run) and _object(of_run).get("synthetic_data") is True:
                synthetic.append(label)
    return Collection(tuple(measured), tuple(sweeps), tuple(synthetic), tuple(unmeasured))


def _nothing_in(path: pathlib.Path) -> str:
    received = "neither benchmark.json nor sweep.json nor metrics.json in it"
    remedy = "`tfdistill benchmark MODEL --out FILE.json` makes a result."
    if path.is_file():
        received, remedy = "a model", f"Name the folder of its export. {remedy}"
    if (path / config.RECIPE_FILE).is_file():
        received, remedy = "a run without results", "Continue it with --resume."
    return errors.explain(
        f"{path}", "a finished run, a benchmark result, or a folder of them", received, remedy
    )


def other_results(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the results of other devices in a run folder: benchmark-<device>.json."""
    return sorted(path for path in folder.glob("benchmark-*.json") if files.is_there(path))


def _below(folder: pathlib.Path, depth: int) -> list[pathlib.Path]:
    """Returns the files in a folder, and in those below it, that can be reported."""
    here = [path for path in (folder / _BENCHMARK, folder / SWEEP_FILE) if files.is_there(path)]
    here += other_results(folder)
    if files.is_there(folder / METRICS_FILE):  # not the folders of a run's models
        return here or [folder / METRICS_FILE]
    others = (path for path in sorted(folder.glob("*.json")) if path not in here)
    here += [path for path in others if _is_result(path)]
    if depth < _DEEPEST and not files.is_there(folder / SWEEP_FILE):
        for inner in sorted(path for path in folder.iterdir() if path.is_dir()):
            if not inner.name.startswith(".") and not inner.is_symlink():
                here += _below(inner, depth + 1)
    return here


def _is_result(path: pathlib.Path) -> bool:
    """Whether a JSON file is a result; one of an older format is, too, and is then an error."""
    keys = set(_object(path)) if path.is_file() else set()
    return {"kind", "models"} <= keys and bool(keys & {"device", "environment"})


def _object(path: pathlib.Path) -> dict[str, Any]:
    value = reading.read_json(path, remedy="Was it copied whole?")
    return value if isinstance(value, dict) else {}


def _labels(paths: Sequence[pathlib.Path]) -> list[str]:
    """Short unique names of paths: as many folders of each as needed."""
    parts = [_parts(path) for path in paths]
    deepest = max((len(part) for part in parts), default=1)
    for depth in range(1, deepest + 1):
        names = ["/".join(part[-depth:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    counted: collections.Counter[str] = collections.Counter()
    written = []
    for name in map("/".join, parts):
        counted[name] += 1
        written.append(f"{name} #{counted[name]}" if counted[name] > 1 else name)
    return written


def _parts(path: pathlib.Path) -> tuple[str, ...]:
    """The folders and the name of a path; a name that every run uses is left out."""
    whole = path.resolve()
    if whole.name in (_BENCHMARK, SWEEP_FILE, METRICS_FILE, manifest.FILE_NAME):
        return whole.parent.parts[1:]
    return (*whole.parent.parts[1:], whole.stem)
