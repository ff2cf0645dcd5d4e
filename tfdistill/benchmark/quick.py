"""A quick look at one file: enough to rank quantizations on this host, not to report a latency."""

from __future__ import annotations

from typing import Any

from tfdistill import errors, files
from tfdistill.benchmark import host


def glance(
    model: files.Path, *, threads: int = 1, runs: int = 50, min_seconds: float = 0.3
) -> dict[str, Any]:
    """Measures a file once at each of its lengths.

    A figure that others are to read comes from `measure` or `compare`, which repeat and interleave.

    Args:
      model: A folder that `tfdistill export` wrote, or a .tflite file.
      threads: LiteRT threads.
      runs: The fewest samples of a length, after 10 inferences to warm up.
      min_seconds: The least measured time of a length.

    Returns:
      "p50_ms", sequence length -> median latency in milliseconds, and "peak_rss_bytes", the largest
      resident memory of a process that runs one length.

    Raises:
      BenchmarkError: If the file is missing or damaged, or takes too long.
      ManifestError: If a checksum differs from the manifest's.
    """
    result = host.measure(
        model,
        threads=(threads,),
        runs=runs,
        min_seconds=min_seconds,
        repetitions=1,
        texts=False,
    )
    if result.failures:
        raise errors.BenchmarkError("\n".join(failure.error for failure in result.failures))
    cells = result.summary
    return {
        "p50_ms": {cell.sequence_length: cell.p50_ms for cell in cells},
        "peak_rss_bytes": max(cell.peak_rss_bytes or 0 for cell in cells),
    }
