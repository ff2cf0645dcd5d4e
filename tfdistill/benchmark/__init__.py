"""Measures model files: a file and its manifest in, timings with environment and conditions out.

What is public is loaded when it is first used: a worker process imports this package too, and must
hold only what it measures.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfdistill.benchmark.host.backend import compare, measure, quick_benchmark
    from tfdistill.benchmark.result import read_result, write_result
    from tfdistill.benchmark.terminal import format_text

__all__ = ["compare", "format_text", "measure", "quick_benchmark", "read_result", "write_result"]

_ON_HOST = ("compare", "measure", "quick_benchmark")


def __getattr__(name: str) -> Any:
    """Imports a public name from the module that holds it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "host" if name in _ON_HOST else "result"
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
