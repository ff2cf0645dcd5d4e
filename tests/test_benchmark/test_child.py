import dataclasses
import json
import os
import sys
import threading
import time

import numpy as np
import pytest

from tfdistill import errors
from tfdistill.benchmark.host.backend import MODULE
from tfdistill.tflite import child, roles

SLEEPER = (
    "import json, os, time; print(json.dumps({'pid': os.getpid()}), flush=True);time.sleep(600)"
)


def job(file):
    signature = dataclasses.asdict(roles.read_signatures(file)[8])
    feeds = [{"input_ids": [2, 5, 6, 3], "token_type_ids": [0] * 4}]
    start = {"kind": "ids", "file": str(file), "threads": 1, "warmup": 2}
    start["delegate"] = "xnnpack"
    return {**start, "signature": signature, "feeds": feeds}


def script(code):
    return {"what": "toy", "timeout_seconds": 20, "arguments": ("-c", code)}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no VmHWM")
def test_the_peak_is_the_worker_s_own_and_not_its_parent_s(tflite_files):
    ballast = np.ones(400_000_000 // 8)
    start = job(tflite_files / "fast.tflite")
    with child.Child(start, MODULE, what="x", timeout_seconds=60) as worker:
        assert worker.finish()["peak_rss_bytes"] < ballast.nbytes


def test_a_worker_that_fails_crashes_or_ends_too_early_says_why(tmp_path, tflite_files):
    broken = tmp_path / "broken.tflite"
    broken.write_bytes((tflite_files / "fast.tflite").read_bytes()[:-20000])
    wrong_job = {**job(tflite_files / "fast.tflite"), "file": str(broken)}
    with pytest.raises(errors.BenchmarkError, match=r"toy: expected a file that runs in LiteRT"):
        child.Child(wrong_job, MODULE, what="toy", timeout_seconds=60)
    code = "import os, sys; print('last words', file=sys.stderr, flush=True); os.abort()"
    with pytest.raises(errors.BenchmarkError, match=r"SIGABRT.*last words"):
        child.Child({}, **script(code))
    with pytest.raises(errors.BenchmarkError, match="exit code 3"):
        child.Child({}, **script("raise SystemExit(3)"))


def test_a_worker_that_hangs_is_killed_and_leaving_the_context_ends_it_whatever_happens():
    worker = child.Child({}, **{**script(SLEEPER), "timeout_seconds": 5})
    pid = worker.report["pid"]
    worker._timeout = 0.2
    with pytest.raises(errors.BenchmarkError, match=r"an answer within 0\.2 s"):
        worker.ask({"run": 1, "lead_in": 0})
    worker.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with (
        pytest.raises(KeyboardInterrupt),
        child.Child({}, **script(SLEEPER)) as worker,
    ):
        pid = worker.report["pid"]
        raise KeyboardInterrupt
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_cores_that_are_not_there_are_an_error_and_no_worker_is_left(tflite_files):
    started = []
    real = child.subprocess.Popen

    class Noted(real):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self)

    wrong_job = {**job(tflite_files / "fast.tflite"), "cores": [1023]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(child.subprocess, "Popen", Noted)
        with pytest.raises(errors.BenchmarkError, match=r"toy: expected cores \[1023\] to run on"):
            child.Child(wrong_job, MODULE, what="toy", timeout_seconds=60)
    (process,) = started
    assert process.returncode is not None


def test_no_thread_reads_on_when_the_worker_is_gone_and_ctrl_c_is_for_the_parent():
    ended = []

    class Slow(child.Child):
        def _listen(self):
            super()._listen()
            time.sleep(0.2)
            ended.append(threading.current_thread())

    with Slow({}, **script(SLEEPER)):
        assert ended == []
    assert len(ended) == 1
    with child.Child({}, **script(SLEEPER)) as worker:
        assert os.getpgid(worker.report["pid"]) != os.getpgid(0)


def test_modules_in_the_working_directory_do_not_shadow_the_worker_s(
    tmp_path, monkeypatch, tflite_files
):
    (tmp_path / "numpy.py").write_text("raise SystemExit('shadowed')")
    monkeypatch.chdir(tmp_path)
    start = job(tflite_files / "fast.tflite")
    with child.Child(start, MODULE, what="x", timeout_seconds=60) as worker:
        assert json.dumps(worker.report)
