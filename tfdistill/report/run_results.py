"""Reads a run folder. What is missing is listed; what is malformed is an error."""

from __future__ import annotations

import csv
import dataclasses
import functools
import io
import math
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tfdistill import config, errors, manifest, results
from tfdistill.benchmark import result as benchmark_result
from tfdistill.benchmark import schema as measured
from tfdistill.data import answers
from tfdistill.data.answers import LabelledAnswers
from tfdistill.io import files, reading, safe_paths
from tfdistill.report import collection
from tfdistill.report.devices import NamedResult

Value = TypeVar("Value")
_REPORTED = (results.METRICS_FILE, "benchmark.json", manifest.FILE_NAME)
_NOTES = ("data/model_answers.json", "teacher/finetune/targets.json")
_SAME_METRIC = 1e-3  # between a metric and that of the logarithms of a file's probabilities
_EXPORTS = f"export*/{manifest.FILE_NAME}"  # what `tfdistill export RUN` writes


@dataclasses.dataclass(frozen=True)
class StageHistory:
    """The training history of one stage of one model."""

    model: str  # name of the variant
    seed: int | None  # seed of the model
    stage: str  # name of the stage
    # values by column of history.csv; None where a row has none
    columns: dict[str, list[float | None]]

    @property
    def label(self) -> str:
        """The variant and the seed."""
        return self.model if self.seed is None else f"{self.model}, seed {self.seed}"

    def values(self, column: str) -> list[float]:
        """Returns the values of a column that are known."""
        return [value for value in self.columns.get(column, []) if value is not None]

    def points(self, column: str) -> tuple[tuple[float, float], ...]:
        """Returns epochs and values of a column; steps as fractions where epochs repeat."""
        values = self.columns.get(column)
        if values is None:
            return ()
        xs, steps = self.columns.get("epoch", []), self.columns.get("step", [])
        if steps and not len(set(xs)) == len(xs) > 0:
            last_epoch = max(self.values("epoch"), default=0.0)
            last_step = max(self.values("step"), default=0.0)
            scale = last_epoch / last_step if last_epoch and last_step else 1.0
            xs = [None if step is None else step * scale for step in steps]
        pairs = enumerate(zip(xs or [None] * len(values), values, strict=True), start=1)
        return tuple((float(i) if x is None else x, y) for i, (x, y) in pairs if y is not None)


@dataclasses.dataclass(frozen=True)
class RunResults:
    """The contents of a run folder.

    Attributes:
      name: Name of the run.
      metrics: metrics.json, or None.
      benchmark: benchmark.json, or None.
      answers: What models and files answered on the development set, by folder of the
        model, or "file" and name of the export.
      test_answers: What teacher, student, file and majority answered on the test set, or None.
      others: benchmark-*.json: the same files on other devices.
      manifests: model.json by name of the export.
      histories: One for each stage that has a history; a stage that models share occurs once.
      recipe: The resolved recipe as text, or None.
      environment: environment.json, or None.
      missing: A sentence for each file that is missing.
      answer_notes: What the data hold of a model's answers, and what was learnt of them.
      suspects: The rows of suspects.csv: texts, answer, the other answer, probability.
    """

    name: str
    metrics: results.RunMetrics | None = None
    benchmark: measured.Result | None = None
    others: tuple[NamedResult, ...] = ()
    manifests: dict[str, manifest.Manifest] = dataclasses.field(default_factory=dict)
    histories: tuple[StageHistory, ...] = ()
    answers: dict[str, LabelledAnswers] = dataclasses.field(default_factory=dict)
    test_answers: LabelledAnswers | None = None
    recipe: str | None = None
    environment: dict[str, Any] | None = None
    missing: tuple[str, ...] = ()
    answer_notes: tuple[str, ...] = ()
    suspects: tuple[Sequence[str], ...] = ()

    @property
    def stage_kinds(self) -> dict[str, str]:
        """The kind of each stage of the recipe by its name."""
        stages = self._sections.get("stages")
        stages = stages if isinstance(stages, dict) else {}
        described = {name: stage for name, stage in stages.items() if isinstance(stage, dict)}
        return {name: stage.get("kind", name) for name, stage in described.items()}

    @property
    def cross_fitted(self) -> bool:
        """Whether every figure is of rows that the head had not seen, fold by fold."""
        section = self._sections.get("data")
        return isinstance(section, dict) and section.get("cross_fitted") is True

    @property
    def recipe_export(self) -> dict[str, Any]:
        """The recipe's options for the student's file; {} where they are not known."""
        section = self._sections.get("export")
        return section if isinstance(section, dict) else {}

    @functools.cached_property
    def _sections(self) -> dict[str, Any]:
        """The recipe, which every chapter asks for something."""
        return reading.parse_yaml(self.recipe or "{}", "recipe")


