"""Measures on Android devices through adb: `measure` with LiteRT's `benchmark_model`.

`adopt` takes what the demo app measured by itself. What is public is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfdistill.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from tfdistill.benchmark.adb.adopting import adopt
    from tfdistill.benchmark.adb.measuring import measure

__all__ = ["adopt", "measure"]

__getattr__, __dir__ = lazy_exports(__name__)
