import logging
import os
import signal
import subprocess
import sys
import time

from tfdistill.io import processes

CHILD = (
    "import os, sys, time\nfrom tfdistill.io import processes\n"
    "processes.end_with_parent()\nprint(os.getpid(), flush=True)\ntime.sleep(60)\n"
)
PARENT = (
    "import subprocess, sys\nfrom tfdistill.io import processes\n"
    "subprocess.run([sys.executable, '-c', sys.argv[1]], env=processes.child_environment())\n"
)


def lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_child_ends_with_its_parent_and_at_once_where_that_is_gone_already():
    parent = subprocess.Popen([sys.executable, "-c", PARENT, CHILD], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert lives(child)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    deadline = time.monotonic() + 10
    while lives(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not lives(child)
    parent.stdout.close()
    gone = {**os.environ, "TFDISTILL_PARENT": "1"}
    done = subprocess.run([sys.executable, "-c", CHILD], env=gone, capture_output=True, timeout=30)
    assert (done.returncode, done.stdout) == (1, b"")


SLOW_TO_CLEAN_UP = (
    "import time\nfrom tfdistill.io import processes\n"
    "with processes.interruptible():\n"
    "    try:\n        print('begun', flush=True)\n        time.sleep(60)\n"
    "    except KeyboardInterrupt:\n"
    "        print('interrupted', flush=True)\n        time.sleep(60)\n"
)


def test_a_second_interruption_ends_a_process_that_cleans_up():
    child = subprocess.Popen(
        [sys.executable, "-c", SLOW_TO_CLEAN_UP], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout is not None and child.stderr is not None
    try:
        assert child.stdout.readline() == b"begun\n"
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == b"interrupted\n"
        child.send_signal(signal.SIGTERM)  # at the same time: the same interruption
        time.sleep(1.5)
        assert child.poll() is None
        child.send_signal(signal.SIGTERM)
        assert child.wait(10) == 130
    finally:
        child.kill()
        child.wait()
    assert child.stderr.read() == b"tfdistill: interrupted\n"
    for stream in (child.stdout, child.stderr):
        stream.close()


def test_what_a_correct_run_of_tensorflow_says_is_dropped_and_nothing_else():
    records = []
    log, handler = logging.getLogger("tensorflow"), logging.Handler()
    handler.emit = records.append
    log.addHandler(handler)
    try:
        with processes.without_log("is slow compared"):
            log.warning("`on_train_batch_end` is slow compared to %s", "it")
            log.warning("another")
        log.warning("is slow compared")
    finally:
        log.removeHandler(handler)
    assert [record.getMessage() for record in records] == ["another", "is slow compared"]


def test_python_imports_tensorflow_without_its_messages():
    program = "import tfdistill; from tfdistill import models; models.preset('bert_tiny')"
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; import tensorflow as tf; tf.constant(1)"],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
