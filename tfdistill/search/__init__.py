"""Students within a budget of latency and size: parts of a teacher, measured on a device.

Pure: `shapes` (what can be cut out of a teacher), `costs` (from measured files to all others).
With files and clocks: `measuring` (exports and measures files), `estimating` (which files, what
the others cost), `recipes`, `result`, `searching` (the whole). Nothing heavy is imported before it
is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfdistill.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from tfdistill.search.result import SearchResult, format_text
    from tfdistill.search.searching import Budget, search

__all__ = ["Budget", "SearchResult", "format_text", "search"]

__getattr__, __dir__ = lazy_exports(__name__)
