"""What every step of a run works with."""

from __future__ import annotations

import dataclasses
import pathlib

from tfdistill import config
from tfdistill.run import prepare
from tfdistill.run.folder import RunFolder
from tfdistill.run.teachers import TeacherModels


@dataclasses.dataclass(frozen=True)
class RunContext:
    """A run: its recipe, its folder, its data and its teachers."""

    recipe: config.Recipe
    folder: RunFolder
    data: prepare.TextData
    teachers: TeacherModels

    @property
    def root(self) -> pathlib.Path:
        """The path of the run folder."""
        return self.folder.path

    @property
    def task_data(self) -> prepare.TaskData:
        """The data of a run that has a task."""
        assert isinstance(self.data, prepare.TaskData)
        return self.data
