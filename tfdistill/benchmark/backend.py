"""The backends of the measuring loop: one runs one case once, and describes its device.

There are two: LiteRT on this host, and `benchmark_model` on a device. See
`tfdistill.benchmark.measuring` for the loop.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from tfdistill.benchmark import schema
from tfdistill.benchmark.settings import Settings
from tfdistill.benchmark.subjects import Subject
from tfdistill.io import safe_paths

# A case, and what compares its answers with the host's.
AnswerCheck = tuple[schema.BenchmarkCase, Callable[[], schema.AnswerComparison]]


@dataclasses.dataclass
class Findings:
    """The measurements so far; true once there is anything worth keeping."""

    measurements: list[schema.Measurement] = dataclasses.field(default_factory=list)
    texts: list[schema.TextMeasurement] = dataclasses.field(default_factory=list)
    answers: list[schema.AnswerComparison] = dataclasses.field(default_factory=list)
    failures: list[schema.Failure] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    before: schema.Conditions | None = None
    after: schema.Conditions | None = None

    def __bool__(self) -> bool:
        """Whether anything was measured."""
        return any((self.measurements, self.texts, self.answers))

    def note(self, *notes: str) -> None:
        """Adds notes that are not there yet."""
        self.notes += [note for note in dict.fromkeys(notes) if note not in self.notes]

    def fail(self, what: str, error: object) -> None:
        """Adds a failure."""
        self.failures.append(
            schema.Failure(what=what, error=safe_paths.without_folders(str(error)))
        )


class CaseGroup(NamedTuple):
    """Files that take turns, and the settings that they share."""

    models: tuple[str, ...]  # names of the files
    delegate: schema.Delegate  # of the runtime
    sequence_length: int | None  # tokens; None where a repetition covers several lengths
    threads: int  # of the runtime
    words: int | None = None  # of the texts, where they are made to have so many


def groups_by_length(subjects: Sequence[Subject], settings: Settings) -> list[CaseGroup]:
    """Lists each length with all numbers of threads and delegates; its files take turns."""
    lengths = sorted({n for subject in subjects for n in subject.lengths(settings)})
    return [
        CaseGroup(tuple(s.name for s in subjects if n in s.signatures), delegate, n, threads)
        for n in lengths
        for threads in settings.threads
        for delegate in settings.delegates
    ]


@dataclasses.dataclass(frozen=True)
class Environment:
    """The constants of a measurement: kind of device, device, runtime."""

    kind: schema.Kind
    device: schema.Device
    runtime: schema.Runtime


class CaseRun(Protocol):
    """One repetition of one file of a group. `what` names it in messages."""

    what: str

    def start(self) -> float:
        """Starts it; returns roughly how long an inference takes, in milliseconds."""
        ...

    def run_block(self, number: int, runs: int) -> None:
        """Runs block `number` of `runs` inferences."""
        ...

    def finish(self, before: schema.Conditions, after: schema.Conditions) -> Findings:
        """Returns what it measured, between these conditions of the device."""
        ...

    def close(self) -> None:
        """Ends what still runs of it."""
        ...


class Backend(Protocol):
    """Runs cases on one device. Every method may raise BenchmarkError."""

    name: schema.BackendName  # as in the result
    subjects: Sequence[Subject]  # the files, of unique names
    settings: Settings  # what to measure
    affinity: str | None  # mask of the cores to run on, or None
    rounds: int  # blocks of a repetition
    where: str  # names the device in messages

    def opened(self, findings: Findings) -> contextlib.AbstractContextManager[None]:
        """Prepares the device and cleans it up at the end; may add to `findings`."""
        ...

    def environment(self) -> Environment:
        """Describes what was measured on, as far as it is known by now."""
        ...

    def conditions(self) -> schema.Conditions:
        """Reads the state of the device."""
        ...

    def wait_until_cool(self) -> schema.Conditions:
        """Waits while the device throttles, within the settings' limit; returns its state."""
        ...

    def rest(self, seconds: float) -> None:
        """Waits; ends with KeyboardInterrupt if it is to stop."""
        ...

    def groups(self) -> Sequence[CaseGroup]:
        """Lists what is repeated."""
        ...

    def run_of(self, model: str, group: CaseGroup, repetition: int) -> CaseRun:
        """Returns a repetition of a file; it is not started yet."""
        ...

    def answers(
        self,
    ) -> Iterable[AnswerCheck]:
        """Lists cases whose answers are to be compared with the host's, and how."""
        ...


def name_of(case: schema.BenchmarkCase) -> str:
    """Names a case in a message."""
    return f"{case.model}, {case.sequence_length} tokens, {case.threads} thread(s), {case.delegate}"
