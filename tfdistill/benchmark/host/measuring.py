"""Measures files on this machine: one, several that take turns, or one at a glance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from tfdistill import errors
from tfdistill.benchmark import cores, measuring, schema
from tfdistill.benchmark.backend import Findings
from tfdistill.benchmark.host.backend import DELEGATES, HostBackend
from tfdistill.benchmark.settings import Settings
from tfdistill.benchmark.subjects import baseline_of, open_all
from tfdistill.io import files
from tfdistill.tflite.golden import Example


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
    """The figures of `quick_benchmark`.

    Attributes:
      p50_ms: Sequence length -> median latency in milliseconds.
      busy_lengths: Those whose figure other programs disturbed.
      peak_rss_bytes: The largest resident memory of a process that runs one length; 0 where the
        system does not report it.
    """

    p50_ms: dict[int, float]
    busy_lengths: list[int]
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
      A dict of "p50_ms", "busy_lengths" and "peak_rss_bytes".

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
        "busy_lengths": [row.sequence_length for row in result.summary if row.busy],
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
