"""Measures model files: a file and its manifest in, timings with their circumstances out.

`measure` and `compare` are loaded when they are first used: a worker process imports this package
too, and must hold only what it measures.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfdistill.benchmark.host.measuring import compare, measure
    from tfdistill.benchmark.quick import glance
    from tfdistill.benchmark.result import format_text, read_result, write_result

__all__ = ["compare", "format_text", "glance", "measure", "read_result", "write_result"]

_HOMES = {
    "compare": "host",
    "format_text": "result",
    "glance": "quick",
    "measure": "host",
    "read_result": "result",
    "write_result": "result",
}


def __getattr__(name: str) -> Any:
    """Imports a public name from the module that holds it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
