"""Students within a budget of latency and size on a measured device.

Pure: `space` (what may be proposed), `work` (what a shape does and stores), `fit` (from measured
files to all others), `pareto` (which are worth training), `design` (which to measure). With files
and clocks: `bench` (exports and measures), `store` (earlier measurements), `recipes`.
Nothing heavy is imported before it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfdistill.search.pareto import Budget
    from tfdistill.search.recipes import Goal
    from tfdistill.search.result import SearchResult, format_text, read_result
    from tfdistill.search.searching import search
    from tfdistill.search.space import Teacher

__all__ = ["Budget", "Goal", "SearchResult", "Teacher", "format_text", "read_result", "search"]

_HOMES = {
    "Budget": "pareto",
    "Goal": "recipes",
    "SearchResult": "result",
    "Teacher": "space",
    "format_text": "result",
    "read_result": "result",
    "search": "searching",
}


def __getattr__(name: str) -> Any:
    """Imports a public name from the module that holds it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
