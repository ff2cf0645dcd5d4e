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
    """A run: its recipe, its folder, its data and its teachers.

    Attributes:
      recipe: The recipe.
      folder: The run folder.
      data: The data, in the teacher's tokens.
      teachers: The teachers.
      own_tokens: The same examples in the student's tokens, where its vocabulary is another one.
    """

    recipe: config.Recipe
    folder: RunFolder
    data: prepare.TextData
    teachers: TeacherModels
    own_tokens: prepare.TaskData | None = None

    @property
    def root(self) -> pathlib.Path:
        """The path of the run folder."""
        return self.folder.path

    @property
    def task_data(self) -> prepare.TaskData:
        """The data of a run that has a task."""
        assert isinstance(self.data, prepare.TaskData)
        return self.data

    @property
    def student_data(self) -> prepare.TextData:
        """The data in the tokens that the student reads."""
        return self.own_tokens or self.data

    @property
    def student_task_data(self) -> prepare.TaskData:
        """The same of a run that has a task."""
        return self.own_tokens or self.task_data
