"""Measures .tflite files on this machine with LiteRT, each in fresh processes.

Within a repetition the files that are compared have a process each, alive together, and take turns
(see `tfdistill.benchmark.measuring`). These are figures of this host; they are never called the
latency of a phone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypedDict

from tfdistill import errors, files
from tfdistill.benchmark import cores, environment, measuring, schema
from tfdistill.benchmark.backend import (
    AnswerCheck,
    CaseGroup,
    Environment,
    Findings,
    groups_by_length,
    name_of,
)
from tfdistill.benchmark.host.worker_run import MODULE, WorkerRun
from tfdistill.benchmark.settings import Settings
from tfdistill.benchmark.subjects import Subject, baseline_of, feeds_for, open_all, texts_for
from tfdistill.tflite import TfliteModel, child
from tfdistill.tflite.golden import Example

DELEGATES = ("xnnpack", "none")
_WINDOWS = 60  # of a long run


def measure(
    model: files.Path,
    *,
    name: str | None = None,
    settings: Settings | None = None,
    progress: bool = False,
) -> schema.Result:
    """Measures one file: start, first inference, steady latency, memory, tokenizer, end to end.

    An inference is what a program sees: inputs written by name, the model run, outputs copied.
    `init_ms` is the interpreter; `first_inference_ms` includes the allocation of the tensors;
    `cold_start_ms` runs from before the process starts (its own imports included) to the first
    result. Input ids come from the manifest's golden examples, else from its vocabulary, else, for
    a bare file, at random from below the size of the embedding table; the result says which.

    Args:
      model: A folder that `tfdistill export` wrote, or a .tflite file.
      name: How to call it; the manifest's name, or the file's, by default.
      settings: How to measure; `Settings()` by default.
      progress: Whether to draw a progress bar on stderr, if that is a terminal.

    Returns:
      The benchmark result. What could not be measured is among its `failures`.

    Raises:
      BenchmarkError: If the file is missing or damaged, a setting is wrong, or nothing at all
        could be measured.
      ManifestError: If a checksum differs from the manifest's.
      BenchmarkInterrupted: At Ctrl-C, with what was finished.
    """
    models = [model] if name is None else {name: model}
    return compare(models, settings=settings, progress=progress)


def compare(
    models: Sequence[files.Path] | Mapping[str, files.Path],
    *,
    baseline: str | None = None,
    settings: Settings | None = None,
    examples: Sequence[Example] = (),
    progress: bool = False,
) -> schema.Result:
    """Measures several files interleaved in one run and compares them.

    The files at the same length, threads and delegate are compared; a length that only one of them
    has is measured for that one only. A file is called faster only where the interval of the
    ratio excludes 1.

    Args:
      models: Export folders or files; or a mapping from the names to use to them.
      baseline: Name of the model that the others are compared with; the first by default.
      settings: How to measure; `Settings()` by default.
      examples: What to feed all of them with, encoded with the vocabulary that they share; each
        one's own examples where there are none.
      progress: Whether to draw a progress bar on stderr, if that is a terminal.

    Returns:
      The benchmark result; see `measure`.

    Raises:
      BenchmarkError: See `measure`; also if the baseline is unknown.
      ManifestError: See `measure`.
      BenchmarkInterrupted: See `measure`.
    """
    settings = settings or Settings()
    affinity = check(settings)
    subjects = open_all(models, settings, examples)
    baseline = baseline_of(subjects, baseline)
    backend, findings = HostBackend(subjects, settings, affinity), Findings()
    with measuring.progress_bar([backend], shown=progress) as bar:
        finished = measuring.measure(backend, findings, bar)
    results = measuring.results_of([(backend, findings)], finished=finished, baseline=baseline)
    if not finished:
        raise measuring.BenchmarkInterrupted(results)
    return results[0]


class QuickFigures(TypedDict):
    """What `quick_benchmark` measures.

    Attributes:
      p50_ms: Sequence length -> median latency in milliseconds.
      peak_rss_bytes: The largest resident memory of a process that runs one length; 0 where the
        system does not report it.
    """

    p50_ms: dict[int, float]
    peak_rss_bytes: float


def quick_benchmark(
    model: files.Path,
    *,
    threads: int = 1,
    runs: int = 50,
    min_seconds: float = 0.3,
    roles: Mapping[str, str] | None = None,
) -> QuickFigures:
    """Measures a file once at each of its lengths: enough to rank quantizations on this host.

    A figure that others are to read comes from `measure` or `compare`, which repeat and interleave.

    Args:
      model: A folder that `tfdistill export` wrote, or a .tflite file.
      threads: LiteRT threads.
      runs: The fewest samples of a length, after 10 inferences to warm up.
      min_seconds: The least measured time of a length.
      roles: What inputs are for whose names do not tell it, see `Settings`.

    Returns:
      A dict of "p50_ms" and "peak_rss_bytes".

    Raises:
      BenchmarkError: If the file is missing or damaged, or takes too long.
      ManifestError: If a checksum differs from the manifest's.
    """
    settings = Settings(
        threads=(threads,),
        runs=runs,
        min_seconds=min_seconds,
        repetitions=1,
        texts=False,
        roles=roles,
    )
    result = measure(model, settings=settings)
    if result.failures:
        raise errors.BenchmarkError("\n".join(failure.error for failure in result.failures))
    return {
        "p50_ms": {row.sequence_length: row.p50_ms for row in result.summary},
        "peak_rss_bytes": max(row.peak_rss_bytes or 0 for row in result.summary),
    }


def check(settings: Settings) -> str | None:
    """Checks that a host can measure what is asked for.

    Returns:
      Mask of the cores to run on, or None.

    Raises:
      BenchmarkError: If it cannot.
    """
    refused = [delegate for delegate in settings.delegates if delegate not in DELEGATES]
    if refused:
        raise errors.BenchmarkError(
            "delegates on a host",
            f"some of {DELEGATES}",
            refused,
            "GPU and NNAPI are measured on a phone: --device adb.",
        )
    return cores.resolve(settings.affinity)


class HostBackend:
    """LiteRT in processes of this machine; see `backend.Backend`."""

    name: schema.BackendName = "litert"
    inputs: Mapping[str, schema.Inputs] = types.MappingProxyType({})
    counts_last_try = True  # Linux counts short dips of the clock, too
    where = "this host"

    def __init__(
        self, subjects: Sequence[Subject], settings: Settings, affinity: str | None
    ) -> None:
        self.subjects, self.settings, self.affinity = subjects, settings, affinity
        self.rounds = settings.rounds
        self._by_name = {subject.name: subject for subject in subjects}
        self._texts = texts_for(subjects) if settings.texts else {}
        self._coverage: dict[tuple[str, int], schema.Coverage] = {}
        self._findings = Findings()

    @contextlib.contextmanager
    def opened(self, findings: Findings) -> Iterator[None]:
        """Notes which cores may be used, and counts what XNNPACK takes of the files."""
        self._findings = findings
        usable = cores.cores_of(self.affinity) if self.affinity else cores.usable()
        if max(self.settings.threads) > len(usable):
            findings.note(f"{max(self.settings.threads)} threads shared {len(usable)} core(s).")
        if self.affinity is None and len(usable) < (os.cpu_count() or 1):
            findings.note(
                f"Only the cores of mask {cores.mask_of(usable)} could be used: taskset or a "
                "container bound this process to them."
            )
        if "xnnpack" in self.settings.delegates:
            for subject in self.subjects:
                self._read_coverage(subject)
        yield

    def environment(self) -> Environment:
        """Describes this machine and its LiteRT."""
        return Environment("host", environment.device(), environment.runtime())

    def conditions(self) -> schema.Conditions:
        """Reads load, clocks and heat."""
        return environment.conditions()

    def wait_until_cool(self) -> schema.Conditions:
        """Reads the conditions: a host does not report that it is throttling."""
        return environment.conditions()

    def rest(self, seconds: float) -> None:
        """Waits."""
        time.sleep(seconds)

    def groups(self) -> Sequence[CaseGroup]:
        """Lists each length, and from text to answer."""
        groups = groups_by_length(self.subjects, self.settings)
        if self._texts:
            groups += [
                CaseGroup(tuple(self._texts), delegate, None, threads)
                for threads in self.settings.threads
                for delegate in self.settings.delegates
            ]
        return groups

    def run_of(self, model: str, group: CaseGroup, repetition: int) -> WorkerRun:
        """Returns a repetition of a file in a process of its own."""
        subject, length, threads = self._by_name[model], group.sequence_length, group.threads
        assert threads is not None
        at: dict[str, Any] = {"model": model, "threads": threads, "delegate": group.delegate}
        at |= {"affinity": self.affinity}
        if length is None:
            job = self._job(subject, "text", threads, group.delegate)
            described = subject.manifest
            assert described is not None and described.tokenizer is not None
            job |= {
                "signatures": [dataclasses.asdict(entry) for entry in subject.signatures.values()],
                "vocab": str(subject.vocab_file),
                "lower_case": described.tokenizer.lower_case,
                "texts": self._texts[model],
            }
            what = f"{model}, from text, {threads} thread(s), {group.delegate}"
            at |= {"repetition": repetition}
            return WorkerRun(
                job, what, self.settings, lambda row, *_: self._text_findings(subject, row, at)
            )
        case = schema.BenchmarkCase(sequence_length=length, **at)

        def findings(
            row: dict[str, Any], before: schema.Conditions, after: schema.Conditions
        ) -> Findings:
            covered = self._coverage.get((model, length)) if group.delegate == "xnnpack" else None
            measured = schema.Measurement(
                **row,
                **case.model_dump(),
                signature=subject.signatures[length].key,
                repetition=repetition,
                started=before.time,
                before=before,
                after=after,
                coverage=covered,
            )
            return Findings(measurements=[measured])

        return WorkerRun(self._ids_job(case, "ids"), name_of(case), self.settings, findings)

    def operators(self, case: schema.BenchmarkCase) -> schema.Operators:
        """Profiles a file: at most 50 runs.

        Raises:
          BenchmarkError: If this LiteRT has no profiler that can be reached, or the worker fails.
        """
        try:
            with self._worker(self._ids_job(case, "operators"), name_of(case)) as worker:
                rows = worker.report["operators"]
        except errors.BenchmarkError as error:
            remedy = "Leave --operators out, or profile it with benchmark_model: --device adb."
            raise errors.BenchmarkError(f"{error} {remedy}") from error
        operators = schema.Operators(
            **case.model_dump(), source="LiteRT's profiler", operators=rows
        )
        self._note_rough(operators)
        return operators

    def sustain(self, case: schema.BenchmarkCase, findings: Findings) -> Iterator[schema.Window]:
        """Runs a file without pauses in one worker."""
        total = self.settings.sustained_seconds
        window = max(total / _WINDOWS, min(1.0, total / 4))
        job = self._ids_job(case, "ids")
        with self._worker(job, name_of(case), longer=window) as worker:
            for row in worker.stream({"sustain": total, "window": window}):
                yield schema.Window(**row, conditions=environment.conditions())

    def answers(
        self,
    ) -> Sequence[AnswerCheck]:
        """Lists nothing: the host is what answers are compared with."""
        return ()

    def _worker(self, job: dict[str, Any], what: str, *, longer: float = 0.0) -> child.Child:
        timeout = self.settings.timeout_seconds + longer
        return child.Child(job, MODULE, what=what, timeout_seconds=timeout)

    def _job(
        self, subject: Subject, kind: str, threads: int, delegate: schema.Delegate
    ) -> dict[str, Any]:
        """What a worker is asked first (see `tfdistill.benchmark.host.worker`)."""
        return {
            "kind": kind,
            "file": str(subject.file.resolve()),
            "threads": threads,
            "delegate": delegate,
            "cores": None if self.affinity is None else cores.cores_of(self.affinity),
            "warmup": self.settings.warmup,
        }

    def _ids_job(self, case: schema.BenchmarkCase, kind: str) -> dict[str, Any]:
        subject = self._by_name[case.model]
        return {
            **self._job(subject, kind, case.threads, case.delegate),
            "signature": dataclasses.asdict(subject.signatures[case.sequence_length]),
            "feeds": feeds_for(subject, case.sequence_length),
            "runs": self.settings.runs,
        }

    def _read_coverage(self, subject: Subject) -> None:
        """Counts how much of a file XNNPACK takes; a failure leaves it unknown."""
        what = f"{subject.name}, coverage by XNNPACK"
        try:
            with TfliteModel(
                subject.file, isolated=True, timeout_seconds=self.settings.timeout_seconds
            ) as model:
                delegations = model.delegations()
            for length in subject.lengths(self.settings):
                taken = delegations.get(subject.signatures[length].key)
                if taken is not None:
                    left = sum(taken.left_operators.values())
                    self._coverage[subject.name, length] = schema.Coverage(
                        delegated_nodes=taken.nodes - left if taken.partitions else 0,
                        nodes=taken.nodes,
                        partitions=taken.partitions,
                    )
        except errors.BenchmarkError as error:
            self._findings.fail(what, error)

    def _text_findings(self, subject: Subject, row: dict[str, Any], at: dict[str, Any]) -> Findings:
        texts, encoded = row.pop("texts"), row.pop("ids")
        for unused in ("block_runs", "warmup_ms", "peak_rss_bytes"):
            row.pop(unused)
        findings = Findings(texts=[schema.TextMeasurement(**row, **at)])
        expected = {(e.text, e.pair): list(e.input_ids) for e in subject.examples}
        pairs = zip(texts, encoded, strict=True)
        wrong = sum(expected.get((text, pair), ids) != ids for (text, pair), ids in pairs)
        if wrong:
            source = "those recorded in its golden.json" if subject.source == "golden" else "it had"
            findings.note(f"{subject.name}: {wrong} texts tokenize to other ids than {source}.")
        if subject.is_span:
            findings.note(
                f"{subject.name}: from text to answer with questions whose text fits into one "
                "window; about a longer one the file is asked once a window."
            )
        return findings

    def _note_rough(self, measured: schema.Operators) -> None:
        """Notes that operators are short against the profiler's unit, which it rounds down to.

        On average half a microsecond is lost a call.
        """
        total_ms = sum(row.ms for row in measured.operators)
        lost_ms = 0.0005 * sum(row.calls for row in measured.operators)
        if lost_ms > 0.25 * total_ms:
            self._findings.note(
                f"{measured.model} at {measured.sequence_length} tokens: its operators are short "
                "for a profiler that counts whole microseconds; their shares are rough."
            )
