"""Students within a budget of latency and size on a measured device.

Pure: `space` (what may be proposed), `work` (what a shape does and stores), `fit` (from measured
files to all others), `pareto` (which are worth training), `design` (which to measure). With files
and clocks: `bench` (exports and measures), `store` (earlier measurements), `recipes`.
Nothing heavy is imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfdistill.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from tfdistill.search.pareto import Budget
    from tfdistill.search.recipes import Goal
    from tfdistill.search.result import SearchResult, format_text, read_result
    from tfdistill.search.searching import search
    from tfdistill.search.space import Teacher

__all__ = ["Budget", "Goal", "SearchResult", "Teacher", "format_text", "read_result", "search"]

__getattr__, __dir__ = lazy_exports(__name__)
