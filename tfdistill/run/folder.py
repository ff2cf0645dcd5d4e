"""The run folder: who may write it, what it records first, which steps are done."""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import os
import pathlib
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tfdistill import config, errors, files, marker_file, results, safe_paths, weights, work_folder
from tfdistill._version import __version__
from tfdistill.results import ResultType
from tfdistill.run import shapes

ENVIRONMENT = "environment.json"
KIND = "run"
_BEFORE_TRAINING = {config.RECIPE_FILE, ENVIRONMENT, "data"}
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

    Every step writes its result last and atomically; a step whose result is there is not run
    again. That, and the checkpoints inside a fit, is all that resuming is.

    Args:
      path: The folder.
      devices: The devices that the run trains on, for the record.
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

        Args:
          recipe: The resolved recipe.
          resume: Go on with what is there; the recipe must be the same.
          overwrite: Remove an earlier run, see `work_folder`.

        Yields:
          The folder itself.

        Raises:
          OutputExistsError: If the folder is not empty and neither flag was given, or it is not a
            run folder, or another process works in it.
          ConfigError: If an input of the recipe is missing, teacher and student do not fit, or
            `resume` finds another recipe.
        """
        faults = config.missing_inputs(recipe) + shapes.shape_faults(recipe, import_classes=True)
        if faults:
            raise errors.ConfigError("\n  - ".join([f"recipe {recipe.name} needs:", *faults]))
        with self._work.open(resume=resume, overwrite=overwrite):
            self._check_same(recipe)
            try:
                if not (self.path / ENVIRONMENT).is_file():
                    known = environment(self._devices, commits(recipe))
                    files.atomic_write_json(self.path / ENVIRONMENT, known)
                if not (self.path / config.RECIPE_FILE).is_file():
                    text = config.dump_recipe(recipe)
                    files.atomic_write_text(self.path / config.RECIPE_FILE, text)
                yield self
            except errors.TfdistillError:
                # A run that failed before it trained anything leaves nothing to resume.
                if {name.split("/")[0] for name in self._work.written()} <= _BEFORE_TRAINING:
                    self._work.discard()
                raise

    def _check_same(self, recipe: config.Recipe) -> None:
        """Refuses to continue the run of another recipe."""
        saved = self.path / config.RECIPE_FILE
        if not saved.is_file():
            return
        before = config.load_recipe(str(saved)).model_dump(mode="json")
        now = recipe.model_dump(mode="json")
        for values in (before, now):  # what changes no training
            for section in ("teacher", "student"):
                del values[section]["allow_weak"]
            for key in ("also_quantize", "fallback"):  # other files of the same models
                del values["export"][key]
        changed = [key for key in now if before.get(key) != now[key]]
        if changed:
            raise errors.ConfigError(
                "--resume",
                f"the recipe that is saved in {saved}",
                f"another one: {', '.join(changed)} differ",
                "Resume with the saved file as recipe, or start again with --overwrite.",
            )

    def step(self, name: str, kind: type[ResultType], work: Callable[[], ResultType]) -> ResultType:
        """Runs a step unless its result exists.

        Args:
          name: The path of the result inside the folder.
          kind: Its class.
          work: Returns the result.

        Returns:
          The result, new or as it was saved. A step whose result is damaged is run again.
        """
        path = self.path / name
        known = results.read_finished(path, kind)
        if known is not None:
            return known
        value = work()
        results.write_result_file(value, path)
        if marker_file.read_marker(self.path) is not None:  # none in the folder of a candidate
            self._work.save()
        return value


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
        "created": now(),
        "tfdistill_version": __version__,
        "commit": _commit(),
        "checkpoints": dict(checkpoints or {}),
        "command": [pathlib.Path(sys.argv[0]).name, *map(safe_paths.without_folders, sys.argv[1:])],
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "devices": list(devices),
        "packages": {name: _version(name) for name in _PACKAGES},
    }


def now() -> str:
    """The time in UTC, ISO 8601 to the second."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


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
