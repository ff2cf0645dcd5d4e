"""A worker process as the host sees it: started, asked, timed out, and never left behind."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from tfdistill import errors, processes

MODULE = "tfdistill.benchmark.host.worker"
_ROOT = pathlib.Path(__file__).resolve().parents[3]  # the folder that holds the package tfdistill


class WorkerProcess(contextlib.AbstractContextManager["WorkerProcess"]):
    """One worker process with one job.

    Use it as a context manager: leaving it ends the process, whatever happened inside.

    Args:
      job: What the worker is to open (see `worker`); `spawned_ns` is added. It runs on the `cores`
        that the job names, imports included.
      what: How messages call it, for example "student at 32 tokens, 1 thread".
      timeout_seconds: The longest wait for one answer.
      arguments: What to run instead of the worker module (for tests).

    Attributes:
      report: The worker's first answer.
    """

    def __init__(
        self,
        job: dict[str, Any],
        *,
        what: str,
        timeout_seconds: float,
        arguments: Sequence[str] = ("-m", MODULE),
    ) -> None:
        self._what = what
        self._timeout = timeout_seconds
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (close() ends it)
        self._answers: queue.Queue[bytes] = queue.Queue()
        paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**processes.child_environment(), "PYTHONPATH": os.pathsep.join(paths)}
        spawned = time.monotonic_ns()
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=environment,
            cwd=_ROOT,  # Python looks there first: no file of the user's folder shadows a module
            start_new_session=True,  # Ctrl-C is for the parent, which ends its workers
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        try:
            if job.get("cores"):
                self._bind(job["cores"])
            self.report = self._ask({**job, "spawned_ns": spawned})
        except BaseException:
            self.close()
            raise

    def run(self, number: int, *, lead_in: int) -> dict[str, Any]:
        """Takes `number` samples behind `lead_in` that do not count; returns both by name."""
        return self._ask({"run": number, "lead_in": lead_in})

    def sustain(self, seconds: float, window: float) -> Iterator[dict[str, Any]]:
        """Runs without pauses; yields a description of each window when it is over."""
        answer = self._ask({"sustain": seconds, "window": window})
        while "end" not in answer:
            yield answer
            answer = self._receive()

    def answer(self, signature: str | None, features: dict[str, Any]) -> dict[str, Any]:
        """Runs one signature of a job that answers; see `isolated`."""
        return self._ask({"signature": signature, "features": features})

    def finish(self) -> dict[str, Any]:
        """Ends the worker and returns its last answer: peak_rss_bytes."""
        self._end_of_questions()
        return self._receive()

    def close(self) -> None:
        """Ends the process if it still runs, and frees what belongs to it."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._listener.join()  # it reads to the end; nobody closes what it still reads
        self._end_of_questions()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._stderr.close()

    def _end_of_questions(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it went before it read all
            self._process.stdin.close()

    def __exit__(self, *_: object) -> None:
        """Ends the process."""
        self.close()

    def _bind(self, cores: Sequence[int]) -> None:
        """Binds the worker before it imports anything: threads inherit it."""
        try:
            os.sched_setaffinity(self._process.pid, cores)
        except ProcessLookupError:
            return  # it ended already; its exit code says why
        except OSError as error:
            raise errors.BenchmarkError(
                self._what, f"cores {list(cores)} to run on", error
            ) from error

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(b"")  # the end

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it ended; what it answered before, or its exit code, says why
        return self._receive()

    def _receive(self) -> dict[str, Any]:
        try:
            line = self._answers.get(timeout=self._timeout)
        except queue.Empty:
            self._process.kill()
            raise errors.BenchmarkError(
                self._what,
                f"an answer within {self._timeout:g} s",
                "none",
                "Allow more time, or measure fewer runs or shorter lengths.",
            ) from None
        if not line:
            code = self._process.wait()
            received = f"the worker ended with {processes.describe_exit(code)}"
            raise errors.BenchmarkError(self._what, "a result", received, self._last_output())
        answer = json.loads(line)
        if "error" in answer:
            raise errors.BenchmarkError(
                self._what, "a file that runs in LiteRT", answer["error"], "Export it again."
            )
        return answer

    def _last_output(self) -> str:
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return "Its output: " + " | ".join(lines[-5:]) if lines else "It printed nothing."
