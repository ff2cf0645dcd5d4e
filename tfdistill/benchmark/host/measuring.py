"""Measures .tflite files on this machine, in fresh processes and, for several files, interleaved.

Every place (file, length, threads, delegate) is measured `repetitions` times, each time in a new
process. Within a repetition the files that are compared are alive together and take turns: a
round is one short block of each, in random order, so that what disturbs the machine disturbs all
of them. These are figures of this host; they are never called the latency of a phone.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tfdistill import errors, files
from tfdistill.benchmark import cores, environment, inputs, interruption, result, schema
from tfdistill.benchmark.host import places
from tfdistill.benchmark.settings import Settings

DELEGATES = ("xnnpack", "none")


def measure(
    model: files.Path, *, name: str | None = None, progress: bool = False, **options: Any
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
      progress: Whether to draw a progress bar on stderr, if that is a terminal.
      **options: Of `compare`.

    Returns:
      The benchmark result. What could not be measured is among its `failures`.

    Raises:
      BenchmarkError: If the file is missing or damaged, a setting is wrong, or nothing at all
        could be measured.
      ManifestError: If a checksum differs from the manifest's.
      BenchmarkInterrupted: At Ctrl-C, with what was finished.
    """
    return compare([model] if name is None else {name: model}, progress=progress, **options)


def compare(
    models: Sequence[files.Path] | Mapping[str, files.Path],
    *,
    baseline: str | None = None,
    settings: Settings | None = None,
    examples: Sequence[inputs.Example] = (),
    progress: bool = False,
    **options: Any,
) -> schema.Result:
    """Measures several files interleaved in one run and compares them.

    The files at the same length, threads and delegate are compared; a length that only one of them
    has is measured for that one alone. Whether one is faster is said only where the interval of
    the ratio excludes 1.

    Args:
      models: Export folders or files; or a mapping from the names to use to them.
      baseline: Name of the model that the others are compared with; the first by default.
      settings: How to measure; `Settings()` by default.
      examples: What to feed all of them with, encoded with the vocabulary that they share; each
        one's own examples where there are none.
      progress: Whether to draw a progress bar on stderr, if that is a terminal.
      **options: Fields of `Settings` (threads, lengths, runs, repetitions, ...) that replace those
        of `settings`.

    Returns:
      The benchmark result; see `measure`.

    Raises:
      BenchmarkError: See `measure`; also if the baseline is unknown.
      ManifestError: See `measure`.
      BenchmarkInterrupted: See `measure`.
    """
    options = {key: tuple(v) if isinstance(v, list) else v for key, v in options.items()}
    settings = dataclasses.replace(settings or Settings(), **options)
    affinity = check(settings)
    subjects = open_all(models, settings, examples)
    baseline = baseline_of(subjects, baseline)
    before = environment.conditions()
    found = places.Findings()
    usable = cores.cores_of(affinity) if affinity else cores.usable()
    if max(settings.threads) > len(usable):
        found.notes.append(f"{max(settings.threads)} threads shared {len(usable)} core(s).")
    if affinity is None and len(usable) < (os.cpu_count() or 1):
        found.notes.append(
            f"Only the cores of mask {cores.mask_of(usable)} could be used: taskset or a container "
            "bound this process to them."
        )

    def assembled() -> schema.Result:
        return result.assemble(
            kind="host",
            backend="litert",
            device=environment.device(),
            runtime=environment.runtime(),
            models=[result.model_file(subject) for subject in subjects],
            measurements=found.measurements,
            texts=found.texts,
            sustained=found.sustained,
            operators=found.operators,
            failures=found.failures,
            settings=settings,
            before=before,
            after=environment.conditions(),
            command=environment.command(),
            created=environment.now(),
            baseline=baseline,
            notes=found.notes,
        )

    try:
        places.Tour(subjects, settings, affinity, found).run(progress=progress)
    except KeyboardInterrupt:
        found.failures.append(interruption.FAILURE)
        raise interruption.BenchmarkInterrupted([assembled()] if found else []) from None
    if found.failures and not found:
        raise errors.BenchmarkError("\n".join(dict.fromkeys(f.error for f in found.failures)))
    return assembled()


def check(settings: Settings) -> str | None:
    """Checks that a host can measure in the ways that are asked for.

    Returns:
      Mask of the cores to run on, or None.

    Raises:
      BenchmarkError: If it cannot.
    """
    refused = [delegate for delegate in settings.delegates if delegate not in DELEGATES]
    if refused:
        raise errors.BenchmarkError(
            errors.explain(
                "delegates on a host",
                f"some of {DELEGATES}",
                refused,
                "GPU and NNAPI are measured on a phone: --device adb.",
            )
        )
    return cores.resolve(settings.affinity)


def open_all(
    models: Sequence[files.Path] | Mapping[str, files.Path],
    settings: Settings,
    examples: Sequence[inputs.Example],
) -> list[inputs.Subject]:
    """Opens the files of a benchmark under unique names.

    Args:
      models: Export folders or files; or a mapping from the names to use to them.
      settings: Says which lengths are asked for.
      examples: What to feed all of them with; each one's own examples where there are none.

    Returns:
      The subjects, at least one.

    Raises:
      BenchmarkError: If there is no file, one cannot be measured, or no file has a length.
      ManifestError: If a checksum differs from a manifest's.
    """
    named: Iterable[tuple[str | None, files.Path]]
    named = models.items() if isinstance(models, Mapping) else [(None, path) for path in models]
    subjects = [inputs.open_subject(path, name=name, seed=settings.seed) for name, path in named]
    if examples:
        subjects = [
            dataclasses.replace(subject, examples=tuple(examples), source="task")
            for subject in subjects
        ]
    names = _unique_names(subjects)
    subjects = [
        dataclasses.replace(subject, name=name)
        for subject, name in zip(subjects, names, strict=True)
    ]
    if not subjects:
        raise errors.BenchmarkError(errors.explain("models", "at least one file", "none"))
    available = sorted({length for subject in subjects for length in subject.entries})
    unknown = sorted(set(settings.lengths or ()) - set(available))
    if unknown or settings.lengths == ():
        raise errors.BenchmarkError(
            errors.explain("lengths", f"some of {available}", unknown or "none")
        )
    return subjects


def baseline_of(subjects: Sequence[inputs.Subject], baseline: str | None) -> str:
    """Returns the name of the file that the others are compared with: the first by default.

    Raises:
      BenchmarkError: If no file has that name.
    """
    names = [subject.name for subject in subjects]
    if baseline is not None and baseline not in names:
        raise errors.BenchmarkError(
            errors.explain(
                "baseline", f"one of {names}", repr(baseline), errors.nearest(baseline, names)
            )
        )
    return baseline or names[0]


def _unique_names(subjects: Sequence[inputs.Subject]) -> list[str]:
    """Names files of one name by the nearest folders that tell them apart, else by numbers."""
    names: list[str] = []
    for subject in subjects:
        rivals = [other.file.resolve() for other in subjects if other.name == subject.name]
        levels = zip(*(reversed(file.parent.parts) for file in rivals), strict=False)
        apart = next((i for i, parts in enumerate(levels) if len({*parts}) == len(parts) > 1), None)
        first = subject.name
        if apart is not None:
            first = subject.file.resolve().parents[apart].name
        tries = itertools.chain((first,), (f"{first} ({i})" for i in itertools.count(2)))
        names.append(next(name for name in tries if name not in names))
    return names
