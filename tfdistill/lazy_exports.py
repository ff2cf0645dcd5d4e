"""Public names of a package that import their module when they are first used."""

from __future__ import annotations

import importlib
import importlib.util
import pathlib
import sys
from collections.abc import Callable
from typing import Any


def lazy_exports(
    package: str, *, together: bool = False
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Makes the functions `__getattr__` and `__dir__` of a package.

    Its names are those that its block ``if TYPE_CHECKING:`` imports: what type checkers read is
    what a program gets. The block is read when a name is first used; with `together` the first one
    imports the modules of all others, too.
    """
    module_of: dict[str, str] = {}

    def names() -> dict[str, str]:
        if not module_of:
            module_of.update(_lazy_imports(package))
        return module_of

    def find(name: str) -> Any:
        if name.startswith("__") or name not in names():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        for module in dict.fromkeys(module_of.values()) if together else ():
            importlib.import_module(module)
        module = module_of[name]
        if module == package:
            return importlib.import_module(f"{package}.{name}")
        # As `from module import name` does, it imports a submodule of that name.
        return getattr(__import__(module, fromlist=[name]), name)

    def listed() -> list[str]:
        return sorted({*sys.modules[package].__all__, *names()})

    return find, listed


def _lazy_imports(package: str) -> dict[str, str]:
    """Returns what the block ``if TYPE_CHECKING:`` of a package imports: name -> module."""
    import ast

    spec = sys.modules[package].__spec__
    source = spec.loader.get_source(package)  # pyright: ignore
    return {
        alias.name: ".".join(filter(None, (package if line.level else "", line.module)))
        for block in ast.parse(source).body
        if isinstance(block, ast.If) and getattr(block.test, "id", "") == "TYPE_CHECKING"
        for line in block.body
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
    }


def refuse_other_export() -> None:
    """Raises ImportError where a module of somebody else hides our package `export`."""
    own_file = pathlib.Path(__file__).resolve().parents[1] / "export" / "__init__.py"
    spec = importlib.util.find_spec("export")
    origin = None if spec is None or spec.origin is None else pathlib.Path(spec.origin).resolve()
    if origin is not None and origin != own_file and own_file.is_file():
        raise ImportError(
            f"module export: expected {own_file}, which belongs to tfdistill, received {origin}. "
            "Rename it, take its folder out of PYTHONPATH, or start Python in another one."
        )
