"""What every step of a run works with."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping

from tfdistill import config
from tfdistill.data.task_data import TaskData, TextData
from tfdistill.run.corpora import Corpus
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
      corpora: Plain text by stage name; that of the teacher's pre-training is "teacher".
      own_tokens: The same examples in the student's tokens, where its vocabulary is another one.
    """

    recipe: config.Recipe
    folder: RunFolder
    data: TextData
    teachers: TeacherModels
    corpora: Mapping[str, Corpus] = dataclasses.field(default_factory=dict)
    own_tokens: TaskData | None = None

    @property
    def root(self) -> pathlib.Path:
        """The path of the run folder."""
        return self.folder.path

    @property
    def task_data(self) -> TaskData:
        """The data of a run that has a task."""
        assert isinstance(self.data, TaskData)
        return self.data

    @property
    def student_data(self) -> TextData:
        """The data in the tokens that the student reads."""
        return self.own_tokens or self.data

    @property
    def student_task_data(self) -> TaskData:
        """The same of a run that has a task."""
        return self.own_tokens or self.task_data
