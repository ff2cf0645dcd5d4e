"""Processes that end with the one that started them, however that ends."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

_PARENT = "TFDISTILL_PARENT"
# Ctrl-C, a polite kill, and a terminal or connection that closes.
INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SAME_S = 1.0  # `timeout` and a closing terminal send their signal twice
_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def import_less() -> None:
    """Lets TensorFlow import neither Keras 3 nor Google's API client: a third of its time.

    For a process of our own. TensorFlow asks that client for clusters of Google's cloud alone.
    """
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    modules: dict[str, Any] = sys.modules
    modules.setdefault("googleapiclient", None)  # its import raises ImportError then


def child_environment() -> dict[str, str]:
    """The environment of a child process that will call `end_with_parent`."""
    return {**os.environ, _PARENT: str(os.getpid())}


def ignore_dated_python() -> None:
    """Drops a warning of google.api_core, which TensorFlow imports: it dates Python versions."""
    warnings.filterwarnings("ignore", "You are using a (non-supported )?Python", FutureWarning)


@contextlib.contextmanager
def without_log(part: str) -> Iterator[None]:
    """Drops messages of TensorFlow that hold these words, while the block runs."""

    def keeps(record: logging.LogRecord) -> bool:
        return part not in record.getMessage()

    log = logging.getLogger("tensorflow")
    log.addFilter(keeps)
    try:
        yield
    finally:
        log.removeFilter(keeps)


def describe_exit(code: int) -> str:
    """Says how a child process ended: "exit code 3", or "signal SIGSEGV" of -11."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


def end_with_parent() -> None:
    """Lets Linux kill this process when the thread that started it ends; elsewhere does nothing.

    Called first thing in a child. One whose parent has ended meanwhile ends at once.
    """
    parent = os.environ.pop(_PARENT, None)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != int(parent):
        os._exit(1)


def on_interruption(handler: Callable[[int, object], None]) -> None:
    """Handles each of `INTERRUPTIONS` that is not ignored; `nohup` ignores one."""
    for number in INTERRUPTIONS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def leave(number: int, frame: object) -> NoReturn:
    """Ends the process with exit code 130: a handler for the time in which nothing is written."""
    with contextlib.suppress(OSError):
        os.write(2, b"tfdistill: interrupted\n")
    os._exit(130)


def end_with_the_result() -> None:
    """Lets no interruption change the exit code from now on, when all is written.

    The last function at exit: Python then takes its handlers away, and a signal would kill it.
    """
    for number in INTERRUPTIONS:
        signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Lets an interruption of the block raise KeyboardInterrupt, and one more end the process.

    After the first, files and folders are cleaned up. What the second leaves of them the next
    process removes.
    """
    interrupted_at = None

    def handle(number: int, frame: object) -> None:
        nonlocal interrupted_at
        if interrupted_at is None:
            interrupted_at = time.monotonic()
            raise KeyboardInterrupt
        if time.monotonic() - interrupted_at > _SAME_S:
            leave(number, frame)

    with _handling(handle):
        yield


@contextlib.contextmanager
def interruptions_held() -> Iterator[None]:
    """Lets an interruption of a short block wait until its end.

    Only the main thread is interrupted; in another one this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[int] = []
    try:
        with _handling(lambda number, _: heard.append(number)):
            yield
    finally:
        for number in heard:
            signal.raise_signal(number)


@contextlib.contextmanager
def _handling(handler: Callable[[int, object], None]) -> Iterator[None]:
    """Handles interruptions of the block, and then again as before."""
    before = [(number, signal.getsignal(number)) for number in INTERRUPTIONS]
    on_interruption(handler)
    try:
        yield
    finally:
        for number, former in before:
            signal.signal(number, former)


def continue_in_child(what: str, grace_s: int = 20) -> None:
    """Continues in a child; this process passes signals on, and ends with the child's exit code.

    For a program that may wait in native code which holds Python's lock: it would hear none of
    `INTERRUPTIONS`. What has not ended `grace_s` seconds after one is killed, exit code 130.
    Called before threads are started.
    """
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)  # Ctrl-C reaches this process once, from its parent
        os.environ[_PARENT] = str(parent)
        end_with_parent()
        return
    interrupted = False

    def pass_on(number: int, _: object) -> None:
        nonlocal interrupted
        interrupted = True
        os.kill(child, number)
        signal.alarm(grace_s)

    on_interruption(pass_on)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if interrupted and code == -signal.SIGKILL:
        text = f"interrupted, and killed since it had not ended after {grace_s} s"
        os.write(2, f"{what}: {text}. Continue with --resume.\n".encode())
        os._exit(130)
    os._exit(code if code >= 0 else 128 - code)


if _PARENT in os.environ:  # imported by a child, before TensorFlow is
    import_less()
