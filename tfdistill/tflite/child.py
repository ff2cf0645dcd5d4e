"""Processes of our own: started, asked, timed out, and never left behind.

A damaged file, a driver or a converter may end the process that it runs in: that is then a child.
`Child` holds a conversation, a JSON object a line, with a module that calls
`serving.serve`; `run` waits
for a program to end.
"""

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
from collections.abc import Mapping, Sequence
from typing import Any

from tfdistill import errors
from tfdistill.io import processes

_ROOT = pathlib.Path(__file__).resolve().parents[2]  # the folder that holds our packages


def run(
    command: Sequence[str],
    *,
    what: str,
    timeout_seconds: float,
    error: type[errors.TfdistillError],
    remedy: str = "Allow more time.",
    variables: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs a program and waits for its end, whatever that is: exit code, stdout and stderr as text.

    Its paths are absolute; `sys.executable` finds our packages. `what` is how messages call it,
    `error` is raised when it takes longer than its time, `variables` are added to the environment.
    """
    try:
        return subprocess.run(
            command,
            cwd=_ROOT,  # Python looks there first: no file of the user's folder shadows a module
            env=_environment(variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_seconds,
        )
    except subprocess.TimeoutExpired:
        raise error(what, f"an end within {timeout_seconds:g} s", "none", remedy) from None


class Child(contextlib.AbstractContextManager["Child"]):
    """A process of a module that calls `serving.serve`; it answers questions about one job.

    Use it as a context manager: leaving it ends the process, whatever happened inside. It runs on
    the `cores` that the job names, imports included; `spawned_ns` is added to the job. Messages
    call it `what`, for example "student at 32 tokens, 1 thread"; `timeout_seconds` is the longest
    wait for one answer; `arguments` run instead of the module (for tests). `report` is its first
    answer.
    """

    def __init__(
        self,
        job: dict[str, Any],
        module: str = "",
        *,
        what: str,
        timeout_seconds: float,
        arguments: Sequence[str] | None = None,
        error: type[errors.TfdistillError] = errors.BenchmarkError,
    ) -> None:
        self._what, self._error = what, error
        self._timeout = timeout_seconds
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (close() ends it)
        self._answers: queue.Queue[bytes] = queue.Queue()
        spawned = time.monotonic_ns()
        self._process = subprocess.Popen(
            [sys.executable, *(arguments or ("-m", module))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=_environment(None),
            cwd=_ROOT,  # Python looks there first: no file of the user's folder shadows a module
            start_new_session=True,  # Ctrl-C is for the parent, which ends its workers
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        try:
            if job.get("cores"):
                self._bind(job["cores"])
            self.report = self.ask({**job, "spawned_ns": spawned})
        except BaseException:
            self.close()
            raise

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Asks a question with one answer."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it ended; what it answered before, or its exit code, says why
        return self._receive()

    def finish(self) -> dict[str, Any]:
        """Ends the process and returns its last answer: peak_rss_bytes."""
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
            raise self._error(self._what, f"cores {list(cores)} to run on", error) from error

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(b"")  # the end

    def _receive(self) -> dict[str, Any]:
        try:
            line = self._answers.get(timeout=self._timeout)
        except queue.Empty:
            self._process.kill()
            raise self._error(
                self._what,
                f"an answer within {self._timeout:g} s",
                "none",
                "Allow more time, or measure fewer runs or shorter lengths.",
            ) from None
        if not line:
            code = self._process.wait()
            received = f"the worker ended with {processes.describe_exit(code)}"
            raise self._error(self._what, "a result", received, self._last_output())
        answer = json.loads(line)
        if "error" in answer:
            raise self._error(
                self._what, "a file that runs in LiteRT", answer["error"], "Export it again."
            )
        return answer

    def _last_output(self) -> str:
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return "Its output: " + " | ".join(lines[-5:]) if lines else "It printed nothing."


def _environment(variables: Mapping[str, str] | None) -> dict[str, str]:
    """The environment of a child: it finds our packages and may end with us."""
    paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    paths_variable = {"PYTHONPATH": os.pathsep.join(paths)}
    return {**processes.child_environment(), **(variables or {}), **paths_variable}
