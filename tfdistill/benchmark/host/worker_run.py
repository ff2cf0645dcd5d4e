"""One repetition of a file on this machine, in a process of its own."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable
from typing import Any

from tfdistill.benchmark import schema
from tfdistill.benchmark.backend import Findings
from tfdistill.benchmark.settings import Settings
from tfdistill.tflite import child

MODULE = "tfdistill.benchmark.host.worker"


class WorkerRun:
    """One repetition in a worker process; see `backend.CaseRun`.

    Before a block come `settings.lead_in` inferences that do not count: those after another file's
    turn find its weights in the caches, and would be the upper tenth of a block of ten. They are
    kept with the warm-up.

    Args:
      job: What the worker is asked first.
      what: How messages call it.
      settings: How long to measure.
      findings: From the worker's answers, samples joined, and the conditions around them, to what
        was measured.
    """

    def __init__(
        self,
        job: dict[str, Any],
        what: str,
        settings: Settings,
        findings: Callable[[dict[str, Any], schema.Conditions, schema.Conditions], Findings],
    ) -> None:
        self.what = what
        self._job, self._settings, self._findings = job, settings, findings
        self._stack = contextlib.ExitStack()
        self._row: dict[str, Any] = {}

    def start(self) -> float:
        """Starts the worker, which warms up."""
        self._worker = self._stack.enter_context(
            child.Child(
                self._job, MODULE, what=self.what, timeout_seconds=self._settings.timeout_seconds
            )
        )
        self._row = dict(self._worker.report)
        return statistics.median(
            self._row["warmup_ms"] or [self._row.get("first_inference_ms", 1.0)]
        )

    def run_block(self, number: int, runs: int) -> None:
        """Takes samples."""
        self._row["block_runs"] = runs
        for key, samples in self._worker.ask(
            {"run": runs, "lead_in": self._settings.lead_in}
        ).items():
            self._row[key] = [*self._row.get(key, ()), *samples]

    def finish(self, before: schema.Conditions, after: schema.Conditions) -> Findings:
        """Ends the worker, which reports its peak memory."""
        return self._findings({**self._row, **self._worker.finish()}, before, after)

    def close(self) -> None:
        """Ends the worker, whatever it does."""
        self._stack.close()
