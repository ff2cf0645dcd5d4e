"""The measuring loop of every backend: what is measured when, how often, and what counts.

A backend (LiteRT on this host, `benchmark_model` or the app on a phone) runs one case once. This
module repeats and interleaves cases, flags what was measured while the device throttled, leaves out
cases that failed, and collects what was found.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import tqdm

from tfdistill import errors
from tfdistill.benchmark import environment, result, schema
from tfdistill.benchmark.backend import Backend, CaseGroup, Findings, name_of
from tfdistill.benchmark.statistics import summaries

INTERRUPTED = schema.Failure(what="the rest", error="interrupted")
_T = TypeVar("_T")


class BenchmarkInterrupted(KeyboardInterrupt):
    """A benchmark was interrupted; what had been measured by then is complete.

    A caller who does not catch it sees an ordinary KeyboardInterrupt. `results` has one a device,
    each with `INTERRUPTED` among its failures.
    """

    def __init__(self, results: Sequence[schema.Result]) -> None:
        super().__init__("interrupted")
        self.results = tuple(results)


def progress_bar(backends: Sequence[Backend], *, shown: bool) -> tqdm.tqdm:
    """Makes a bar on stderr that counts the rounds of all backends, if that is a terminal."""
    total = sum(len(b.groups()) * b.settings.repetitions * b.rounds for b in backends)
    return tqdm.tqdm(
        total=total,
        desc="benchmark",
        unit="round",
        disable=None if shown else True,  # None: only on a terminal
    )


def measure(backend: Backend, findings: Findings, bar: tqdm.tqdm) -> bool:
    """Measures all that the settings ask for on one device into `findings`; False after Ctrl-C.

    What fails is among the failures, and the rest is measured. It never raises: a lost device, or
    Ctrl-C, ends it with what is finished. The bar advances after each round.
    """
    try:
        findings.before = backend.conditions()
        with backend.opened(findings):
            _Loop(backend, findings, bar).run()
        findings.after = backend.conditions()
    except KeyboardInterrupt as stopped:
        findings.failures.append(INTERRUPTED)
        for left in filter(None, stopped.args):
            findings.fail("cleaning up", left)
        return False
    except (errors.TfdistillError, OSError) as error:  # such as a full disk of this machine
        findings.fail(f"the rest on {backend.where}", error)
    return True


def results_of(
    measured: Sequence[tuple[Backend, Findings]], *, finished: bool, baseline: str
) -> list[schema.Result]:
    """Makes a result of what was found on each device; `baseline` names the file to compare with.

    None where nothing was found before an interruption; BenchmarkError if it is finished, and
    nothing at all was found.
    """
    if any(findings for _, findings in measured):
        return [_assembled(backend, findings, baseline) for backend, findings in measured]
    if finished:
        faults = [failure.error for _, findings in measured for failure in findings.failures]
        raise errors.BenchmarkError("\n".join(dict.fromkeys(faults)) or "Nothing was measured.")
    return []


def _assembled(backend: Backend, findings: Findings, baseline: str) -> schema.Result:
    fixed = backend.environment()
    return result.assemble(
        kind=fixed.kind,
        backend=backend.name,
        device=fixed.device,
        runtime=fixed.runtime,
        models=[result.model_file(subject) for subject in backend.subjects],
        settings=backend.settings,
        command=environment.command(),
        created=environment.now(),
        baseline=baseline,
        **{field.name: getattr(findings, field.name) for field in dataclasses.fields(findings)},
    )


def throttle_reason(
    before: schema.Conditions, after: schema.Conditions, rows: Sequence[schema.Measurement]
) -> str:
    """Says that a device throttled while it measured the rows, if it did; otherwise returns ""."""
    moments = [before, after, *(at for row in rows for at in (row.before, row.after) if at)]
    status = max(at.thermal_status or 0 for at in moments)
    if status:
        return f"the device throttled (thermal status {status})"
    return "the processor throttled" if summaries.counted_throttling(before, after) else ""


class _Loop:
    """Measures on one device; see `measure`."""

    def __init__(self, backend: Backend, findings: Findings, bar: tqdm.tqdm) -> None:
        self._backend, self._findings, self._bar = backend, findings, bar
        self._settings = backend.settings
        self._rng = np.random.default_rng(backend.settings.seed)
        self._failed: set[tuple[str, schema.Delegate, int | None, int, int | None]] = set()

    def run(self) -> None:
        """Measures: first in turns, then what takes one file at a time."""
        groups = self._backend.groups()
        for repetition in range(self._settings.repetitions):
            for group in self._shuffled(groups):
                self._repeat(repetition, group)
        for case, compare in self._backend.answers():
            self._try("answers", case, lambda c=compare: self._findings.answers.append(c()))

    def _shuffled(self, items: Sequence[_T]) -> list[_T]:
        return [items[i] for i in self._rng.permutation(len(items))]

    # In turns

    def _repeat(self, repetition: int, group: CaseGroup) -> None:
        """Measures one repetition of a group."""
        active = [m for m in group.models if (m, *group[1:]) not in self._failed]
        if not active:
            return
        findings = self._findings
        measured, reason = self._take_turns(repetition, group, active)
        findings.measurements += measured.measurements
        findings.texts += measured.texts
        findings.answers += measured.answers
        findings.failures += measured.failures
        findings.note(*measured.notes)
        if reason:
            who = reason.partition(" (")[0].capitalize()
            findings.note(f"{who} during some repetitions.")

    def _take_turns(
        self, repetition: int, group: CaseGroup, active: Sequence[str]
    ) -> tuple[Findings, str]:
        """Measures one repetition of some files side by side.

        A round is one short block of each, in random order: what disturbs the device disturbs all
        of them. A file that fails leaves the others to continue without it.
        """
        backend, measured = self._backend, Findings()
        before = self._rested()
        runs = {name: backend.run_of(name, group, repetition) for name in active}

        def attempt(name: str, work: Callable[[], _T]) -> _T | None:
            try:
                return work()
            except errors.DeviceLostError:
                raise
            except errors.TfdistillError as error:
                self._findings.fail(runs.pop(name).what, error)
                self._failed.add((name, *group[1:]))  # it would fail again
                return None

        with contextlib.ExitStack() as stack:
            block_runs = {}
            for name in self._shuffled(list(runs)):
                stack.callback(runs[name].close)
                estimate_ms = attempt(name, runs[name].start)
                if estimate_ms is not None:
                    block_runs[name] = self._settings.block_runs(estimate_ms)
            during: list[schema.Conditions] = []
            for number in range(backend.rounds):
                for name in self._shuffled(list(runs)):
                    block = functools.partial(runs[name].run_block, number, block_runs[name])
                    attempt(name, block)
                self._bar.update()
                if before.thermal_status is not None and number + 1 < backend.rounds:
                    during.append(backend.conditions())
            after = backend.conditions()
            if worst := max(at.thermal_status or 0 for at in (after, *during)):
                after = after.model_copy(update={"thermal_status": worst})
            for name, run in list(runs.items()):
                rows = attempt(name, lambda r=run: r.finish(before, after))
                if rows is not None:
                    for field in dataclasses.fields(rows):
                        if isinstance(values := getattr(rows, field.name), list):
                            getattr(measured, field.name).extend(values)
        return measured, throttle_reason(before, after, measured.measurements)

    # One file at a time

    def _try(self, what: str, case: schema.BenchmarkCase, work: Callable[[], object]) -> None:
        if (case.model, case.delegate, case.sequence_length, case.threads, None) in self._failed:
            return
        self._bar.set_description(what)
        try:
            work()
        except errors.DeviceLostError:
            raise
        except errors.TfdistillError as error:
            self._findings.fail(f"{what} of {name_of(case)}", error)

    def _rested(self) -> schema.Conditions:
        """Rests, waits until the device is cool, and returns its state then."""
        if self._settings.cool_down_seconds:
            self._backend.rest(self._settings.cool_down_seconds)
        return self._backend.wait_until_cool()
