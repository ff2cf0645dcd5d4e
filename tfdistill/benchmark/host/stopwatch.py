"""Times single inferences of the process that is measured: on the clock and on the processor.

The process that is measured imports this: it needs the standard library and nothing else.
"""

from __future__ import annotations

import time
from typing import Any

try:
    import resource
except ImportError:  # Windows
    resource = None

NS_PER_MS = 1e6


class Stopwatch:
    """Collects the durations of inferences, and what each had of the processor.

    With one thread the usage is that of the calling thread, so that time on the clock beyond the
    time on the processor is time in which another program ran. With several threads it is the sum
    over the process. Processor time is read from its clock: `getrusage` counts it in ticks of 4 ms.
    `started_ns` is `time.perf_counter_ns` of the last `start`.
    """

    def __init__(self, threads: int) -> None:
        self._who: int | None = None
        if resource is not None and hasattr(resource, "RUSAGE_THREAD"):  # Linux counts by thread
            self._who = resource.RUSAGE_THREAD if threads == 1 else resource.RUSAGE_SELF
        self._processor_ns = time.thread_time_ns if threads == 1 else time.process_time_ns
        self._durations_ns: list[int] = []
        self._usages: list[tuple[int, int, int]] = []
        self._before = (0, 0, 0)
        self.started_ns = 0

    def start(self) -> None:
        """Starts an inference: the last thing it does is to read the clock."""
        self._before = self._usage()
        self.started_ns = time.perf_counter_ns()

    def stop(self) -> None:
        """Ends an inference: the first thing it does is to read the clock."""
        stopped = time.perf_counter_ns()
        self._durations_ns.append(stopped - self.started_ns)
        now, before = self._usage(), self._before
        self._usages.append((now[0] - before[0], now[1] - before[1], now[2] - before[2]))

    def samples(self) -> dict[str, Any]:
        """Returns columns of `schema.Measurement` with a value for each inference."""
        columns: dict[str, Any] = {"samples_ms": milliseconds(self._durations_ns)}
        if self._who is not None:
            columns["processor_ms"] = milliseconds([ns for ns, _, _ in self._usages])
            columns["waits"] = [waits for _, waits, _ in self._usages]
            columns["preemptions"] = [preemptions for _, _, preemptions in self._usages]
        return columns

    def _usage(self) -> tuple[int, int, int]:
        """Nanoseconds on the processor, voluntary and involuntary switches until now."""
        if self._who is None or resource is None:
            return 0, 0, 0
        processor_ns, usage = self._processor_ns(), resource.getrusage(self._who)
        return processor_ns, usage.ru_nvcsw, usage.ru_nivcsw


def milliseconds(durations_ns: list[int]) -> list[float]:
    """Converts nanoseconds."""
    return [round(ns / NS_PER_MS, 5) for ns in durations_ns]
