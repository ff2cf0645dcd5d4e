"""Measures files on this machine, in fresh processes and, for several files, interleaved.

What is public is loaded when it is first used: the worker, which is measured, is in here too.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfdistill.benchmark.host.backend import check, compare, measure, quick_benchmark

__all__ = ["check", "compare", "measure", "quick_benchmark"]


def __getattr__(name: str) -> Any:
    """Imports a public name from the module that holds it, when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.backend"), name)
