"""Signals, and readers of the output that stop: exit codes that are true, no traceback."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

from tfdistill import cli, config
from tfdistill.commands import base

ROOT = pathlib.Path(__file__).parents[2]
BUNDLE = ROOT / "android_demo" / "text" / "src" / "test" / "resources" / "bundles" / "pairs-float32"
INTERRUPTIONS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
IMPORTING = """
import os, sys
class Finder:
    def find_spec(self, name, *_):
        if name == "tfdistill.cli":
            os.kill(os.getpid(), int(sys.argv.pop()))
sys.meta_path.insert(0, Finder())
from tfdistill import __main__
__main__.program()
"""
SHUTTING_DOWN = """
import builtins, os, sys
class Last:
    def __del__(self, kill=os.kill, process=os.getpid(), number=int(sys.argv.pop())):
        kill(process, number)
builtins.last = Last()
from tfdistill import __main__
__main__.program()
"""
PRINTING = ["export", "--help-all"], ["recipes", "ls", "--json"]


def environment():
    """That of a user, whose Python buffers what it prints."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    variables.pop("PYTHONUNBUFFERED", None)
    return variables


def tfdistill(*arguments, **streams):
    command = [sys.executable, "-m", "tfdistill", *arguments]
    return subprocess.run(
        command, env=environment(), stderr=subprocess.PIPE, text=True, check=False, **streams
    )


@pytest.mark.parametrize("number", INTERRUPTIONS)
def test_the_imports_of_the_program_can_be_interrupted(number):
    command = [sys.executable, "-c", IMPORTING, "recipes", "ls", str(int(number))]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "tfdistill: interrupted\n"


@pytest.mark.slow
@pytest.mark.parametrize("number", INTERRUPTIONS)
def test_a_signal_after_all_is_done_does_not_change_the_exit_code(number):
    command = [sys.executable, "-c", SHUTTING_DOWN, "--version", str(int(number))]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("tfdistill ")


def test_a_hang_up_that_nohup_ignores_stays_ignored():
    done = subprocess.run(
        [sys.executable, "-c", IMPORTING, "--version", str(int(signal.SIGHUP))],
        env=environment(),
        capture_output=True,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("number", INTERRUPTIONS)
def test_each_signal_that_ends_a_command_is_an_interruption(number, monkeypatch, capsys):
    before = signal.getsignal(number)

    def signalled(*_: object) -> None:
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)  # as `timeout` does

    monkeypatch.setattr(config, "load_recipe", signalled)
    assert cli.main(["run", "demo"]) == 130
    told = "interrupted. Finished steps are kept. Continue with --resume.\n"
    assert capsys.readouterr().err == f"tfdistill run: {told}"
    assert cli.main(["run", "demo", "--dry-run"]) == 130  # keeps nothing, as the next
    assert capsys.readouterr().err == "tfdistill run: interrupted.\n"
    assert cli.main(["recipes", "check", "demo"]) == 130
    assert capsys.readouterr().err == "tfdistill recipes check: interrupted.\n"
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("command", PRINTING, ids=" ".join)
def test_a_full_disk_behind_the_output_is_one_line_and_exit_code_1(command):
    with open("/dev/full", "w") as full:
        done = tfdistill(*command, stdout=full)
    assert done.returncode == 1
    assert "standard output: no space left on device." in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", PRINTING, ids=" ".join)
def test_a_reader_that_has_seen_enough_is_no_fault(command):
    read, write = os.pipe()
    os.close(read)
    done = tfdistill(*command, stdout=write)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_command_whose_reader_has_left_ends_with_the_code_of_its_result(monkeypatch):
    read, write = os.pipe()
    os.close(read)
    finished = []

    def execute(args):
        for _ in range(3):
            print("slower", flush=True)
        finished.append(args)
        return 1

    command = base.Command(name="x", summary="x", examples=(), execute=execute)
    monkeypatch.setattr(cli, "commands", lambda verb: [command])
    with open(write, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert cli.main(["x"]) == 1
        assert finished
        monkeypatch.undo()


def test_predict_reads_no_further_than_its_reader():
    texts = subprocess.Popen(["yes", "good film\tbad film"], stdout=subprocess.PIPE)
    command = [sys.executable, "-m", "tfdistill", "predict", str(BUNDLE), "--json"]
    predict = subprocess.Popen(
        command,
        env=environment(),
        stdin=texts.stdout,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert predict.stdout is not None and texts.stdout is not None
        texts.stdout.close()
        assert predict.stdout.readline().startswith('{"text": "good film"')
        predict.stdout.close()
        assert predict.wait(60) == 0
    finally:
        predict.kill()
        texts.kill()
        texts.wait()
    assert predict.stderr is not None
    assert predict.stderr.read() == ""
    predict.stderr.close()
