"""Measures on Android devices through adb: `measure` with LiteRT's `benchmark_model`.

`measure_in_app` does so with the demo app. What is public is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfdistill.benchmark.adb.benchmark_model import Binary
    from tfdistill.benchmark.adb.measuring import measure, measure_in_app

__all__ = ["Binary", "measure", "measure_in_app"]


def __getattr__(name: str) -> Any:
    """Imports a public name from the module that holds it, when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "benchmark_model" if name == "Binary" else "measuring"
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
