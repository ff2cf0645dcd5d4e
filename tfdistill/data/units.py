"""Units of work that may be done in any order, anywhere and more than once: each ends in a file."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol


@dataclasses.dataclass(frozen=True)
class Unit:
    """A piece of a large piece of work.

    Attributes:
      what: The piece in words, for messages.
      target: The file that is there when the unit is done.
      task: What `Work.do` is told; small, it is sent to a worker.
    """

    what: str
    target: str
    task: Any


class Work(Protocol):
    """What is done to units, as it is sent to a worker: paths and settings, no arrays.

    A unit may be done twice, also by two workers at the same time: then both write the same
    bytes. Each file is written with `files.atomic_write`, the target last.
    """

    def tools(self) -> Any:
        """Loads what the units of a process share, such as a model."""
        ...

    def do(self, unit: Unit, tools: Any) -> None:
        """Writes the target of a unit."""
        ...
