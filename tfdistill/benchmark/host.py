"""Measures .tflite files on this machine, in fresh processes and, for several files, interleaved.

Every configuration (file, length, threads) is measured `repetitions` times, each time in a new
process. Within a repetition the files that are compared are alive together and take turns: a
round is one short block of each, in random order, so that what disturbs the machine disturbs all
of them. These are figures of this host; they are never called the latency of a phone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import itertools
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tqdm

from tfdistill import errors, files
from tfdistill.benchmark import environment, inputs, result, session


@dataclasses.dataclass(frozen=True)
class Settings:
    """How long and how often to measure.

    Attributes:
      threads: Numbers of LiteRT threads to measure with.
      lengths: Sequence lengths to measure; None for all that a file has.
      warmup: Inferences before the first sample.
      runs: The fewest samples of a repetition.
      min_seconds: The least measured time of a repetition.
      max_runs: The most samples of a repetition; it wins over `min_seconds`, not over `runs`.
      repetitions: Fresh processes per configuration.
      rounds: Blocks that the samples of a repetition come in.
      texts: Whether to measure the way from text to answer, too, where there is a vocabulary.
      seed: Seed of the order, of generated inputs and of the bootstrap.
      timeout_seconds: The longest wait for one block.
    """

    threads: tuple[int, ...] = (1,)
    lengths: tuple[int, ...] | None = None
    warmup: int = 10
    runs: int = 100
    min_seconds: float = 1.0
    max_runs: int = 2000
    repetitions: int = 3
    rounds: int = 10
    texts: bool = True
    seed: int = 0
    timeout_seconds: float = 300.0

    def __post_init__(self) -> None:
        """Checks all values at once."""
        lowest = {
            "warmup": 0,
            "runs": 1,
            "max_runs": 1,
            "repetitions": 1,
            "rounds": 1,
        }
        faults = [
            errors.explain(name, f"at least {low}", getattr(self, name))
            for name, low in lowest.items()
            if getattr(self, name) < low
        ]
        if self.min_seconds < 0 or self.timeout_seconds <= 0:
            faults.append(
                errors.explain(
                    "min_seconds and timeout_seconds",
                    "none negative, some time to wait",
                    (self.min_seconds, self.timeout_seconds),
                )
            )
        if not self.threads or min(self.threads) < 1:
            faults.append(errors.explain("threads", "numbers of at least 1", self.threads))
        if faults:
            raise errors.BenchmarkError("\n".join(faults))

    def block_runs(self, estimate_ms: float) -> int:
        """How many samples a block has, given about how long one takes."""
        wanted = max(self.runs, self.min_seconds * 1000 / max(estimate_ms, 1e-6))
        return math.ceil(min(wanted, max(self.max_runs, self.runs)) / self.rounds)


def measure(
    model: files.Path,
    *,
    name: str | None = None,
    threads: Sequence[int] = (1,),
    lengths: Sequence[int] | None = None,
    warmup: int = 10,
    runs: int = 100,
    min_seconds: float = 1.0,
    repetitions: int = 3,
    progress: bool = False,
    **more: Any,
) -> dict[str, Any]:
    """Measures one file: start, first inference, steady latency, memory, tokenizer, end to end.

    An inference is what a program sees: inputs written by name, the model run, outputs copied.
    `init_ms` is the interpreter; `first_inference_ms` includes the allocation of the tensors;
    `cold_start_ms` runs from before the process starts (its own imports included) to the first
    result. Input ids come from the manifest's golden examples, else from its vocabulary, else, for
    a bare file, at random from below the size of the embedding table; the result says which.

    Args:
      model: A folder that `tfdistill export` wrote, or a .tflite file.
      name: How to call it; the manifest's name, or the file's, by default.
      threads: Numbers of threads to measure with.
      lengths: Sequence lengths to measure; all by default.
      warmup: Inferences before the first sample.
      runs: The fewest samples of a repetition.
      min_seconds: The least measured time of a repetition.
      repetitions: Fresh processes per configuration.
      progress: Whether to draw a progress bar on stderr, if that is a terminal.
      **more: The remaining fields of `Settings`.

    Returns:
      The benchmark result, of format_version 1 (docs: "Benchmark results").

    Raises:
      BenchmarkError: If the file is missing or damaged, or a worker fails or takes too long.
      ManifestError: If a checksum differs from the manifest's.
    """
    return compare(
        [model] if name is None else {name: model},
        threads=threads,
        lengths=lengths,
        warmup=warmup,
        runs=runs,
        min_seconds=min_seconds,
        repetitions=repetitions,
        progress=progress,
        **more,
    )


def compare(
    models: Sequence[files.Path] | Mapping[str, files.Path],
    *,
    baseline: str | None = None,
    threads: Sequence[int] = (1,),
    lengths: Sequence[int] | None = None,
    progress: bool = False,
    **more: Any,
) -> dict[str, Any]:
    """Measures several files in one run, interleaved, and compares each with the baseline.

    Args:
      models: The files or export folders; a mapping gives them names.
      baseline: Name of the one that the others are compared with; the first by default.
      threads: Numbers of threads to measure with.
      lengths: Sequence lengths to measure; by default all that any of the files has.
      progress: Whether to draw a progress bar on stderr, if that is a terminal.
      **more: The remaining fields of `Settings`.

    Returns:
      The benchmark result; `comparisons` holds baseline / candidate with its 95% interval, where
      `faster` is true or false only if the interval excludes 1, and null otherwise.

    Raises:
      BenchmarkError: As `measure`; also if there is no model or no such baseline or length.
      ManifestError: If a checksum differs from a manifest's.
    """
    settings = Settings(
        threads=tuple(threads), lengths=None if lengths is None else tuple(lengths), **more
    )
    subjects = _open_all(models, settings)
    names = [subject.name for subject in subjects]
    if baseline is not None and baseline not in names:
        raise errors.BenchmarkError(
            errors.explain(
                "baseline", "one of the models", repr(baseline), errors.nearest(baseline, names)
            )
        )
    machine = environment.describe()
    machine["load_average_before"] = environment.load_average()
    measurements, text_samples = _measure_all(subjects, settings, progress)
    machine["load_average_after"] = environment.load_average()
    return result.assemble(
        subjects=subjects,
        measurements=measurements,
        text_samples=text_samples,
        settings=dataclasses.asdict(settings),
        machine=machine,
        command=environment.command(),
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        baseline=baseline or names[0],
    )


def _open_all(
    models: Sequence[files.Path] | Mapping[str, files.Path], settings: Settings
) -> list[inputs.Subject]:
    named: Iterable[tuple[str | None, files.Path]]
    named = models.items() if isinstance(models, Mapping) else [(None, path) for path in models]
    subjects: list[inputs.Subject] = []
    for name, path in named:
        subject = inputs.open_subject(path, name=name, seed=settings.seed)
        taken = {other.name for other in subjects}
        tries = itertools.chain(
            (subject.name, f"{subject.file.parent.name}/{subject.name}"),
            (f"{subject.name} ({i})" for i in itertools.count(2)),
        )
        free = next(candidate for candidate in tries if candidate not in taken)
        subjects.append(dataclasses.replace(subject, name=free))
    if not subjects:
        raise errors.BenchmarkError(errors.explain("models", "at least one file", "none"))
    available = sorted({length for subject in subjects for length in subject.entries})
    unknown = sorted(set(settings.lengths or ()) - set(available))
    if unknown or settings.lengths == ():
        raise errors.BenchmarkError(
            errors.explain("lengths", f"some of {available}", unknown or "none")
        )
    return subjects


def _measure_all(
    subjects: list[inputs.Subject], settings: Settings, progress: bool
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    rng = np.random.default_rng(settings.seed)
    available = sorted({length for subject in subjects for length in subject.entries})
    lengths = [n for n in available if settings.lengths is None or n in settings.lengths]
    texts = inputs.texts_for(subjects) if settings.texts else []
    readers = [subject for subject in subjects if subject.vocab_file is not None and texts]
    plan: list[tuple[int, int | None, int]] = []  # repetition, length (None: text), threads
    for repetition in range(settings.repetitions):
        kinds: list[int | None] = [*lengths, *([None] if readers else [])]
        cells = [(repetition, kind, threads) for kind in kinds for threads in settings.threads]
        plan += [cells[i] for i in rng.permutation(len(cells))]
    bar = tqdm.tqdm(
        total=len(plan) * settings.rounds,
        desc="benchmark",
        unit="round",
        disable=None if progress else True,  # None: only on a terminal
    )
    measurements: list[dict[str, Any]] = []
    text_samples: list[dict[str, Any]] = []
    for repetition, length, threads in plan:
        place = {"threads": threads, "repetition": repetition}
        if length is None:
            jobs = {s.name: _text_job(s, texts, threads, settings) for s in readers}
            for row in _take_turns(jobs, settings, rng, bar):
                pairs = zip(texts, row.pop("ids"), strict=True)
                encoded = [(text, pair, ids) for (text, pair), ids in pairs]
                text_samples.append({**row, **place, "encoded": encoded})
            continue
        present = [subject for subject in subjects if length in subject.entries]
        jobs = {s.name: _ids_job(s, length, threads, settings) for s in present}
        signatures = {subject.name: subject.entries[length].signature for subject in present}
        for row in _take_turns(jobs, settings, rng, bar):
            row.update(place, sequence_length=length, signature=signatures[row["model"]])
            measurements.append(row)
    bar.close()
    return measurements, text_samples


def _take_turns(
    jobs: dict[str, dict[str, Any]], settings: Settings, rng: np.random.Generator, bar: tqdm.tqdm
) -> Iterator[dict[str, Any]]:
    """Measures one repetition of some models side by side; yields a row for each."""
    with contextlib.ExitStack() as stack:
        sessions: dict[str, session.Session] = {}
        for name in _shuffled(list(jobs), rng):
            job = jobs[name]
            what = f"{name}, {job['kind']} job, {job['threads']} thread(s)"
            worker = session.Session(job, what=what, timeout_seconds=settings.timeout_seconds)
            sessions[name] = stack.enter_context(worker)
        rows: dict[str, dict[str, Any]] = {}
        for name in jobs:
            report = dict(sessions[name].report)
            warmup = report.pop("warmup_ms")
            typical = statistics.median(warmup or [report.get("first_inference_ms", 1.0)])
            block = settings.block_runs(typical)
            rows[name] = {"model": name, **report, "block_runs": block, "samples_ms": []}
        for _ in range(settings.rounds):
            for name in _shuffled(list(jobs), rng):
                for key, samples in sessions[name].run(rows[name]["block_runs"]).items():
                    rows[name].setdefault(key, []).extend(samples)
            bar.update()
        for name in jobs:
            rows[name].update(sessions[name].finish())
    yield from rows.values()


def _ids_job(
    subject: inputs.Subject, length: int, threads: int, settings: Settings
) -> dict[str, Any]:
    return {
        "kind": "ids",
        "file": str(subject.file.resolve()),
        "threads": threads,
        "warmup": settings.warmup,
        "entry": dataclasses.asdict(subject.entries[length]),
        "feeds": inputs.feeds_for(subject, length),
    }


def _text_job(
    subject: inputs.Subject,
    texts: list[tuple[str, str | None]],
    threads: int,
    settings: Settings,
) -> dict[str, Any]:
    assert subject.card is not None and subject.card.tokenizer is not None
    return {
        "kind": "text",
        "file": str(subject.file.resolve()),
        "threads": threads,
        "warmup": settings.warmup,
        "entries": [dataclasses.asdict(entry) for entry in subject.entries.values()],
        "vocab": str(subject.vocab_file),
        "lower_case": subject.card.tokenizer.lower_case,
        "texts": texts,
    }


def _shuffled(names: list[str], rng: np.random.Generator) -> list[str]:
    return [names[i] for i in rng.permutation(len(names))]
