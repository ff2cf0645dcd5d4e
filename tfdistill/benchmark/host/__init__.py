"""Measures files on this machine, in fresh processes and, for several files, interleaved.

What is public is loaded when it is first used: the worker, which is measured, is in here too.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfdistill.benchmark.host.measuring import (
        baseline_of,
        check,
        compare,
        measure,
        open_all,
    )

__all__ = ["baseline_of", "check", "compare", "measure", "open_all"]


def __getattr__(name: str) -> Any:
    """Imports a public name from the module that holds it, when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.measuring"), name)
