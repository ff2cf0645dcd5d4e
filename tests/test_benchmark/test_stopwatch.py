"""What an inference had of the processor, against work of which that is known."""

import os
import subprocess
import sys
import threading
import time

from tfdistill.benchmark.host import stopwatch


def compute(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def timed(work, threads=1):
    watch = stopwatch.Stopwatch(threads)
    watch.start()
    work()
    watch.stop()
    return {name: values[0] for name, values in watch.samples().items()}


def test_processor_time_is_that_of_all_threads_without_waiting_if_it_is_counted(monkeypatch):
    sample = timed(lambda: time.sleep(0.05))
    assert sample["samples_ms"] >= 50
    assert sample["processor_ms"] < 25  # not a tick of the scheduler, which is 1 to 10 ms
    assert sample["waits"] >= 1

    def two_threads():
        other = threading.Thread(target=compute, args=(0.05,))
        other.start()
        compute(0.05)
        other.join()

    assert timed(two_threads, threads=2)["processor_ms"] >= 100
    assert timed(two_threads, threads=1)["processor_ms"] < 90
    monkeypatch.setattr(stopwatch, "resource", None)
    assert [*timed(lambda: None)] == ["samples_ms"]


def test_another_program_on_the_same_core_preempts():
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    spinner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(0.3)
        sample = timed(lambda: compute(0.1))
    finally:
        spinner.kill()
        spinner.wait()
        os.sched_setaffinity(0, cores)
    assert sample["preemptions"] >= 3
    assert sample["samples_ms"] > 1.2 * sample["processor_ms"]
    assert 100 <= sample["processor_ms"] < 120
