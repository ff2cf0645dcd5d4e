"""Measures on one device with `benchmark_model`.

The tool gives no single durations, only statistics of a run. So a run is a block: a repetition of
a case consists of `rounds` runs, each a fresh process; and before them one short run that shows
whether the delegate takes part, roughly how long an inference takes, and how much memory the
process needs. Afterwards the device's answers are compared with the host's.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tfdistill import errors
from tfdistill.benchmark import schema
from tfdistill.benchmark.adb import output
from tfdistill.benchmark.adb.binary import BenchmarkModelTool
from tfdistill.benchmark.adb.device_backend import DeviceBackend
from tfdistill.benchmark.adb.phone import Phone
from tfdistill.benchmark.adb.tool import (
    Deployed,
    Deployment,
    Feed,
    SignatureLayout,
    ToolCommand,
    feed_of,
)
from tfdistill.benchmark.backend import (
    AnswerCheck,
    CaseGroup,
    Environment,
    Findings,
    groups_by_length,
    name_of,
)
from tfdistill.benchmark.settings import Settings
from tfdistill.benchmark.subjects import Subject, feeds_for
from tfdistill.tflite import TfliteModel, agreement
from tfdistill.tflite.golden import Example
from tfdistill.tflite.model import rows_of, side_of

Metric = Callable[[Sequence[np.ndarray]], Mapping[str, float]]

_NOTE = (
    "benchmark_model gives statistics of runs, not single durations: medians and tails are over "
    "blocks of inferences, each a process of its own."
)
NUM_FEEDS = 8  # examples that timed runs go round, and that parity is checked with
_ESTIMATE_RUNS = 5  # of a short run that shows roughly how long an inference takes
_WARM_UP_SECONDS = 0.5  # the tool's default: until the clocks of a phone have risen


@dataclasses.dataclass(frozen=True)
class Plan:
    """The measurements to make, the same for all devices."""

    subjects: Sequence[Subject]  # the files, of unique names
    layouts: Mapping[tuple[str, int], SignatureLayout]  # by name of a file and length
    settings: Settings  # how to measure
    binary: BenchmarkModelTool  # the tool
    examples: Sequence[Example] = ()  # of a task, for answers; none for golden examples
    metric: Metric | None = None  # from answers to these to the task's metrics


class BenchmarkModelBackend(DeviceBackend):
    """`benchmark_model` on a device; see `backend.Backend`."""

    name: schema.BackendName = "benchmark_model"

    def __init__(self, phone: Phone, plan: Plan) -> None:
        super().__init__(phone, plan.subjects, plan.settings)
        self.rounds = plan.settings.rounds
        self._plan = plan
        self._deployed: dict[tuple[str, int], Deployed] = {}
        self._task_examples: dict[str, Deployed] = {}
        self._deployment: Deployment

    @contextlib.contextmanager
    def opened(self, findings: Findings) -> Iterator[None]:
        """Pushes the tool, the files and their inputs to a folder that is removed at the end."""
        binary = self._plan.binary
        findings.note(_NOTE)
        described = self.prepared(findings)
        with self.phone.folder() as folder:
            binary.check_runs_on(described.abis)
            self.affinity = described.mask(self.settings.affinity)
            self._deployment = Deployment(self.phone, folder, binary)
            for subject in self.subjects:
                for length in subject.lengths(self.settings):
                    key = (subject.name, length)
                    feeds = feeds_for(subject, length, limit=NUM_FEEDS)
                    layout = self._plan.layouts[key]
                    self._deployed[key] = self._deployment.put(subject, layout, feeds)
            yield

    def environment(self) -> Environment:
        """Describes the device and the tool."""
        runtime = schema.Runtime(name="benchmark_model", sha256=self._plan.binary.sha256)
        return Environment(self.kind, self.device, runtime)

    def groups(self) -> Sequence[CaseGroup]:
        """Lists each length."""
        return groups_by_length(self.subjects, self.settings)

    def run_of(self, model: str, group: CaseGroup, repetition: int) -> ToolRun:
        """Returns a repetition of a file: runs of the tool."""
        assert group.sequence_length is not None
        case = schema.BenchmarkCase(
            model=model,
            sequence_length=group.sequence_length,
            threads=group.threads,
            delegate=group.delegate,
            affinity=self.affinity,
        )
        return ToolRun(self, case, repetition)

    def answers(self) -> Iterator[AnswerCheck]:
        """Lists each file and delegate, on its own examples or on a task's.

        A task's examples are all answered at the longest length, where nothing is cut.
        """
        at = {"threads": self.settings.threads[0], "affinity": self.affinity}
        for subject in self.subjects:
            longest = max(subject.signatures)
            on_task = dict.fromkeys(subject.lengths(self.settings), False)
            on_task |= {longest: True} if self._plan.examples else {}
            for length, all_examples in on_task.items():
                for delegate in self.settings.delegates:
                    case = schema.BenchmarkCase(
                        model=subject.name, sequence_length=length, delegate=delegate, **at
                    )
                    yield case, functools.partial(self._compare, subject, case, all_examples)

    def command(
        self,
        case: schema.BenchmarkCase,
        deployed: Deployed | None = None,
        *,
        warmup: int = 1,
        **options: Any,
    ) -> ToolCommand:
        """Returns what runs a case, by default on the examples that are measured with.

        `options` are further fields of `ToolCommand`.
        """
        return ToolCommand(
            deployed or self._deployed[case.model, case.sequence_length],
            case,
            warmup=warmup,
            warmup_seconds=min(_WARM_UP_SECONDS, self.settings.min_seconds) if warmup else 0.0,
            max_seconds=self.settings.timeout_seconds,
            **options,
        )

    def run(self, case: schema.BenchmarkCase, example: int = 0, **options: Any) -> output.Output:
        """Runs the tool once."""
        return self._deployment.run(self.command(case, **options), example)

    def estimate(
        self, case: schema.BenchmarkCase, **options: Any
    ) -> tuple[output.Output, schema.Coverage | None]:
        """Runs the tool shortly: which delegate computes, and roughly how long it takes."""
        command = self.command(case, runs=_ESTIMATE_RUNS, **options)
        printed = self._deployment.run(command, 0)
        return printed, command.coverage(printed)

    def layout(self, case: schema.BenchmarkCase) -> SignatureLayout:
        """Returns the layout of the entry point that a case runs."""
        return self._plan.layouts[case.model, case.sequence_length]

    def _compare(
        self, subject: Subject, case: schema.BenchmarkCase, on_task: bool
    ) -> schema.AnswerComparison:
        """Compares the answers to the examples that are measured with, or to all of a task's."""
        layout = self.layout(case)
        if on_task:
            feeds = [
                {"input_ids": list(e.input_ids), "token_type_ids": list(e.token_type_ids)}
                for e in self._plan.examples
            ]
            if subject.name not in self._task_examples:
                self._task_examples[subject.name] = self._deployment.put(subject, layout, feeds)
            deployed, metric = self._task_examples[subject.name], self._plan.metric
        else:
            feeds = feeds_for(subject, case.sequence_length, limit=NUM_FEEDS)
            deployed, metric = None, None
        command = self.command(case, deployed, warmup=0, runs=1, dump=True)
        device = self._deployment.answers(command)
        # Ctrl-C, which stops the phone's commands, ends what runs here as well.
        host = answers_of_host(subject, layout, feeds, before_each=lambda: self.phone.rest(0))
        tokens = [len(feed["input_ids"]) for feed in feeds]
        host_answers, device_answers = (
            [rows_of(layout, outputs, n) for outputs, n in zip(side, tokens, strict=True)]
            for side in (host, device)
        )
        span = is_span(layout)
        return compare_answers(case, host_answers, device_answers, metric=metric, span=span)


