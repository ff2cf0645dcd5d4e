"""What is measured one file at a time: coverage; delegates."""

import dataclasses

import pytest

from tfdistill.benchmark.host import backend
from tfdistill.benchmark.host.backend import MODULE
from tfdistill.benchmark.settings import Settings
from tfdistill.benchmark.subjects import feeds_for, open_subject
from tfdistill.tflite import child, xnnpack

QUICK = {"runs": 4, "min_seconds": 0.0, "repetitions": 1, "rounds": 2, "warmup": 1}


@pytest.fixture
def subject(tflite_files):
    return open_subject(tflite_files / "fast.tflite")


def test_a_signature_that_is_cut_out_is_the_one_that_is_opened(tflite_files):
    file = tflite_files / "fast.tflite"
    before = file.read_bytes()
    for length in (8, 16):
        with xnnpack.interpreter(str(file), f"len{length}") as opened:
            opened.allocate_tensors()
            shapes = {tuple(detail["shape"]) for detail in opened.get_input_details()}
        assert shapes == {(1, length)}
    assert file.read_bytes() == before


def test_a_worker_stays_on_its_cores(subject, tmp_path):
    import os

    from tfdistill.benchmark import cores

    core = min(os.sched_getaffinity(0))
    pinned = backend.HostBackend([subject], Settings(warmup=1), cores.mask_of([core]))
    job = pinned._job(subject, "ids", 2, "xnnpack")
    job |= {"signature": dataclasses.asdict(subject.signatures[8]), "feeds": feeds_for(subject, 8)}
    with child.Child(job, MODULE, what="x", timeout_seconds=60) as opened:
        status = f"/proc/{opened._process.pid}/task"
        threads = [os.sched_getaffinity(int(thread)) for thread in os.listdir(status)]
        opened.ask({"run": 1, "lead_in": 0})
    assert len(threads) >= 2
    assert all(bound == {core} for bound in threads)  # those of the imports, too
