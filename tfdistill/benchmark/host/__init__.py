"""Measures files on this machine, in fresh processes and, for several files, interleaved.

What is public is loaded when it is first used: the worker, which is measured, is in here too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfdistill.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from tfdistill.benchmark.host.measuring import check, compare, measure, quick_benchmark

__all__ = ["check", "compare", "measure", "quick_benchmark"]

__getattr__, __dir__ = lazy_exports(__name__)
