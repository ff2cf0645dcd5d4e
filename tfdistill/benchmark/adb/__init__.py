"""Measures on Android devices through adb: `measure` with LiteRT's `benchmark_model`.

`measure_in_app` does so with the demo app; `adopt` takes what the app measured without adb. What is
public is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfdistill.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from tfdistill.benchmark.adb.app_protocol import adopt
    from tfdistill.benchmark.adb.binary import Binary
    from tfdistill.benchmark.adb.measuring import measure, measure_in_app

__all__ = ["Binary", "adopt", "measure", "measure_in_app"]

__getattr__, __dir__ = lazy_exports(__name__)
