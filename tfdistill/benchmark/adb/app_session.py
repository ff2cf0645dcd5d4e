"""One start of the app: it is started, watched, its result is fetched, and nothing is left."""

from __future__ import annotations

import contextlib
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence

from tfdistill import errors, files
from tfdistill.benchmark import schema
from tfdistill.benchmark.adb import app_protocol, preparation
from tfdistill.benchmark.adb.app_protocol import State
from tfdistill.benchmark.adb.phone import Phone, with_what_is_left

FIRST_POLL_S, LONGEST_POLL_S = 0.25, 5.0
MAX_RESULT_BYTES = 64 << 20
_START_S = 60.0
_LOG_LINES = 40


def check_installed(phone: Phone, package: str) -> None:
    """Checks that the app is on the device.

    Raises:
      DeviceLostError: If the device went away.
      BenchmarkError: If it is not.
    """
    if "package:" not in phone.shell(["pm", "path", package], check=False).stdout:
        raise errors.BenchmarkError(
            f"app {package} on {phone.serial}",
            "an installed one",
            "none",
            "Install it with `adb install`; android_demo/README.md explains how to build it.",
        )


def run(
    phone: Phone,
    package: str,
    command: Callable[[str], Sequence[str]],
    *,
    patience_s: float,
    clock: Callable[[], float] = time.monotonic,
) -> schema.Result:
    """Starts the app once, waits until it has measured, and fetches its result.

    Args:
      phone: The device.
      package: Of the app.
      command: Given the id of this run, the command that starts the app.
      patience_s: The longest wait in seconds for a further measurement.
      clock: Seconds.

    Returns:
      The app's result, as it wrote it.

    Raises:
      DeviceLostError: If the device went away.
      BenchmarkError: If the device is not awake and unlocked, or the app cannot be started, fails,
        crashes, takes too long, or writes something else than a result.
    """
    preparation.check_awake(phone)
    run_id = f"tfdistill-{secrets.token_hex(6)}"
    path = f"{app_protocol.folder_of(package)}/{run_id}"
    what = f"result of {package} on {phone.serial}"
    with _cleaned(phone, package, path):
        _start(phone, package, command(run_id))
        _wait(phone, package, f"{path}.state.json", patience_s, clock)
        with files.temporary_folder("result") as folder:
            local = folder / "benchmark.json"
            phone.pull(f"{path}.json", local, max_bytes=MAX_RESULT_BYTES)
            found = app_protocol.read_result(local, what)
    if left := _remove(phone, path):  # what was measured stays all the same
        return found.model_copy(update={"notes": (*found.notes, left)})
    return found


@contextlib.contextmanager
def _cleaned(phone: Phone, package: str, path: str) -> Iterator[None]:
    """Ends the app and removes the files of a run that did not come to a good end."""
    try:
        yield
    except BaseException as error:
        phone.clean_up(["am", "force-stop", package])
        if left := _remove(phone, path):
            raise with_what_is_left(error, left) from error
        raise


def _remove(phone: Phone, path: str) -> str:
    fault = phone.clean_up(["sh", "-c", 'rm -f "$1".*', "sh", path])
    return f"{path}.* was left on {phone.serial}: {fault}" if fault else ""


def _start(phone: Phone, package: str, command: Sequence[str]) -> None:
    done = phone.shell(command, timeout_s=_START_S, check=False)
    printed = f"{done.stdout}\n{done.stderr}"
    if done.exit_code == 0 and not re.search(r"^Error|Exception|Permission Denial", printed, re.M):
        return
    what = f"start of {package} on {phone.serial}"
    last = " ".join(line.strip() for line in printed.splitlines() if line.strip())[-600:]
    if "does not exist" in printed or "Error type 3" in printed:
        expected = "an app with a BenchmarkActivity"
        remedy = "Install a newer build of the app."
    elif "Permission Denial" in printed or "SecurityException" in printed:
        expected = "an activity that the shell may start"
        remedy = (
            "It has to be exported and guarded by android.permission.DUMP, which the shell of adb "
            "holds; some makers want `USB debugging (Security settings)` switched on, too."
        )
    else:
        expected, remedy = "a started activity", ""
    raise errors.BenchmarkError(what, expected, repr(last), remedy)


def _wait(
    phone: Phone, package: str, path: str, patience_s: float, clock: Callable[[], float]
) -> None:
    """Waits until the app is done; a wait without any further measurement comes to an end."""
    finished, since, pause = -1, clock(), FIRST_POLL_S
    while True:
        state, alive = _look(phone, package, path)
        if state is not None and state.state != "running":
            break
        if not alive:
            state, _ = _look(phone, package, path)  # it may have ended well between the two
            if state is not None and state.state != "running":
                break
            raise _crashed(phone, package, state)
        if state is not None and state.finished > finished:
            finished, since = state.finished, clock()
        if clock() - since > patience_s:
            done = "nothing" if state is None else f"{state.finished} of {state.of} measurements"
            raise errors.BenchmarkError(
                f"{package} on {phone.serial}",
                f"a further measurement within {patience_s:g} seconds",
                done,
                "Allow more time with --timeout, or ask for fewer runs.",
            )
        phone.rest(pause)
        pause = min(LONGEST_POLL_S, 1.5 * pause)
    if state.state == "failed":
        raise errors.BenchmarkError(
            f"{package} on {phone.serial}", "a measurement", state.error or "failed"
        )


def _look(phone: Phone, package: str, path: str) -> tuple[State | None, bool]:
    """Returns the state, if there is one yet, and whether the app's process lives."""
    size = app_protocol.MAX_STATE_BYTES
    read = f"dd if={path} bs={size} count=1"  # `head` takes no bytes before Android 9
    answers = phone.ask({"process": f"pidof {package}", "state": read})
    text = answers["state"].strip()
    what = f"state of {package} on {phone.serial}"
    state = app_protocol.parse_state(text, what) if text else None
    return state, bool(answers["process"].strip())


def _crashed(phone: Phone, package: str, state: State | None) -> errors.BenchmarkError:
    lines = ["logcat", "-d", "-t", str(_LOG_LINES), "-s", "AndroidRuntime:E", "DEBUG:F", "libc:F"]
    try:
        log = phone.shell(lines, check=False).stdout.strip()[-4000:]
    except errors.BenchmarkError as error:
        log = str(error)
    done = "before it measured" if state is None else f"after {state.finished} of {state.of}"
    message = errors.explain(
        f"{package} on {phone.serial}",
        "an app that measures to the end",
        f"one whose process is gone {done}",
        "It crashed, was closed, or Android needed its memory; its lines in logcat:",
    )
    return errors.BenchmarkError(f"{message}\n{log or '(nothing)'}")
