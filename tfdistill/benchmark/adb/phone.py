"""The adb program, and a device that it reaches: commands, files, and a private folder there."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import re
import secrets
import shlex
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO

from tfdistill import errors
from tfdistill.io import files, processes

MAX_OUTPUT_BYTES = 64 << 20
TEMPORARY = "/data/local/tmp"
SHORT_S, TRANSFER_S = 30.0, 600.0  # for commands that answer at once, and for files
MAX_FILE_BYTES = 256 << 20
# adb itself ends with 0 when the connection is lost: only this shows that a command has ended.
_ENDED = "tfdistill-exit:"
_NEXT = "tfdistill-next:"
# The program runs next to its shell, so that the shell, which adbd made the leader of a process
# group, can kill it and what it started when adbd hangs up.
_SCRIPT = "trap 'kill -9 $p; kill -9 -$$' HUP; {command} & p=$!; wait $p; echo " + _ENDED + "$? >&2"


@dataclasses.dataclass(frozen=True)
class Completed:
    """Exit code and output of a program that ended."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def printed(self) -> str:
        """Both outputs."""
        return f"{self.stdout}\n{self.stderr}"


def find_adb() -> str:
    """Finds adb on the PATH or in the Android SDK."""
    if program := shutil.which("adb"):
        return program
    for variable in ("ANDROID_HOME", "ANDROID_SDK_ROOT"):
        if home := os.environ.get(variable):
            folder = pathlib.Path(home) / "platform-tools"
            if program := shutil.which("adb", path=str(folder)):
                return program
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
        """Kills what runs; `run` raises KeyboardInterrupt from now on, except to clean up."""
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

        Returns its exit code and output, as UTF-8 with other bytes replaced.
        """
        started = None
        try:
            with processes.interruptions_held():  # else Ctrl-C forgets what was just started
                started = self._start(command, cleanup)
            process, outputs = started
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"no answer within {timeout_s:g} seconds") from None
        finally:
            if started is not None:
                started[0].kill()  # also on Ctrl-C; nothing where it has ended
                started[0].wait()
                with self._lock:
                    self._running.discard(started[0])
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

    def _start(
        self, command: Sequence[str], cleanup: bool
    ) -> tuple[subprocess.Popen[bytes], list[_Output]]:
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
        return process, [
            _Output(pipe, process) for pipe in (process.stdout, process.stderr) if pipe
        ]


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


class Phone(AdbRunner):
    """A device that adb reaches; a program on it dies with the adb that waits for it.

    Serial and model, such as "Pixel_8", are as `adb devices -l` lists them.
    """

    def __init__(self, adb: str, serial: str, model: str = ""):
        super().__init__()
        self.serial, self.model = serial, model
        self._adb = adb

    def ask(self, questions: Mapping[str, str]) -> dict[str, str]:
        """Runs several lines of shell in one trip; what one prints on stderr is left out.

        Returns what each printed; empty where it failed.
        """
        lines = [
            f"echo '{_NEXT}{name}'; {{ {line}; }} 2>/dev/null" for name, line in questions.items()
        ]
        done = self.shell(["sh", "-c", "; ".join([*lines, "true"])], timeout_s=2 * SHORT_S)
        answers = dict.fromkeys(questions, "")
        for part in done.stdout.split(_NEXT)[1:]:
            name, _, text = part.partition("\n")
            if name in answers:
                answers[name] = text
        return answers

    def shell(
        self,
        arguments: Sequence[str],
        *,
        timeout_s: float = SHORT_S,
        check: bool = True,
        cleanup: bool = False,
    ) -> Completed:
        """Runs a program on the device.

        Returns its exit code (127 where there is no such program) and output.
        """
        command = shlex.join(arguments)
        what = f"`{command[:300]}` on {self.serial}"
        script = _SCRIPT.format(command=command)
        done = self._run(["shell", script], what, timeout_s, cleanup=cleanup)
        stderr, ended, code = done.stderr.rpartition(_ENDED)
        if not ended or not code.strip().isdecimal():
            raise _lost(what, done)
        if check and int(code) != 0:
            received = f"{int(code)}: {(stderr or done.stdout).strip()[-1000:]}"
            raise errors.BenchmarkError(what, "exit code 0", received)
        return Completed(int(code), done.stdout, stderr)

    def push(self, local: files.Path, remote: str) -> None:
        """Copies a file to the device, and checks that it arrived whole."""
        name = pathlib.Path(local).name
        what = f"push of {name} to {self.serial}"
        whole = str(pathlib.Path(local).absolute())  # a name may start like an option of adb's
        done = self._run(["push", whole, remote], what, TRANSFER_S)
        if done.exit_code != 0:
            raise _transfer_fault(what, done)
        expected = files.sha256_of(local)
        received = self.sha256(remote)
        if received != expected:
            raise errors.BenchmarkError(
                f"{name} on {self.serial}",
                f"SHA-256 {expected}",
                received,
                "It was damaged in transit: try another cable or port.",
            )

    def sha256(self, remote: str) -> str:
        """Returns the SHA-256 of a file on the device, read back where it has no sha256sum."""
        done = self.shell(["sha256sum", remote], timeout_s=TRANSFER_S, check=False)
        if match := re.match(r"\\?([0-9a-f]{64})\b", done.stdout):
            return match.group(1)
        with files.temporary_folder("copy") as folder:
            copy = folder / "copy"
            self.pull(remote, copy, max_bytes=1 << 40)
            return files.sha256_of(copy)

    def pull(self, remote: str, local: files.Path, *, max_bytes: int = MAX_FILE_BYTES) -> None:
        """Copies one file from the device; the local one is whole or unchanged."""
        what = f"{remote} on {self.serial}"
        facts = self.shell(["stat", "-c", "%s %F", remote], check=False)
        size, _, kind = facts.stdout.strip().partition(" ")
        if facts.exit_code != 0 or not kind.startswith("regular") or not size.isdecimal():
            printed = (facts.stdout + facts.stderr).strip()[-300:]
            raise errors.BenchmarkError(what, "a file", repr(printed))
        if int(size) > max_bytes:
            raise errors.BenchmarkError(what, f"at most {max_bytes} bytes", f"{size} bytes")
        with files.atomic_write(local) as temporary:
            done = self._run(["pull", remote, str(temporary)], f"pull of {what}", TRANSFER_S)
            if done.exit_code != 0:
                raise _transfer_fault(f"pull of {what}", done)
            if temporary.stat().st_size > max_bytes:
                raise errors.BenchmarkError(what, f"at most {max_bytes} bytes", "a file that grew")

    def read(self, remote: str) -> bytes:
        """Returns the content of a file on the device."""
        with files.temporary_folder("pull") as folder:
            local = folder / "file"
            self.pull(remote, local)
            return local.read_bytes()

    def write(self, remote: str, content: bytes) -> None:
        """Writes a file on the device, and checks that it arrived whole."""
        with files.temporary_folder("push") as folder:
            local = folder / pathlib.PurePosixPath(remote).name
            local.write_bytes(content)
            self.push(local, remote)

    @contextlib.contextmanager
    def folder(self) -> Iterator[str]:
        """Makes a private folder on the device and removes it at the end, whatever happens.

        Yields its path on the device.
        """
        path = f"{TEMPORARY}/tfdistill-{secrets.token_hex(6)}"

        def remove() -> str:
            fault = self.clean_up(["rm", "-rf", path])
            command = f"adb -s {self.serial} shell rm -rf {path}"
            return fault and f"{path} was left on {self.serial}: {fault} To remove it: {command}"

        with undone(remove):
            self.shell(["mkdir", "-m", "700", path])
            yield path

    def clean_up(self, arguments: Sequence[str]) -> str:
        """Runs a program that cleans up, also after `stop`.

        Returns why it failed; empty if it did not.
        """
        try:
            done = self.shell(arguments, check=False, cleanup=True)
        except errors.BenchmarkError as error:
            return str(error)
        return (done.stderr.strip() or f"exit code {done.exit_code}") if done.exit_code else ""

    def _run(
        self, arguments: Sequence[str], what: str, timeout_s: float, *, cleanup: bool = False
    ) -> Completed:
        command = [self._adb, "-s", self.serial, *arguments]
        try:
            return self.run(command, timeout_s=timeout_s, cleanup=cleanup)
        except TimeoutError:
            raise errors.BenchmarkError(
                what,
                f"an end within {timeout_s:g} seconds",
                "none",
                "A measurement gets more time with --timeout; anything else should be quick: "
                "is the device hung?",
            ) from None


@contextlib.contextmanager
def undone(clean_up: Callable[[], str]) -> Iterator[None]:
    """Cleans up at the end, whatever happens; an error names what `clean_up` returns that is left.

    After Ctrl-C, too, which may come at any time.
    """
    try:
        yield
    except BaseException as error:
        if left := clean_up():
            raise with_what_is_left(error, left) from error
        raise
    if left := clean_up():
        raise errors.DeviceLostError(left)


def with_what_is_left(error: BaseException, left: str) -> BaseException:
    """Returns the error to raise where cleaning up after another one failed: it names both."""
    if isinstance(error, KeyboardInterrupt):
        return KeyboardInterrupt(left)
    if isinstance(error, errors.BenchmarkError):
        return type(error)(f"{error}\n{left}")
    expected = isinstance(error, (errors.TfdistillError, OSError))
    return (errors.BenchmarkError if expected else RuntimeError)(f"{error}\n{left}")


def _lost(what: str, done: Completed) -> errors.DeviceLostError:
    prefixes = ("error:", "adb:")
    printed = "; ".join(line for line in done.stderr.splitlines() if line.startswith(prefixes))[
        -1000:
    ]
    if "unauthorized" in printed:
        remedy = "Unlock the device and accept the dialog that asks to allow USB debugging."
    else:
        remedy = "Check the cable or the network; `adb devices` shows who is connected."
    received = repr(printed) if printed else "the end of the connection"
    return errors.DeviceLostError(what, "an exit code", received, remedy)


def _transfer_fault(what: str, done: Completed) -> errors.BenchmarkError:
    lines = [line.strip() for line in (done.stderr + "\n" + done.stdout).splitlines()]
    faults = [line for line in lines if "error:" in line] or [line for line in lines if line][-1:]
    printed = "; ".join(faults)[-1000:]
    lost = ("offline", "not found", "from device", "unauthorized", "closed", "protocol fault")
    if "No space left" in printed:
        remedy = f"Free some of the device's storage: `df {TEMPORARY}` on it shows how much."
        return errors.BenchmarkError(what, "room for it", repr(printed), remedy)
    if any(word in printed for word in lost) and "remote" not in printed:
        return _lost(what, Completed(done.exit_code, "", printed))
    return errors.BenchmarkError(what, "a whole file", repr(printed))