def is_run(path: files.Path) -> bool:
    """Whether a path is a folder of one run or of one export, with something to report."""
    folder = pathlib.Path(path)
    return any(files.is_there(folder / name) for name in _REPORTED)


def collect(run_dir: files.Path, *, texts: bool = True) -> RunResults:
    """Reads the results of a run, or of an export outside a run, and what is missing.

    `texts` says whether the texts that models answered are read. Refuses a folder that holds none
    of metrics.json, benchmark.json and model.json, files that are malformed or of another format,
    and paths that leave the folder.
    """
    folder = pathlib.Path(run_dir)
    if not is_run(folder):
        raise errors.DataError(
            f"run folder {folder}",
            "metrics.json, benchmark.json or model.json",
            "none of them" if folder.is_dir() else "no such folder",
            "`tfdistill run`, `finetune`, `distill`, `compress` and `export` write them.",
        )
    missing: list[str] = []
    metrics = _metrics(folder)
    benchmark = _optional(folder / "benchmark.json", benchmark_result.read_result)
    others = tuple(
        NamedResult(path.stem, benchmark_result.read_result(path))
        for path in collection.other_results(folder)
    )
    manifests = {}
    if metrics is not None:
        manifests = _manifests(folder, metrics, missing)
    elif files.is_there(folder / manifest.FILE_NAME):
        manifests = {"exported": manifest.read_manifest(folder, verify=False)}
    folders = dict.fromkeys(manifests, folder)
    if metrics is not None:
        folders = {e.name: safe_paths.inside(folder, e.manifest).parent for e in metrics.exports}
    for name, card in manifests.items():
        file = safe_paths.inside(folders[name], card.model.file)
        if files.is_there(file) and files.sha256_of(file) != card.model.sha256:
            missing.append(
                f"The {name} file has changed since its export; figures are of the exported one."
            )
    if metrics is None and not manifests:
        missing.append("metrics.json is missing: nothing is known of how the models were trained.")
    if benchmark is None and manifests:
        missing.append(
            "benchmark.json is missing: latency was not measured (command: "
            "tfdistill benchmark --out)."
        )
    name = metrics.recipe if metrics is not None else folder.resolve().name
    recipe = _optional(folder / "recipe.yaml", reading.read_text)
    environment = _optional(folder / config.ENVIRONMENT_FILE, reading.read_json_object)
    if recipe is not None:
        file = folder / config.RECIPE_FILE
        config.check_saved_recipe(file)
        value = reading.parse_yaml(recipe, f"{file}", error=errors.DataError)
        if not isinstance(value, dict):
            raise errors.DataError(f"{file}", "a mapping", type(value).__name__)
    elif metrics is not None or not manifests:  # an export has none
        missing.append("recipe.yaml is missing: the settings of the run are not recorded.")
    if environment is None and (metrics is not None or not manifests):
        missing.append("environment.json is missing: versions and commit are not recorded.")
    return RunResults(
        name=name,
        metrics=metrics,
        benchmark=benchmark,
        others=others,
        manifests=manifests,
        histories=() if metrics is None else _histories(folder, metrics, missing),
        answers={
            name: _without_texts(answers, texts)
            for name, answers in _answers(folder, metrics, manifests, folders, missing).items()
        },
        test_answers=_test_answers(folder, metrics, manifests, missing, texts),
        recipe=recipe,
        environment=environment,
        missing=tuple(missing),
        answer_notes=tuple(
            note
            for name in _NOTES
            for note in (_optional(folder / name, reading.read_json_object) or {}).get("notes", ())
        ),
        suspects=_suspects(folder / "suspects.csv") if texts else (),
    )


def _suspects(path: pathlib.Path) -> tuple[list[str], ...]:
    text = _optional(path, reading.read_text) or ""
    return tuple(csv.reader(io.StringIO(text, newline="")))[1:]


def read_history(text: str) -> dict[str, list[float | None]]:
    """Parses a history.csv into columns; cells that hold no finite number become None."""
    rows = list(csv.DictReader(text.splitlines()))
    names = list(rows[0]) if rows else []
    return {name: [_number(row.get(name)) for row in rows] for name in names if name}


def _number(cell: str | None) -> float | None:
    try:
        value = float(cell or "nan")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _manifests(
    folder: pathlib.Path, metrics: results.RunMetrics, missing: list[str]
) -> dict[str, manifest.Manifest]:
    manifests = {}
    for export in metrics.exports:
        path = safe_paths.inside(folder, export.manifest)
        if files.is_there(path):
            # The model file may be gone (a report outlives it): the manifest is enough.
            manifests[export.name] = manifest.read_manifest(path, verify=False)
        else:
            missing.append(
                f"{export.manifest} is missing: nothing is known of the {export.name} file."
            )
    if not metrics.exports:
        missing.append("Nothing was exported: no file size, no parity (command: tfdistill export).")
    return manifests


