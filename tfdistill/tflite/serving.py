"""A child process as it sees itself: one job, then questions about it.

One JSON object a line comes in on stdin, one goes out on stdout. The process that is measured
imports this: it needs the standard library and nothing else.
"""

from __future__ import annotations

import gc
import json
import os
import pathlib
import re
import sys
from collections.abc import Callable
from typing import Any

from tfdistill.io import processes

Answer = Callable[[dict[str, Any]], dict[str, Any]]


def serve(open_job: Callable[[dict[str, Any]], tuple[dict[str, Any], Answer]]) -> int:
    """Serves one job, the side of the child; returns the exit code. A runtime prints to stderr.

    `open_job` returns the first answer, and a function from a question to its answer.
    """
    processes.end_with_parent()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def write(value: dict[str, Any]) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    try:
        job = json.loads(sys.stdin.readline())
        gc.disable()
        report, answer = open_job(job)
        write(report)
        for line in sys.stdin:
            write(answer(json.loads(line)))
    except (ValueError, RuntimeError, KeyError, OSError) as error:
        write({"error": f"{type(error).__name__}: {error}"})
        return 1
    write({"peak_rss_bytes": memory_bytes("VmHWM")})
    return 0


def memory_bytes(field: str) -> int | None:
    """Returns resident memory of this process: "VmRSS" now, "VmHWM" at its peak.

    Linux's `ru_maxrss` would not do: a child inherits in it the peak of the parent that started
    it, so a small worker of a program with TensorFlow loaded would look as large as that program.
    """
    try:
        status = pathlib.Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return _peak_elsewhere() if field == "VmHWM" else None
    line = re.search(rf"^{field}:\s+(\d+) kB", status, flags=re.MULTILINE)
    return int(line.group(1)) * 1024 if line else None


def _peak_elsewhere() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS
