"""The real adb client with a server of its own for each test, and phones for it."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator

import pytest
from adb_daemon import Daemon, launcher, make_phone

from tfdistill.benchmark.adb import tool_backend
from tfdistill.benchmark.settings import Settings


@pytest.fixture(scope="session")
def adb_home(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Where the adb of the tests keeps its key."""
    return tmp_path_factory.mktemp("adb-home")


@pytest.fixture
def adb(adb_home: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The adb program, with a server that knows nothing but the phones of this test.

    This process and those that it starts talk to that server, which ends with the test: one that
    went on would try for minutes to find again what an earlier test connected.
    """
    program = shutil.which("adb")
    if program is None:
        if os.environ.get("CI"):
            pytest.fail("no adb on this machine: run scripts/runtimes")
        pytest.skip("no adb on this machine: scripts/runtimes sets it up")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("HOME", str(adb_home))
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(port))
    monkeypatch.setenv("ADB_LOCAL_TRANSPORT_MAX_PORT", "5554")  # looks for no emulators
    monkeypatch.delenv("ANDROID_SERIAL", raising=False)
    environment = dict(os.environ)
    subprocess.run([program, "start-server"], check=True, capture_output=True, timeout=60)
    yield program
    kill = [program, "kill-server"]
    subprocess.run(kill, check=False, capture_output=True, timeout=60, env=environment)


@pytest.fixture
def connect(adb: str, tmp_path: pathlib.Path) -> Iterator[Callable[..., Daemon]]:
    """Connects phones: model and properties -> the daemon of one more phone."""
    daemons: list[Daemon] = []

    def make(
        model: str = "Pixel_8", *, unauthorized: bool = False, old: bool = False, **properties: str
    ) -> Daemon:
        root = make_phone(tmp_path / f"phone-{len(daemons)}", **properties)
        daemon = Daemon(root, model=model)
        daemon.faults.unauthorized, daemon.faults.old = unauthorized, old
        daemons.append(daemon)
        command = [adb, "connect", daemon.serial]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        return daemon

    yield make
    for daemon in daemons:
        daemon.close()


@pytest.fixture
def phone(connect: Callable[..., Daemon]) -> Callable[..., Daemon]:
    """Connects phones that run programs of this machine's processor."""

    def make(model: str = "Pixel_8", **properties: str) -> Daemon:
        abi = {"ro__product__cpu__abi": launcher.ABI, "ro__product__cpu__abilist": launcher.ABI}
        return connect(model, **abi, **properties)

    return make


@pytest.fixture
def binary(tmp_path: pathlib.Path) -> pathlib.Path:
    """The stand-in for benchmark_model, as a program to push."""
    folder = tmp_path / "binary"
    folder.mkdir()
    return launcher.make_binary(folder)


@pytest.fixture
def fast(tflite_files: pathlib.Path) -> list[pathlib.Path]:
    return [tflite_files / "fast.tflite"]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The least that measures: one repetition of two blocks of three at 8 tokens."""
    monkeypatch.setattr(tool_backend, "NUM_FEEDS", 2)
    return Settings(
        warmup=1, runs=6, min_seconds=0, repetitions=1, rounds=2, lengths=(8,), timeout_seconds=120
    )


@pytest.fixture
def strike() -> Callable[..., None]:
    """Makes something go wrong with the stand-in, from one of its runs to another."""

    def make(daemon: Daemon, fault: str, *, first: int = 0, **more: object) -> None:
        plan = {"fault": fault, "from": first, **more}
        daemon.path("/says/benchmark_model.json").write_text(json.dumps(plan))

    return make


@pytest.fixture
def left_on() -> Callable[[Daemon], list[str]]:
    """Lists what is left where the harness puts its folders."""
    return lambda daemon: sorted(p.name for p in daemon.path("/data/local/tmp").iterdir())