class ToolRun:
    """One repetition of a case: runs of the tool; see `backend.CaseRun`."""

    def __init__(
        self, backend: BenchmarkModelBackend, case: schema.BenchmarkCase, repetition: int
    ) -> None:
        self.what = name_of(case)
        self._backend, self._case, self._repetition = backend, case, repetition
        self._warmup = max(backend.settings.warmup, 1)
        self._outputs: list[output.Output] = []
        self._block_runs = 0

    def start(self) -> float:
        """Runs the tool shortly, and looks at its memory."""
        self._first, self._coverage = self._backend.estimate(
            self._case, warmup=self._warmup, memory=True
        )
        return self._first.block.mean_ms

    def run_block(self, number: int, runs: int) -> None:
        """Runs the tool once on the next example."""
        self._block_runs = runs
        printed = self._backend.run(self._case, number, runs=runs, warmup=self._warmup)
        self._outputs.append(printed)

    def finish(self, before: schema.Conditions, after: schema.Conditions) -> Findings:
        """Gives the blocks as a measurement."""
        row = schema.Measurement(
            **self._case.model_dump(),
            signature=self._backend.layout(self._case).key,
            repetition=self._repetition,
            started=before.time,
            block_runs=self._block_runs,
            blocks=tuple(printed.block for printed in self._outputs),
            init_ms=statistics.median(o.init_ms for o in self._outputs),
            first_inference_ms=statistics.median(o.first_inference_ms for o in self._outputs),
            peak_rss_bytes=self._first.peak_bytes,
            coverage=self._coverage,
            before=before,
            after=after,
        )
        return Findings(measurements=[row])

    def close(self) -> None:
        """Does nothing: each run has ended."""


