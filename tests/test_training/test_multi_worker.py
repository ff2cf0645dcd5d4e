"""Two workers are two devices of one process: weights, logs, one folder; one that is killed."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading

import pytest
import tensorflow as tf

import harness
from tfdistill import config, errors, run
from tfdistill.training import multi_worker, strategies

HERE = pathlib.Path(__file__).resolve().parent


@pytest.mark.slow
def test_two_workers_train_as_two_devices_do(tmp_path):
    """15 steps with dropout, two batches an optimizer step, and a checkpoint between the two."""
    private = tmp_path / "private"
    private.mkdir()
    threads = {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}
    done = harness.run_program(HERE / "two_workers.py", tmp_path, TMPDIR=str(private), **threads)
    ended = [os.waitstatus_to_exitcode(code) for code in json.loads(done.stdout.splitlines()[-1])]
    assert ended == [0, 0, -signal.SIGKILL], done.stderr[-3000:]
    names = ("local", "worker-0", "worker-1", "killed-0")
    local, chief, other, left = (
        json.loads((tmp_path / f"{name}.json").read_text("utf-8")) for name in names
    )
    assert local["steps"] == len(local["logs"]) == 15
    for worker in (chief, other):
        assert worker["devices"] == ["0/CPU:0", "1/CPU:0"]
        assert worker["before"] == local["logs"][:8]
        # It goes on from step 7, between the two batches of an optimizer step.
        assert worker["resumed"] == {**local, "logs": local["logs"][7:]}

    assert left["error"].startswith("cluster of TF_CONFIG: expected every worker to stay")
    assert left["seconds"] < 60

    shared = tmp_path / "shared"
    assert {path.name for path in shared.iterdir()} == {"checkpoints", "history.csv", "tensorboard"}
    assert len(list((shared / "checkpoints" / "last").glob("*.index"))) == 1
    assert len(list((shared / "tensorboard").rglob("events*"))) == 3  # fits of the chief
    assert not list(private.glob("tfdistill-worker*/*/history.csv"))


WAITING = """
import signal, sys
from tfdistill.io import processes
processes.continue_in_child("program", grace_s=3)
signal.signal(signal.SIGTERM, signal.default_int_handler)
from tfdistill.training import strategies
strategies.choose()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.thorough)]
)
def test_a_worker_that_waits_for_others_ends_on_signals(number):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    workers = [f"127.0.0.1:{port}", "127.0.0.1:1"]
    task = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": 0}}
    worker = subprocess.Popen(
        [sys.executable, "-c", WAITING],
        env={
            **os.environ,
            **{"TF_CONFIG": json.dumps(task), "PYTHONPATH": str(HERE.parents[1])},
            "TF_CPP_MIN_LOG_LEVEL": "0",  # what TensorFlow waits for is a message of its own
        },
        stderr=subprocess.PIPE,
        text=True,
    )
    in_vain = threading.Timer(240, worker.kill)
    in_vain.start()
    try:
        assert any("Waiting for 1/2 tasks" in line for line in worker.stderr)
        worker.send_signal(number)
        _, message = worker.communicate(timeout=30)
    finally:
        in_vain.cancel()
        worker.kill()
    assert worker.returncode == 130
    assert "program: interrupted, and killed since it had not ended after 3 s." in message


@pytest.mark.parametrize(("arguments", "code"), [(["recipes", "presets"], 0), (["presetz"], 2)])
def test_a_worker_ends_with_the_code_of_its_command(arguments, code):
    done = subprocess.run(
        [sys.executable, "-m", "tfdistill", *arguments],
        env={**os.environ, "TF_CONFIG": json.dumps(CLUSTER)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == code and bool(done.stdout) == (code == 0)


CLUSTER = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}


def test_runs_and_uneven_devices_are_refused_before_waiting(tmp_path, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", json.dumps(CLUSTER))
    with pytest.raises(errors.ConfigError, match=r"TF_CONFIG: expected one machine, received 2 w"):
        run.run_recipe(config.load_recipe("demo"), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(errors.ConfigError, match="devices: expected 1 to 1, the devices here"):
        strategies.choose(2)


def test_without_a_cluster_folders_and_numbers_stay(tmp_path):
    for strategy in (None, tf.distribute.get_strategy()):
        with multi_worker.working_folder(tmp_path / "absent", strategy) as folder:
            assert folder == tmp_path / "absent" and not folder.exists()
        assert multi_worker.of_chief(strategy, {"accuracy": 0.5}) == {"accuracy": 0.5}
        multi_worker.check_same_step(strategy, 3, tmp_path)
    assert not multi_worker.is_lost(tf.errors.UnavailableError(None, None, "a disk"))
