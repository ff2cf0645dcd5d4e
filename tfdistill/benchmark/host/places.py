"""Goes through the places of a benchmark on this machine: what is measured in which order."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import tqdm

from tfdistill import errors
from tfdistill.benchmark import environment, inputs, schema
from tfdistill.benchmark.host import apart, jobs, turns
from tfdistill.benchmark.settings import Settings
from tfdistill.benchmark.statistics import summaries


@dataclasses.dataclass
class Findings:
    """What has been measured so far; true once there is anything."""

    measurements: list[schema.Measurement] = dataclasses.field(default_factory=list)
    texts: list[schema.TextMeasurement] = dataclasses.field(default_factory=list)
    sustained: list[schema.Sustained] = dataclasses.field(default_factory=list)
    operators: list[schema.Operators] = dataclasses.field(default_factory=list)
    failures: list[schema.Failure] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)

    def __bool__(self) -> bool:
        """Whether there is anything worth keeping."""
        return bool(self.measurements or self.texts or self.sustained or self.operators)


@dataclasses.dataclass(frozen=True)
class _Cell:
    """One place for all files together; `length` None is the way from text."""

    length: int | None
    threads: int
    delegate: schema.Delegate


class Tour:
    """Measures everything that the settings ask for.

    Args:
      subjects: The files, of unique names.
      settings: What to measure.
      affinity: Mask of the cores to use, or None.
      found: Is filled as the work goes on, so that an interruption keeps what is finished.
    """

    def __init__(
        self,
        subjects: list[inputs.Subject],
        settings: Settings,
        affinity: str | None,
        found: Findings,
    ) -> None:
        self._subjects = subjects
        self._settings = settings
        self._affinity = affinity
        self._found = found
        self._rng = np.random.default_rng(settings.seed)
        self._failed: set[tuple[str, _Cell]] = set()
        self._covered: dict[tuple[str, int], schema.Coverage] = {}

    def run(self, *, progress: bool) -> None:
        """Measures.

        Args:
          progress: Whether to draw a progress bar on stderr, if that is a terminal.
        """
        plan = [(r, cell) for r in range(self._settings.repetitions) for cell in self._shuffled()]
        self._cover()
        bar = tqdm.tqdm(
            total=len(plan) * self._settings.rounds,
            desc="benchmark",
            unit="round",
            disable=None if progress else True,  # None: only on a terminal
        )
        with bar:
            for repetition, cell in plan:
                self._repeat(repetition, cell, bar)
            for subject, place in self._apart(longest=False) if self._settings.operators else ():
                self._try_apart("operators", subject, place, bar)
            for subject, place in self._apart(longest=True):
                self._try_apart("sustained run", subject, place, bar)

    # In turns

    def _cells(self) -> Iterator[_Cell]:
        wanted = self._settings.lengths
        available = sorted({length for subject in self._subjects for length in subject.entries})
        kinds: list[int | None] = [n for n in available if wanted is None or n in wanted]
        if self._settings.texts and any(jobs.readers(self._subjects)):
            kinds.append(None)
        for kind in kinds:
            for threads in self._settings.threads:
                for delegate in self._settings.delegates:
                    yield _Cell(kind, threads, delegate)

    def _shuffled(self) -> list[_Cell]:
        cells = list(self._cells())
        return [cells[i] for i in self._rng.permutation(len(cells))]

    def _repeat(self, repetition: int, cell: _Cell, bar: tqdm.tqdm) -> None:
        """Measures one repetition of a cell, and again where the processor throttled."""
        for attempt in range(1 + self._settings.max_repeats):
            throttled = self._measure(repetition, cell, bar)
            if not throttled:
                return
            last = attempt == self._settings.max_repeats
            if self._settings.when_throttled == "flag" or last:
                self._note("The processor throttled during some repetitions that count.")
                return
            self._leave_out(repetition, cell)

    def _measure(self, repetition: int, cell: _Cell, bar: tqdm.tqdm) -> bool:
        """Measures one repetition; returns whether the processor throttled."""
        planned = {
            name: job
            for name, job in self._jobs(cell).items()
            if (name, cell) not in self._failed  # it would fail again
        }
        self._rest()
        before = environment.conditions()
        rows, failures = turns.take_turns(planned, self._settings, self._rng, bar.update)
        after = environment.conditions()
        self._failed |= {(name, cell) for name in failures}
        self._found.failures.extend(failures.values())
        at = {"threads": cell.threads, "delegate": cell.delegate, "affinity": self._affinity}
        for subject in self._subjects:
            if subject.name in rows:
                row = {**rows[subject.name], **at, "model": subject.name, "repetition": repetition}
                if cell.length is None:
                    self._take_text(row, subject)
                else:
                    row.update(before=before, after=after, started=before.time)
                    self._take(row, subject, cell.length)
        return summaries.counted_throttling(before, after)

    def _jobs(self, cell: _Cell) -> dict[str, jobs.Job]:
        settings = self._settings
        if cell.length is None:
            return {
                subject.name: jobs.of_texts(
                    subject, texts, cell.threads, cell.delegate, self._affinity, settings
                )
                for subject, texts in jobs.readers(self._subjects)
            }
        return {
            subject.name: jobs.of_ids(subject, self._place(subject, cell), settings)
            for subject in self._subjects
            if cell.length in subject.entries
        }

    def _place(self, subject: inputs.Subject, cell: _Cell) -> schema.Place:
        assert cell.length is not None
        return schema.Place(
            model=subject.name,
            sequence_length=cell.length,
            threads=cell.threads,
            delegate=cell.delegate,
            affinity=self._affinity,
        )

    def _take(self, row: dict[str, Any], subject: inputs.Subject, length: int) -> None:
        row.update(sequence_length=length, signature=subject.entries[length].signature)
        if row["delegate"] == "xnnpack":
            row.update(coverage=self._covered.get((subject.name, length)))
        self._found.measurements.append(schema.Measurement(**row))

    def _take_text(self, row: dict[str, Any], subject: inputs.Subject) -> None:
        texts, encoded = row.pop("texts"), row.pop("ids")
        for unused in ("block_runs", "warmup_ms", "peak_rss_bytes"):
            row.pop(unused)
        self._found.texts.append(schema.TextMeasurement(**row))
        expected = {(e.text, e.pair): list(e.input_ids) for e in subject.examples}
        pairs = zip(texts, encoded, strict=True)
        wrong = sum(expected.get((text, pair), ids) != ids for (text, pair), ids in pairs)
        if wrong:
            source = "those recorded in its golden.json" if subject.source == "golden" else "it had"
            self._note(f"{subject.name}: {wrong} texts tokenize to other ids than {source}.")
        if subject.card is not None and subject.card.task is not None and subject.card.task.span:
            self._note(
                f"{subject.name}: from text to answer with questions whose text fits into one "
                "window; about a longer one the file is asked once a window."
            )

    def _leave_out(self, repetition: int, cell: _Cell) -> None:
        """Marks a repetition that is done again; of the way from text it is dropped."""
        for i, row in enumerate(self._found.measurements):
            same = (row.sequence_length, row.threads, row.delegate)
            if row.repetition == repetition and same == dataclasses.astuple(cell):
                reason = row.left_out or "the processor throttled"
                self._found.measurements[i] = row.model_copy(update={"left_out": reason})
        if cell.length is None:
            self._found.texts[:] = [
                row
                for row in self._found.texts
                if (row.repetition, row.threads, row.delegate)
                != (repetition, cell.threads, cell.delegate)
            ]

    # File by file

    def _cover(self) -> None:
        if "xnnpack" in self._settings.delegates:
            lengths = {cell.length for cell in self._cells() if cell.length is not None}
            self._covered, failures = apart.coverage_of(self._subjects, lengths, self._settings)
            self._found.failures.extend(failures)

    def _apart(self, *, longest: bool) -> Iterator[tuple[inputs.Subject, schema.Place]]:
        """Gives the places that are not measured with each number of threads, in random order."""
        threads = self._settings.threads[0]
        cells = [c for c in self._cells() if c.length is not None and c.threads == threads]
        found = []
        for subject in self._subjects:
            own = [cell for cell in cells if cell.length in subject.entries]
            most = max((cell.length or 0 for cell in own), default=0)
            own = [cell for cell in own if not longest or cell.length == most]
            found += [(subject, self._place(subject, cell)) for cell in own]
        if longest and not self._settings.sustained_seconds:
            return
        yield from (found[i] for i in self._rng.permutation(len(found)))

    def _try_apart(
        self, what: str, subject: inputs.Subject, place: schema.Place, bar: tqdm.tqdm
    ) -> None:
        self._rest()
        bar.set_description(what)
        try:
            if what == "operators":
                operators = apart.operators_of(subject, place, self._settings)
                self._found.operators.append(operators)
                self._note_rough(operators)
            else:
                curve = apart.sustain(subject, place, self._settings, bar.refresh)
                self._found.sustained.append(curve)
        except errors.BenchmarkError as error:
            named = f"{what} of {jobs.describe(place)}"
            self._found.failures.append(schema.Failure(what=named, error=str(error)))

    def _note_rough(self, found: schema.Operators) -> None:
        """Tells of operators that are short against the profiler's unit, which it rounds down to.

        On average half a microsecond is lost a call.
        """
        total_ms = sum(row.ms for row in found.operators)
        lost_ms = 0.0005 * sum(row.calls for row in found.operators)
        if lost_ms > 0.25 * total_ms:
            self._note(
                f"{found.model} at {found.sequence_length} tokens: its operators are short for a "
                "profiler that counts whole microseconds; their shares are rough."
            )

    def _rest(self) -> None:
        if self._settings.cool_down_seconds:
            time.sleep(self._settings.cool_down_seconds)

    def _note(self, note: str) -> None:
        if note not in self._found.notes:
            self._found.notes.append(note)
