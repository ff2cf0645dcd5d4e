"""A fault of an output beside the TFLite file: a function that writes it works otherwise."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock


@dataclasses.dataclass(frozen=True)
class Replaced:
    """A function or a method that does something else.

    Attributes:
      holder: The module or the class that has it.
      name: Its name there.
      change: Called instead, with the function before its arguments.
      message: A pattern of what the refusal names, or None.
    """

    holder: Any
    name: str
    change: Callable[..., Any]
    message: str | None = None

    def planted(self) -> AbstractContextManager[Any]:
        """Replaces the function while the context lasts."""
        whole = getattr(self.holder, self.name)

        @functools.wraps(whole)
        def other(*arguments: Any, **options: Any) -> Any:  # a partial would not take `self`
            return self.change(whole, *arguments, **options)

        return mock.patch.object(self.holder, self.name, other)