def _histories(
    folder: pathlib.Path, metrics: results.RunMetrics, missing: list[str]
) -> tuple[StageHistory, ...]:
    histories: list[StageHistory] = []
    seen: set[pathlib.Path] = set()
    for model in metrics.models:
        for entry in model.history:
            path = safe_paths.inside(folder, entry.csv)
            if path in seen:
                continue
            seen.add(path)
            changed = files.is_there(path) and files.sha256_of(path) != entry.sha256
            if entry.sha256 is not None and changed:
                raise errors.DataError(
                    f"{path}",
                    "the history that the run wrote",
                    "another content",
                    "Restore it from a copy, or delete it: the report leaves out its curves.",
                )
            if columns := read_history(_optional(path, reading.read_text) or ""):
                histories.append(StageHistory(model.name, model.seed, entry.stage, columns))
            else:
                missing.append(f"{entry.csv} is missing or empty: no loss curve of that stage.")
    return tuple(histories)


def _metrics(folder: pathlib.Path) -> results.RunMetrics | None:
    """metrics.json, with the exports that were made of the run's model since."""
    path = folder / results.METRICS_FILE
    if not files.is_there(path):
        return None
    metrics = results.read_result_file(path, results.RunMetrics)
    listed = {export.manifest for export in metrics.exports}
    paths = [path.relative_to(folder) for path in sorted(folder.glob(_EXPORTS))]
    later = tuple(
        results.ExportedFile(
            name=path.parts[0], of=metrics.chosen or "teacher", manifest=path.as_posix()
        )
        for path in paths
        if path.as_posix() not in listed
    )
    return metrics.model_copy(update={"exports": (*metrics.exports, *later)})


def _answers(
    folder: pathlib.Path,
    metrics: results.RunMetrics | None,
    manifests: dict[str, manifest.Manifest],
    folders: dict[str, pathlib.Path],
    missing: list[str],
) -> dict[str, LabelledAnswers]:
    """The answers of teacher, chosen student, baselines and files, as far as they were kept."""
    chosen: list[str | None] = []
    if metrics is not None:
        chosen = [m.folder for m in metrics.models if m.role == "teacher"] + [metrics.chosen]
        chosen += [baseline.folder for baseline in metrics.baselines]
    by_place = {}
    paths = {n: safe_paths.inside(folder, n) / answers.FILE_NAME for n in filter(None, chosen)}
    for name, path in paths.items():
        if files.is_there(path):
            by_place[name] = answers.read(path)
    for name in sorted(paths.keys() - by_place.keys()) if by_place else ():
        missing.append(f"{name}/{answers.FILE_NAME} is missing: its answers are not shown.")
    for name, card in manifests.items():
        file_answers = _optional(folders[name] / answers.FILE_NAME, answers.read)
        if file_answers is not None and file_answers.model_sha256 == card.model.sha256:
            by_place[f"file {name}"] = file_answers
        elif file_answers is not None:
            missing.append(f"The answers next to the {name} file are those of another file.")
    return by_place


def _test_answers(
    folder: pathlib.Path,
    metrics: results.RunMetrics | None,
    manifests: dict[str, manifest.Manifest],
    missing: list[str],
    texts: bool,
) -> LabelledAnswers | None:
    """The answers to the test set, unless they are of a file that the run has no more.

    Those of another set, or of another run, have other metrics than metrics.json records.
    """
    test_answers = _optional(folder / answers.TEST_FILE, answers.read)
    digests = {card.model.sha256 for card in manifests.values()}
    if test_answers is None or test_answers.model_sha256 not in ("", *digests):
        return None
    task, recorded = test_answers.task, metrics.test_metrics if metrics is not None else {}
    task = dataclasses.replace(task, metrics=(task.primary_metric,))
    for role, logits in test_answers.logits.items():
        value = recorded.get(role, {}).get(task.primary_metric)
        if value is None:
            continue
        received = task.compute_metrics(logits, test_answers.gold)[task.primary_metric]
        if abs(received - value) > _SAME_METRIC:
            missing.append(
                f"The answers in {answers.TEST_FILE} are others than those that metrics.json "
                f"scores: {task.primary_metric} {received:.4f} of the {role}, not {value:.4f}. "
                "They are left out."
            )
            return None
    return _without_texts(test_answers, texts)


def _without_texts(value: LabelledAnswers, texts: bool) -> LabelledAnswers:
    return value if texts else dataclasses.replace(value, texts=())


def _optional(path: pathlib.Path, read: Callable[[pathlib.Path], Value]) -> Value | None:
    return read(path) if files.is_there(path) else None
