"""Public names of a package that import their module when they are first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def lazy_exports(package: str, names: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Makes the function `__getattr__` of a package.

    Args:
      package: Its `__name__`.
      names: Module, relative to the package -> the public names that it holds.

    Returns:
      A function of a name that returns what the name stands for. It raises AttributeError for any
      other name, as Python asks.
    """
    module_of = {name: module for module, held in names.items() for name in held}

    def find(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{module_of[name]}"), name)

    return find
