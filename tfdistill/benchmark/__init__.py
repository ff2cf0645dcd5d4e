"""Measures model files: a file and its manifest in, timings with environment and conditions out.

What is public is loaded when it is first used: a worker process imports this package too, and must
hold only what it measures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfdistill.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from tfdistill.benchmark import adb  # noqa: F401
    from tfdistill.benchmark.host.measuring import QuickFigures, compare, measure, quick_benchmark
    from tfdistill.benchmark.result import read_result, write_result
    from tfdistill.benchmark.settings import Settings
    from tfdistill.benchmark.terminal import format_text

__all__ = [
    "QuickFigures",
    "Settings",
    "compare",
    "format_text",
    "measure",
    "quick_benchmark",
    "read_result",
    "write_result",
]

__getattr__, __dir__ = lazy_exports(__name__)
