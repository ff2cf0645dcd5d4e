"""Measures .tflite files on this machine with LiteRT, each in fresh processes.

Within a repetition the files that are compared have a process each, alive together, and take turns
(see `tfdistill.benchmark.measuring`). These are figures of this host; they are never called the
latency of a phone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tfdistill import errors
from tfdistill.benchmark import cores, environment, schema
from tfdistill.benchmark.backend import (
    AnswerCheck,
    CaseGroup,
    Environment,
    Findings,
    groups_by_length,
    name_of,
)
from tfdistill.benchmark.settings import Settings
from tfdistill.benchmark.subjects import Subject, feeds_for, texts_for, tokens_of
from tfdistill.tflite import TfliteModel, child

DELEGATES = ("xnnpack", "none")
MODULE = "tfdistill.benchmark.host.worker"
_OF_IDS = ("block_runs", "warmup_ms", "peak_rss_bytes")  # that a worker reports, and no text has


class HostBackend:
    """LiteRT in processes of this machine; see `backend.Backend`."""

    name: schema.BackendName = "litert"
    where = "this host"

    def __init__(
        self, subjects: Sequence[Subject], settings: Settings, affinity: str | None
    ) -> None:
        self.subjects, self.settings, self.affinity = subjects, settings, affinity
        self.rounds = settings.rounds
        self._by_name = {subject.name: subject for subject in subjects}
        self._texts = {
            words: texts_for(subjects, words) for words in (None, *settings.words) if settings.texts
        }
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
        return groups + [
            CaseGroup(tuple(texts), delegate, None, threads, words)
            for words, texts in self._texts.items()
            if texts
            for threads in self.settings.threads
            for delegate in self.settings.delegates
        ]

    def run_of(self, model: str, group: CaseGroup, repetition: int) -> WorkerRun:
        """Returns a repetition of a file in a process of its own."""
        subject, length, threads = self._by_name[model], group.sequence_length, group.threads
        at: dict[str, Any] = {"model": model, "threads": threads, "delegate": group.delegate}
        at |= {"affinity": self.affinity}
        if length is None:
            job = self._job(subject, "text", threads, group.delegate)
            described = subject.manifest
            assert described is not None and described.tokenizer is not None
            job |= {
                "signatures": [dataclasses.asdict(entry) for entry in subject.signatures.values()],
                "tokenizer": {
                    "path": str(subject.vocab_file),
                    "lower_case": described.tokenizer.lower_case,
                    "truncation": described.tokenizer.truncation,
                    "prompt": described.tokenizer.prompt,
                },
                "texts": self._texts[group.words][model],
            }
            what = f"{model}, from text, {threads} thread(s), {group.delegate}"
            at |= {"repetition": repetition, "words": group.words}
            if group.words is not None:
                at["tokens"] = tokens_of(subject, self._texts[group.words][model])
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

        job = self._job(subject, "ids", threads, group.delegate)
        job["signature"] = dataclasses.asdict(subject.signatures[length])
        job["feeds"] = feeds_for(subject, length)
        return WorkerRun(job, name_of(case), self.settings, findings)

    def answers(self) -> Sequence[AnswerCheck]:
        """Lists nothing: the host is what answers are compared with."""
        return ()

    def _job(
        self, subject: Subject, kind: str, threads: int, delegate: schema.Delegate
    ) -> dict[str, Any]:
        """The first request to a worker (see `tfdistill.benchmark.host.worker`)."""
        return {
            "kind": kind,
            "file": str(subject.file.resolve()),
            "threads": threads,
            "delegate": delegate,
            "cores": None if self.affinity is None else cores.cores_of(self.affinity),
            "warmup": self.settings.warmup,
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
        texts, encoded = row["texts"], row["ids"]
        timed = {name: row[name] for name in row.keys() - {"texts", "ids", *_OF_IDS}}
        findings = Findings(texts=[schema.TextMeasurement(**timed, **at)])
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


class WorkerRun:
    """One repetition in a worker process; see `backend.CaseRun`.

    Before a block come `settings.lead_in` inferences that do not count: those after another file's
    turn find its weights in the caches, and would be the upper tenth of a block of ten. They are
    kept with the warm-up. The worker is asked `job` first; `findings` makes of its answers, samples
    joined, and of the conditions around them what was measured.
    """

    def __init__(
        self,
        job: dict[str, Any],
        what: str,
        settings: Settings,
        findings: Callable[[dict[str, Any], schema.Conditions, schema.Conditions], Findings],
    ) -> None:
        self.what = what
        self._job, self._settings, self._findings = job, settings, findings
        self._stack = contextlib.ExitStack()
        self._row: dict[str, Any] = {}

    def start(self) -> float:
        """Starts the worker, which warms up."""
        self._worker = self._stack.enter_context(
            child.Child(
                self._job,
                MODULE,
                what=self.what,
                timeout_seconds=self._settings.timeout_seconds,
            )
        )
        self._row = dict(self._worker.report)
        return statistics.median(
            self._row["warmup_ms"] or [self._row.get("first_inference_ms", 1.0)]
        )

    def run_block(self, number: int, runs: int) -> None:
        """Takes samples."""
        self._row["block_runs"] = runs
        for key, samples in self._worker.ask(
            {"run": runs, "lead_in": self._settings.lead_in}
        ).items():
            self._row[key] = [*self._row.get(key, ()), *samples]

    def finish(self, before: schema.Conditions, after: schema.Conditions) -> Findings:
        """Ends the worker, which reports its peak memory."""
        return self._findings({**self._row, **self._worker.finish()}, before, after)

    def close(self) -> None:
        """Ends the worker, whatever it does."""
        self._stack.close()
