"""A backend without a device: it takes no time, and does what a test tells it to."""

from __future__ import annotations

import contextlib
import hashlib
import pathlib

import benchmark_results

from tfdistill.benchmark import schema
from tfdistill.benchmark.backend import CaseGroup, Environment, Findings, name_of
from tfdistill.benchmark.settings import Settings
from tfdistill.benchmark.subjects import Subject
from tfdistill.tflite.golden import Example
from tfdistill.tflite.signature import Signature, Tensor

COOL = schema.Conditions(time="2026-11-22T10:00:00+00:00", thermal_status=0)


def subject(name, lengths=(8,)):
    ids = {n: Tensor("input_ids", "int32", (1, n), 0, role="input_ids") for n in lengths}
    signatures = {n: Signature(f"len{n}", 0, (ids[n],), (), 90) for n in lengths}
    digest = hashlib.sha256(name.encode()).hexdigest()
    example = Example((2, 5, 3), (0, 0, 0))
    return Subject(
        name, pathlib.Path(__file__), digest, signatures, None, None, (example,), "golden"
    )


class Backend:
    """Measures 1 ms an inference; `act(what, action)` is asked first and may raise.

    Actions are "open", "start", "block", "finish", "operators", "answers" and "rest".
    """

    name = "litert"
    affinity = None
    where = "a fake"

    def __init__(self, names="ab", act=lambda what, action: None, *, lengths=(8,), **settings):
        self.act = act
        self.subjects = [subject(name, lengths) for name in names]
        quick = {"runs": 4, "rounds": 2, "min_seconds": 0, "repetitions": 2}
        self.settings = Settings(**{**quick, **settings})
        self.rounds = self.settings.rounds
        self.device = benchmark_results.PHONE
        self.statuses = iter(())  # thermal status at each look at the device; then 0
        self.alive = set()
        self.blocks = []

    @contextlib.contextmanager
    def opened(self, findings):
        self.act("all", "open")
        yield

    def environment(self):
        return Environment("phone", self.device, benchmark_results.RUNTIME)

    def conditions(self):
        return COOL.model_copy(update={"thermal_status": next(self.statuses, 0)})

    wait_until_cool = conditions

    def rest(self, seconds):
        self.act(seconds, "rest")

    def groups(self):
        names = tuple(s.name for s in self.subjects)
        return [
            CaseGroup(names, delegate, length, threads)
            for length in sorted({n for s in self.subjects for n in s.signatures})
            for threads in self.settings.threads
            for delegate in self.settings.delegates
        ]

    def run_of(self, model, group, repetition):
        return Run(self, model, group, repetition)

    def answers(self):
        return ()


class Run:
    def __init__(self, backend, model, group, repetition):
        self.case = schema.BenchmarkCase(
            model=model,
            sequence_length=group.sequence_length,
            threads=group.threads,
            delegate=group.delegate,
        )
        self.what, self.backend, self.repetition = name_of(self.case), backend, repetition
        self.samples = []

    def start(self):
        self.backend.alive.add(self)
        self.backend.act(self.what, "start")
        return 1.0

    def run_block(self, number, runs):
        self.backend.act(self.what, "block")
        self.backend.blocks.append((number, self.case.model, runs))
        self.samples += [1.0] * runs

    def finish(self, before, after):
        self.backend.act(self.what, "finish")
        row = schema.Measurement(
            **self.case.model_dump(),
            repetition=self.repetition,
            samples_ms=tuple(self.samples),
            before=before,
            after=after,
        )
        return Findings(measurements=[row])

    def close(self):
        self.backend.alive.discard(self)
