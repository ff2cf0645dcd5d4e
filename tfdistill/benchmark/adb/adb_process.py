"""The adb program: finds it, and runs it with limits on its time and output."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
import subprocess
import threading
from collections.abc import Sequence
from typing import IO

from tfdistill import errors

MAX_OUTPUT_BYTES = 64 << 20


@dataclasses.dataclass(frozen=True)
class Completed:
    """Exit code and output of a program that ended."""

    exit_code: int
    stdout: str
    stderr: str


def find_adb() -> str:
    """Finds adb on the PATH or in the Android SDK.

    Raises:
      EnvironmentFault: If there is none.
    """
    if found := shutil.which("adb"):
        return found
    for variable in ("ANDROID_HOME", "ANDROID_SDK_ROOT"):
        if home := os.environ.get(variable):
            folder = pathlib.Path(home) / "platform-tools"
            if found := shutil.which("adb", path=str(folder)):
                return found
    raise errors.EnvironmentFault(
        "adb",
        "the program on the PATH, or below ANDROID_HOME in platform-tools",
        "neither",
        "Install it: `apt-get install adb` on Debian and Ubuntu, `brew install "
        "android-platform-tools` on macOS, elsewhere Android's SDK Platform-Tools.",
    )


class AdbRunner:
    """Runs programs, each in a session of its own: Ctrl-C reaches this process and not them.

    `stop` may be called from another thread: what runs is killed, and what would start after it
    raises KeyboardInterrupt there, so that a thread ends as the main thread does on Ctrl-C.
    """

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()

    def stop(self) -> None:
        """Kills what runs; `run` raises KeyboardInterrupt from now on."""
        with self._lock:
            self._stopped.set()
            for process in self._running:
                process.kill()

    def rest(self, seconds: float) -> None:
        """Waits; ends with KeyboardInterrupt if `stop` was called or is called meanwhile."""
        if self._stopped.wait(seconds):
            raise KeyboardInterrupt

    def run(self, command: Sequence[str], *, timeout_s: float, cleanup: bool = False) -> Completed:
        """Runs a program and waits for it.

        Args:
          command: The program and its arguments.
          timeout_s: The longest wait in seconds; then it is killed.
          cleanup: Whether to run it also after `stop`.

        Returns:
          Its exit code and output, as UTF-8 with other bytes replaced.

        Raises:
          TimeoutError: If it took longer.
          BenchmarkError: If it printed more than 64 MiB.
          KeyboardInterrupt: If `stop` was called.
        """
        process = self._start(command, cleanup)
        outputs = [_Output(pipe, process) for pipe in (process.stdout, process.stderr) if pipe]
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"no answer within {timeout_s:g} seconds") from None
        finally:
            process.kill()  # also on Ctrl-C; nothing where it has ended
            process.wait()
            with self._lock:
                self._running.discard(process)
            texts = [output.text() for output in outputs]
        if self._stopped.is_set() and not cleanup:
            raise KeyboardInterrupt
        if any(output.too_long for output in outputs):
            raise errors.BenchmarkError(
                f"`{' '.join(command)[:200]}`",
                f"at most {MAX_OUTPUT_BYTES >> 20} MiB of output",
                "more",
            )
        return Completed(process.returncode, *texts)

    def _start(self, command: Sequence[str], cleanup: bool) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._stopped.is_set() and not cleanup:
                raise KeyboardInterrupt
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            if not cleanup:
                self._running.add(process)
        return process


class _Output:
    """Collects what a process writes to a pipe, and kills it when that is too much."""

    def __init__(self, pipe: IO[bytes], process: subprocess.Popen[bytes]):
        self.too_long = False
        self._pipe, self._process = pipe, process
        self._content = bytearray()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._pipe:
            while block := self._pipe.read1(1 << 16):  # pyright: ignore[reportAttributeAccessIssue]
                self._content += block
                if len(self._content) > MAX_OUTPUT_BYTES:
                    self.too_long = True
                    self._process.kill()
                    return

    def text(self) -> str:
        """Returns what came; a grandchild that keeps the pipe open is not waited for."""
        self._thread.join(5.0)
        return bytes(self._content).decode("utf-8", "replace")