def answers_of_host(
    subject: Subject,
    layout: SignatureLayout,
    feeds: Sequence[Feed],
    *,
    before_each: Callable[[], object] = lambda: None,
) -> list[list[np.ndarray]]:
    """Runs a file on this machine, in a process of its own.

    Returns for each example its outputs, in the layout's order.
    """
    outputs = []
    with TfliteModel(subject.file, isolated=True) as model:
        for feed in feeds:
            before_each()
            outputs.append(model.run(layout, feed_of(layout, feed)))
    return outputs


def compare_answers(
    case: schema.BenchmarkCase,
    host: Sequence[np.ndarray],
    device: Sequence[np.ndarray],
    *,
    metric: Metric | None = None,
    span: bool = False,
) -> schema.AnswerComparison:
    """Compares the answers to some examples. Pure.

    Returns the comparison. Two examples agree where the largest elements have the same indices;
    where there is only one number, they neither agree nor differ.
    """
    for where, answers in (("host", host), ("device", device)):
        broken = sum(not np.all(np.isfinite(answer)) for answer in answers)
        if broken:
            raise errors.BenchmarkError(
                f"answers of {case.model} on the {where}",
                "finite numbers",
                f"others for {broken} of {len(answers)} examples",
                "Float16 overflows where float32 does not: export with a small finite mask, "
                f"or leave {case.delegate} out."
                if where == "device"
                else "Export it again.",
            )
    axis = 0 if span else -1
    decided = [
        [answer.argmax(axis) for answer in answers if answer.shape[axis] > 1]
        for answers in (host, device)
    ]
    flat = [np.concatenate([answer.reshape(-1, 1) for answer in side]) for side in (host, device)]
    measured = agreement.compare(*flat, decisions=decided, floor=sys.float_info.min)
    scores = [{} if metric is None else dict(metric(answers)) for answers in (device, host)]
    return schema.AnswerComparison(
        **case.model_dump(),
        num_examples=len(host),
        max_abs_error=measured.max_abs_error,
        sqnr_db=measured.sqnr_db,
        argmax_agreement=measured.argmax_agreement,
        metrics={name: float(value) for name, value in scores[0].items()},
        host_metrics={name: float(value) for name, value in scores[1].items()},
    )


def is_span(layout: SignatureLayout) -> bool:
    """Tells whether a file answers with starts and ends."""
    return sorted(side_of(tensor.name) for tensor in layout.outputs) == ["end", "start"]
