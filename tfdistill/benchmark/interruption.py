"""Ctrl-C in the middle of a benchmark: it stops, and what is finished goes along."""

from __future__ import annotations

from collections.abc import Sequence

from tfdistill.benchmark import schema

FAILURE = schema.Failure(what="the rest", error="interrupted")


class BenchmarkInterrupted(KeyboardInterrupt):
    """A benchmark was interrupted; what had been measured by then is complete.

    Who does not care sees an ordinary KeyboardInterrupt.

    Attributes:
      results: One a device; each has `FAILURE` among its failures.
    """

    def __init__(self, results: Sequence[schema.Result]) -> None:
        super().__init__("interrupted")
        self.results = tuple(results)
