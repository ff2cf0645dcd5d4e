"""What a report is made of: run folders, results, sweeps of quantizations, folders of these."""

from __future__ import annotations

import collections
import dataclasses
import json
import pathlib
from collections.abc import Sequence
from typing import Any

import pydantic

from tfdistill import errors, files
from tfdistill.benchmark import result as results_of
from tfdistill.report import schema
from tfdistill.report.devices import Named

_METRICS, _BENCHMARK, _SWEEP = "metrics.json", "benchmark.json", "sweep.json"
_RECIPE = "recipe.yaml"
_DEEPEST = 3  # folders below the one that was named


@dataclasses.dataclass(frozen=True)
class Swept:
    """A sweep of quantizations and what it is called here."""

    label: str
    sweep: schema.Sweep


@dataclasses.dataclass(frozen=True)
class Collection:
    """All that a comparison is made of.

    Attributes:
      results: The benchmark results, each with a name of its own.
      sweeps: The sweeps.
      synthetic: Names of the results whose models were trained on synthetic data.
      unmeasured: Names of runs without a measurement.
    """

    results: tuple[Named, ...] = ()
    sweeps: tuple[Swept, ...] = ()
    synthetic: tuple[str, ...] = ()
    unmeasured: tuple[str, ...] = ()


def gather(paths: Sequence[files.Path]) -> Collection:
    """Reads everything that a comparison is made of.

    Args:
      paths: Run folders, benchmark results, folders of `tfdistill quantizations`, or folders that
        hold such things. What is named twice counts once.

    Returns:
      What was found.

    Raises:
      DataError: If a path holds nothing of the kind, or a file is malformed.
      BenchmarkError: If a benchmark result is malformed or of another format.
    """
    found: list[pathlib.Path] = []
    for path in map(pathlib.Path, paths):
        here = _below(path, 0) if path.is_dir() else [path]
        if not here:
            raise errors.DataError(_nothing_in(path))
        found += here
    unique = list({path.resolve(): path for path in found}.values())
    labels = dict(zip(unique, _labels(unique), strict=True))
    results, sweeps, synthetic, unmeasured = [], [], [], []
    for path, label in labels.items():
        if path.name == _METRICS:
            unmeasured.append(label)
        elif path.name == _SWEEP:
            sweeps.append(Swept(label, read_sweep(path)))
        else:
            results.append(Named(label, results_of.read_result(path)))
            if _is_synthetic(path):
                synthetic.append(label)
    return Collection(tuple(results), tuple(sweeps), tuple(synthetic), tuple(unmeasured))


def _nothing_in(path: pathlib.Path) -> str:
    received = "neither benchmark.json nor sweep.json nor metrics.json in it"
    remedy = "`tfdistill benchmark MODEL --out FILE.json` makes a result."
    if (path / _RECIPE).is_file():
        received = "a run without results"
        remedy = (
            "One of `tfdistill run` goes on with --resume. Those of finetune, distill and compress "
            f"compare nothing: export the model, then {remedy}"
        )
    return errors.explain(
        f"{path}", "a finished run, a benchmark result, or a folder of them", received, remedy
    )


def is_run(path: files.Path) -> bool:
    """Whether a path is a folder that `tfdistill run` fills."""
    folder = pathlib.Path(path)
    return (folder / _METRICS).is_file() or (folder / _BENCHMARK).is_file()


def other_results(folder: pathlib.Path) -> list[pathlib.Path]:
    """The results of other devices beside a run's own: benchmark-<device>.json."""
    return sorted(path for path in folder.glob("benchmark-*.json") if path.is_file())


def read_sweep(path: files.Path) -> schema.Sweep:
    """Reads a sweep.json.

    Raises:
      DataError: If it is missing or malformed.
    """
    try:
        return schema.Sweep.model_validate_json(pathlib.Path(path).read_bytes())
    except (OSError, pydantic.ValidationError) as error:
        raise errors.DataError(
            errors.explain(
                f"{path}",
                "a sweep.json of format_version 1",
                f"{error}".splitlines()[0],
                "`tfdistill quantizations MODEL --out DIR` writes it.",
            )
        ) from error


def _below(folder: pathlib.Path, depth: int) -> list[pathlib.Path]:
    """The files in a folder, and in those below it, that can be reported."""
    here = [path for path in (folder / _BENCHMARK, folder / _SWEEP) if path.is_file()]
    here += other_results(folder)
    if (folder / _METRICS).is_file():  # a run's own folders are its own business
        return here or [folder / _METRICS]
    others = (path for path in sorted(folder.glob("*.json")) if path not in here)
    here += [path for path in others if _is_result(path)]
    if depth < _DEEPEST and not (folder / _SWEEP).is_file():
        for inner in sorted(path for path in folder.iterdir() if path.is_dir()):
            if not inner.name.startswith(".") and not inner.is_symlink():
                here += _below(inner, depth + 1)
    return here


def _is_result(path: pathlib.Path) -> bool:
    """Whether a file among others is a result, be it of an older format, which is an error."""
    if not path.is_file():
        return False
    value = _value(path)
    keys = set(value) if isinstance(value, dict) else set()
    return {"kind", "models"} <= keys and bool(keys & {"device", "environment"})


def _value(path: pathlib.Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise errors.DataError(
            errors.explain(f"{path}", "JSON", error, "Was it copied whole?")
        ) from error


def _is_synthetic(path: pathlib.Path) -> bool:
    metrics = path.parent / _METRICS
    value = _value(metrics) if metrics.is_file() else {}
    return isinstance(value, dict) and value.get("synthetic_data") is True


def _labels(paths: Sequence[pathlib.Path]) -> list[str]:
    """Short names that tell paths apart: as many folders of each as it takes."""
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
    """The folders and the name of a path; a name that every run uses says nothing."""
    whole = path.resolve()
    if whole.name in (_BENCHMARK, _SWEEP, _METRICS):
        return whole.parent.parts[1:]
    return (*whole.parent.parts[1:], whole.stem)
