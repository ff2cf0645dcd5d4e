"""A device that adb reaches: commands, files, and a private folder that is removed again."""

from __future__ import annotations

import contextlib
import pathlib
import re
import secrets
import shlex
from collections.abc import Iterator, Mapping, Sequence

from tfdistill import errors, files
from tfdistill.benchmark.adb.adb_process import AdbRunner, Completed

TEMPORARY = "/data/local/tmp"
SHORT_S = 30.0  # for commands that answer at once
MAX_FILE_BYTES = 256 << 20
# adb itself ends with 0 when the connection is lost: only this shows that a command has ended.
_ENDED = "tfdistill-exit:"
_NEXT = "tfdistill-next:"
# The program runs next to its shell, so that the shell, which adbd made the leader of a process
# group, can kill it and what it started when adbd hangs up.
_SCRIPT = "trap 'kill -9 $p; kill -9 -$$' HUP; {command} & p=$!; wait $p; echo " + _ENDED + "$? >&2"


class Phone:
    """A device that adb reaches.

    Attributes:
      serial: As `adb devices` lists it.
      model: As `adb devices -l` lists it, such as "Pixel_8".
    """

    def __init__(self, adb: str, serial: str, model: str = ""):
        self.serial, self.model = serial, model
        self._adb = adb
        self._runner = AdbRunner()

    def stop(self) -> None:
        """Kills what runs, from another thread; then only cleaning up still works.

        A program on the device dies with its connection. The thread that waited for it, and every
        later call, gets KeyboardInterrupt.
        """
        self._runner.stop()

    def rest(self, seconds: float) -> None:
        """Waits, and ends with KeyboardInterrupt when `stop` is called meanwhile."""
        self._runner.rest(seconds)

    def ask(self, questions: Mapping[str, str]) -> dict[str, str]:
        """AdbRunner several lines of shell in one trip; what one prints on stderr is left out.

        Args:
          questions: Lines for the device's shell, by name.

        Returns:
          What each printed; empty where it failed.

        Raises:
          DeviceLostError: If the device went away.
          BenchmarkError: If there is no answer within a minute.
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
        self, arguments: Sequence[str], *, timeout_s: float = SHORT_S, check: bool = True
    ) -> Completed:
        """AdbRunner a program on the device.

        Args:
          arguments: The program and its arguments; quoted for the device's shell.
          timeout_s: The longest wait in seconds; then the program is killed.
          check: Whether another exit code than 0 is an error.

        Returns:
          Its exit code (127 where there is no such program) and output.

        Raises:
          DeviceLostError: If the device went away.
          BenchmarkError: If it took longer, or failed and `check` is set.
        """
        done = self._shell(arguments, timeout_s)
        if check and done.exit_code != 0:
            raise errors.BenchmarkError(
                f"`{shlex.join(arguments)[:300]}` on {self.serial}",
                "exit code 0",
                f"{done.exit_code}: {(done.stderr or done.stdout).strip()[-1000:]}",
            )
        return done

    def push(self, local: files.Path, remote: str, *, timeout_s: float = 600.0) -> None:
        """Copies a file to the device, and checks that it arrived whole.

        Args:
          local: The file.
          remote: Its path on the device.
          timeout_s: The longest wait in seconds.

        Raises:
          DeviceLostError: If the device went away.
          BenchmarkError: If there is no room for it, if it arrived damaged, or took longer.
        """
        name = pathlib.Path(local).name
        what = f"push of {name} to {self.serial}"
        whole = str(pathlib.Path(local).absolute())  # a name may start like an option of adb's
        done = self._run(["push", whole, remote], what, timeout_s)
        if done.exit_code != 0:
            raise _transfer_fault(what, done)
        expected = files.sha256_of(local)
        received = self.sha256(remote, timeout_s=timeout_s)
        if received != expected:
            raise errors.BenchmarkError(
                f"{name} on {self.serial}",
                f"SHA-256 {expected}",
                received,
                "It was damaged in transit: try another cable or port.",
            )

    def sha256(self, remote: str, *, timeout_s: float = 600.0) -> str:
        """Returns the SHA-256 of a file on the device, read back where it has no sha256sum."""
        done = self._shell(["sha256sum", remote], timeout_s)
        if found := re.match(r"\\?([0-9a-f]{64})\b", done.stdout):
            return found.group(1)
        with files.temporary_folder("copy") as folder:
            copy = folder / "copy"
            self.pull(remote, copy, max_bytes=1 << 40, timeout_s=timeout_s)
            return files.sha256_of(copy)

    def pull(
        self,
        remote: str,
        local: files.Path,
        *,
        max_bytes: int = MAX_FILE_BYTES,
        timeout_s: float = 600.0,
    ) -> None:
        """Copies one file from the device; the local one is whole or unchanged.

        Args:
          remote: Its path on the device.
          local: Where to write it.
          max_bytes: A larger file is refused.
          timeout_s: The longest wait in seconds.

        Raises:
          DeviceLostError: If the device went away.
          BenchmarkError: If there is no such ordinary file, it is too large, or took longer.
        """
        what = f"{remote} on {self.serial}"
        facts = self._shell(["stat", "-c", "%s %F", remote], SHORT_S)
        size, _, kind = facts.stdout.strip().partition(" ")
        if facts.exit_code != 0 or not kind.startswith("regular") or not size.isdecimal():
            printed = (facts.stdout + facts.stderr).strip()[-300:]
            raise errors.BenchmarkError(what, "a file", repr(printed))
        if int(size) > max_bytes:
            raise errors.BenchmarkError(what, f"at most {max_bytes} bytes", f"{size} bytes")
        with files.atomic_write(local) as temporary:
            done = self._run(["pull", remote, str(temporary)], f"pull of {what}", timeout_s)
            if done.exit_code != 0:
                raise _transfer_fault(f"pull of {what}", done)
            if temporary.stat().st_size > max_bytes:
                raise errors.BenchmarkError(what, f"at most {max_bytes} bytes", "a file that grew")

    @contextlib.contextmanager
    def folder(self) -> Iterator[str]:
        """Makes a private folder on the device and removes it at the end, whatever happens.

        Yields:
          Its path on the device.

        Raises:
          DeviceLostError: If the device went away; its message names what was left there.
          KeyboardInterrupt: On Ctrl-C, also saying what was left if something was.
        """
        path = f"{TEMPORARY}/tfdistill-{secrets.token_hex(6)}"
        try:
            self.shell(["mkdir", "-m", "700", path])
            yield path
        except BaseException as error:
            left = self._remove(path)
            if not left:
                raise
            raise with_what_is_left(error, left) from error
        if left := self._remove(path):
            raise errors.DeviceLostError(left)

    def clean_up(self, arguments: Sequence[str]) -> str:
        """AdbRunner a program that cleans up, also after `stop`.

        Returns:
          Why it failed; empty if it did not.
        """
        try:
            done = self._shell(arguments, SHORT_S, cleanup=True)
        except errors.BenchmarkError as error:
            return str(error)
        return (done.stderr.strip() or f"exit code {done.exit_code}") if done.exit_code else ""

    def _remove(self, path: str) -> str:
        fault = self.clean_up(["rm", "-rf", path])
        if not fault:
            return ""
        return (
            f"{path} was left on {self.serial}: {fault} "
            f"To remove it: adb -s {self.serial} shell rm -rf {path}"
        )

    def _shell(
        self, arguments: Sequence[str], timeout_s: float, *, cleanup: bool = False
    ) -> Completed:
        command = shlex.join(arguments)
        what = f"`{command[:300]}` on {self.serial}"
        script = _SCRIPT.format(command=command)
        done = self._run(["shell", script], what, timeout_s, cleanup=cleanup)
        stderr, ended, code = done.stderr.rpartition(_ENDED)
        if not ended or not code.strip().isdecimal():
            raise _lost(what, done)
        return Completed(int(code), done.stdout, stderr)

    def _run(
        self, arguments: Sequence[str], what: str, timeout_s: float, *, cleanup: bool = False
    ) -> Completed:
        command = [self._adb, "-s", self.serial, *arguments]
        try:
            return self._runner.run(command, timeout_s=timeout_s, cleanup=cleanup)
        except TimeoutError:
            raise errors.BenchmarkError(
                what,
                f"an end within {timeout_s:g} seconds",
                "none",
                "A measurement gets more time with --timeout; anything else should be quick: "
                "is the device hung?",
            ) from None


def with_what_is_left(error: BaseException, left: str) -> BaseException:
    """Returns the error to raise where cleaning up after another one failed: it names both."""
    if isinstance(error, KeyboardInterrupt):
        return KeyboardInterrupt(left)
    if isinstance(error, errors.BenchmarkError):
        return type(error)(f"{error}\n{left}")
    known = isinstance(error, (errors.TfdistillError, OSError))
    return (errors.BenchmarkError if known else RuntimeError)(f"{error}\n{left}")


def _lost(what: str, done: Completed) -> errors.DeviceLostError:
    own = ("error:", "adb:")
    printed = "; ".join(line for line in done.stderr.splitlines() if line.startswith(own))[-1000:]
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
