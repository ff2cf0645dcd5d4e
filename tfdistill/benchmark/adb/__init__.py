"""Measures on Android devices through adb: nothing runs here, everything there.

`measure` does so with LiteRT's `benchmark_model`, `app.measure` with the demo app.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfdistill.benchmark.adb.binary import Binary
    from tfdistill.benchmark.adb.devices import measure

__all__ = ["Binary", "measure"]

_HOMES = {"Binary": "binary", "measure": "devices"}


def __getattr__(name: str) -> Any:
    """Imports a public name from the module that holds it, when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
