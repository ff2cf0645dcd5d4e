"""The run folder: how a run opens it, what it records first, which steps are done."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import pathlib
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfdistill import config, errors, results, weights
from tfdistill._version import __version__
from tfdistill.benchmark import environment as machine
from tfdistill.data.task_data import TaskData, TextData
from tfdistill.io import files, ledger, safe_paths, work_folder
from tfdistill.results import ResultType
from tfdistill.run import shapes
from tfdistill.run.corpora import Corpus
from tfdistill.run.teachers import TeacherModels
from tfdistill.training import checkpoints, multi_worker, strategies

ENVIRONMENT = config.ENVIRONMENT_FILE
KIND = "run"
_BEFORE_TRAINING = {config.RECIPE_FILE, ENVIRONMENT, results.QUICKSTART_FILE, "data"}
_PACKAGES = (
    "tensorflow",
    "tf-keras",
    "keras",
    "tensorflow-text",
    "tf-models-official",
    "tensorflow-model-optimization",
    "transformers",
    "ai-edge-litert",
    "numpy",
)


class RunFolder:
    """A run folder, held by one process at a time.

    Every step writes its result last and atomically; a step whose result is there is not run again.
    That, and the checkpoints inside a fit, is all that resuming is. `devices`, those that the run
    trains on, are recorded.
    """

    def __init__(self, path: files.Path, devices: Sequence[str] = ()):
        """Keeps the arguments; `open` makes the folder."""
        self.path = pathlib.Path(path)
        self._devices = devices
        self._work = work_folder.WorkFolder(self.path, KIND)

    @contextlib.contextmanager
    def open(
        self, recipe: config.Recipe, *, resume: bool = False, overwrite: bool = False
    ) -> Iterator[RunFolder]:
        """Takes the folder for this recipe, and records recipe and environment before all else.

        Refuses a folder of something else, or one that another process works in, a recipe whose
        inputs are missing or do not fit together, and with `resume` another recipe. `overwrite`
        removes an earlier run, see `work_folder`.
        """
        faults = config.missing_inputs(recipe)
        faults += shapes.shape_faults(recipe, import_classes=True)
        if faults:
            raise errors.ConfigError("\n  - ".join([f"recipe {recipe.name} needs:", *faults]))
        with self._work.open(resume=resume, overwrite=overwrite):
            self._check_same(recipe)
            saved, recorded = self.path / config.RECIPE_FILE, self.path / ENVIRONMENT
            continued = recorded.is_file()
            try:
                text = config.dump_recipe(recipe)
                if not (saved.is_file() and recorded.is_file()):
                    content = saved.read_bytes() if saved.is_file() else text.encode()
                    digest = {config.RECIPE_SHA256: hashlib.sha256(content).hexdigest()}
                    began = environment(self._devices, commits(recipe))
                    files.atomic_write_json(recorded, began | digest)
                if not saved.is_file():
                    files.atomic_write_text(saved, text)
                yield self
            except errors.TfdistillError:
                # A run that failed before it trained anything leaves nothing to resume.
                names = {name.split("/")[0] for name in self._work.written()}
                if names <= _BEFORE_TRAINING and not continued:
                    self._work.discard()
                raise

    def _check_same(self, recipe: config.Recipe) -> None:
        before = config.saved_recipe(self.path)
        if before is None:
            return
        ledger.check_same(
            _trained(before),
            _trained(recipe),
            f"the recipe that is saved in {self.path / config.RECIPE_FILE}",
            "Resume with the saved file as recipe, or start again with --overwrite.",
        )

    def step(
        self,
        name: str,
        kind: type[ResultType],
        work: Callable[[], ResultType],
        fits: str = "results",
        **identity: Any,
    ) -> ResultType:
        """Runs a step unless its result exists at the path `name`; a damaged one is made again.

        Afterwards the checkpoints below the folder `fits` go. Refuses the result of another step:
        one whose fields `identity` have other values.
        """
        path = self.path / name
        value = results.read_finished(path, kind)
        if value is None:
            value = work()
            results.write_result_file(value, path)
            self._work.save()
        held = {field: getattr(value, field) for field in identity}
        if held != identity:
            remedy = "Restore it from a copy, or delete it and resume."
            raise errors.DataError(f"{path}", f"the result of {identity}", held, remedy)
        checkpoints.remove(self.path / fits)
        return value


def _trained(recipe: config.Recipe) -> dict[str, Any]:
    """The values of a recipe that change what is trained, or its file."""
    values = recipe.model_dump(mode="json")
    for section in ("teacher", "student"):
        del values[section]["allow_weak"]
    for key in ("also_quantize", "fallback"):  # other files of the same models
        del values["export"][key]
    return values


def commits(recipe: config.Recipe) -> dict[str, str]:
    """The commit of each model on the hub that a recipe names, by its name there."""
    sources = [recipe.teacher.source, recipe.teacher.general]
    if recipe.teacher.answers is not None:
        sources = []
    if config.is_checkpoint(recipe.student.preset):
        sources.append(recipe.student.preset)
    pairs = ((source, weights.hub_commit(source)) for source in sources if source)
    return {source: commit for source, commit in pairs if commit is not None}


def environment(
    devices: Sequence[str], checkpoints: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """What a run depends on besides its recipe: versions, machine, commits, command line."""
    return {
        "format_version": 1,
        "created": machine.now(),
        "tfdistill_version": __version__,
        "commit": _commit(),
        "checkpoints": dict(checkpoints or {}),
        "command": [pathlib.Path(sys.argv[0]).name, *map(safe_paths.without_folders, sys.argv[1:])],
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "devices": list(devices),
        "packages": {name: machine.version_of(name) for name in _PACKAGES},
    }


def _commit() -> str | None:
    """The commit of a source checkout, with "-dirty" where it differs; None for an install."""
    root = pathlib.Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        answer = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()


@contextlib.contextmanager
def open_run(
    recipe: config.Recipe,
    out: files.Path,
    devices: int | None,
    *,
    resume: bool,
    overwrite: bool,
    cluster: bool = False,
) -> Iterator[tuple[RunFolder, tf.distribute.Strategy | None]]:
    """Chooses the strategy of a run, checks that its batches fit, and takes the run folder.

    Yields the folder and the strategy, None for one device. Of several workers each gets a folder
    of its own, and the chief's is kept; without `cluster` they may not share the work.
    """
    if not cluster:
        strategies.refuse_cluster(
            "a whole run",
            "It exports and measures as well. Train with `tfdistill finetune` and `distill` on the "
            "workers, and export on one machine.",
        )
    strategy = strategies.choose(devices)
    sizes = {f"stages.{name}.batch_size": s.batch_size for name, s in recipe.used_stages.items()}
    for name in ("finetune", "pretrain"):
        if (settings := getattr(recipe.teacher, name)) is not None:
            sizes[f"teacher.{name}.batch_size"] = settings.batch_size
    for name, stage in recipe.used_stages.items():
        compress = stage.compress
        if strategy is not None and compress is not None and compress.learns_ranges:
            raise errors.ConfigError(
                f"stages.{name}.compress",
                "one device: the ranges of activations are those of whole batches",
                f"{strategy.num_replicas_in_sync} devices",
                "Use --gpus 1.",
            )
    strategies.check_batch_sizes(sizes, strategy)
    with multi_worker.working_folder(out, strategy) as path:
        opened = RunFolder(path, strategies.devices_of(strategy))
        with opened.open(recipe, resume=resume, overwrite=overwrite):
            yield opened, strategy


@dataclasses.dataclass(frozen=True)
class RunContext:
    """A run: its recipe, its folder, its data and its teachers."""

    recipe: config.Recipe
    folder: RunFolder
    data: TextData  # in the teacher's tokens
    teachers: TeacherModels
    # Plain text by stage name; that of the teacher's pre-training is "teacher".
    corpora: Mapping[str, Corpus] = dataclasses.field(default_factory=dict)
    # The examples in the student's tokens, where these are others.
    own_tokens: TaskData | None = None

    @property
    def root(self) -> pathlib.Path:
        """The path of the run folder."""
        return self.folder.path

    @property
    def student_data(self) -> TextData:
        """The data in the tokens that the student reads."""
        return self.own_tokens or self.data
