"""The process that is measured: ``python -m tfdistill.benchmark.host.worker``.

It imports what a program that runs the model needs and nothing else. One JSON object per line
comes in on stdin, one goes out on stdout: first a job, answered with what the start cost; then
``{"run": n, "lead_in": k}``, answered with n samples behind k inferences that do not count, or
``{"sustain": seconds, "window": seconds}``, answered with a line for each window and
``{"end": true}``, or ``{"signature": key, "features": {...}}``, answered with the outputs; at the
end of stdin, the peak of the memory.
"""

from __future__ import annotations

import gc
import json
import os
import pathlib
import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from ai_edge_litert import interpreter as litert

from tfdistill import processes
from tfdistill.benchmark.host.entries import EntryRunner

NS_PER_MS = 1e6


def open_file(job: dict[str, Any]) -> Any:
    """Opens a file in LiteRT: with its default delegate, XNNPACK, or with none."""
    types = litert.OpResolverType
    resolvers = {"xnnpack": types.AUTO, "none": types.BUILTIN_WITHOUT_DEFAULT_DELEGATES}
    return litert.Interpreter(
        job["file"],
        num_threads=job["threads"],
        experimental_op_resolver_type=resolvers[job["delegate"]],
    )


def open_ids_job(job: dict[str, Any]) -> tuple[dict[str, Any], Callable[..., dict[str, Any]]]:
    """Opens one entry point, runs it once and warms it up.

    Args:
      job: file, threads, delegate, entry, feeds, warmup, spawned_ns (`time.monotonic_ns` in the
        parent just before it started this process).

    Returns:
      The durations of the start in milliseconds, and a function that takes n more samples, behind k
      inferences that do not count: after a pause, in which another process ran, the caches are its.
    """
    ready = time.monotonic_ns()
    baseline = memory_bytes("VmRSS")
    interpreter = open_file(job)
    runner = EntryRunner(interpreter, job["entry"])
    opened = time.monotonic_ns()
    first = runner.feed(**job["feeds"][0])
    before = time.monotonic_ns()
    runner(first)
    answered = time.monotonic_ns()
    feeds = [first, *(runner.feed(**feed) for feed in job["feeds"][1:])]
    position = 0

    def timed(first: int, number: int) -> list[float]:
        samples = []
        for index in range(first, first + number):
            feed = feeds[index % len(feeds)]
            start = time.perf_counter_ns()
            runner(feed)
            samples.append(time.perf_counter_ns() - start)
        return _milliseconds(samples)

    def run(number: int, lead_in: int = 0) -> dict[str, Any]:
        nonlocal position
        begun, position = position, position + number
        return {"warmup_ms": timed(begun, lead_in), "samples_ms": timed(begun, number)}

    report = {
        "process_start_ms": (ready - job["spawned_ns"]) / NS_PER_MS,
        "init_ms": (opened - ready) / NS_PER_MS,
        "first_inference_ms": (answered - before) / NS_PER_MS,
        "cold_start_ms": (answered - job["spawned_ns"]) / NS_PER_MS,
        "baseline_rss_bytes": baseline,
        "warmup_ms": run(job["warmup"])["samples_ms"],
    }
    return report, run


def open_text_job(job: dict[str, Any]) -> tuple[dict[str, Any], Callable[..., dict[str, Any]]]:
    """Opens a file with its tokenizer, to measure from the text to the answer.

    Args:
      job: file, threads, delegate, entries (shortest first), vocab, lower_case, texts, warmup.

    Returns:
      The ids of every text, and a function that takes n samples: of the tokenizer, and of
      tokenizer, padding, inference at the shortest length that fits, and arg max together.
    """
    encode = tokenizer(job["vocab"], job["lower_case"], job["entries"][-1]["sequence_length"])
    interpreter = open_file(job)
    runners = [EntryRunner(interpreter, entry) for entry in job["entries"]]
    texts = job["texts"]
    position = 0

    def timed(first: int, number: int) -> tuple[list[float], list[float]]:
        tokenizer_ns, total_ns = [], []
        for index in range(first, first + number):
            text, pair = texts[index % len(texts)]
            start = time.perf_counter_ns()
            ids, types = encode(text, pair)
            tokenized = time.perf_counter_ns()
            runner = next(r for r in runners if len(ids) <= r.length)
            for output in runner(runner.feed(ids, types)):
                output.argmax(axis=-1)  # the label, each token's, or a start and an end
            total_ns.append(time.perf_counter_ns() - start)
            tokenizer_ns.append(tokenized - start)
        return _milliseconds(tokenizer_ns), _milliseconds(total_ns)

    def run(number: int, lead_in: int = 0) -> dict[str, Any]:
        nonlocal position
        begun, position = position, position + number
        unmeasured = timed(begun, lead_in)[1]
        tokenizer_ms, samples_ms = timed(begun, number)
        return {"warmup_ms": unmeasured, "tokenizer_ms": tokenizer_ms, "samples_ms": samples_ms}

    warmup = run(max(job["warmup"], len(texts)))["samples_ms"]  # every length allocated
    ids = [encode(*text)[0] for text in texts]
    return {"texts": texts, "ids": ids, "warmup_ms": warmup}, run


def tokenizer(
    vocab_file: str, lower_case: bool, max_length: int
) -> Callable[[str, str | None], tuple[list[int], list[int]]]:
    """Makes BERT's tokenizer; a special token in the text is ordinary text.

    Args:
      vocab_file: One entry per line.
      lower_case: Whether text is lower-cased and stripped of accents.
      max_length: Longer pairs lose tokens from the longer text first.

    Returns:
      A function from text and pair to ids and token types, without padding.
    """
    from tfdistill import reading, tokenizer_json  # only this job needs them

    tokens = reading.read_text(vocab_file).removesuffix("\n").split("\n")
    tokenizer = tokenizer_json.build_tokenizer(tokens, lower_case=lower_case)
    tokenizer.enable_truncation(max_length, strategy="longest_first")

    def encode(text: str, pair: str | None = None) -> tuple[list[int], list[int]]:
        encoding = tokenizer.encode(text, pair)
        return encoding.ids, encoding.type_ids

    return encode


def memory_bytes(field: str) -> int | None:
    """Returns resident memory of this process: "VmRSS" now, "VmHWM" at its peak.

    Linux's `ru_maxrss` would not do: a child inherits in it the peak of the parent that started
    it, so a small worker of a program with TensorFlow loaded would look as large as that program.
    """
    try:
        status = pathlib.Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return _peak_elsewhere() if field == "VmHWM" else None
    found = re.search(rf"^{field}:\s+(\d+) kB", status, flags=re.MULTILINE)
    return int(found.group(1)) * 1024 if found else None


def _peak_elsewhere() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS


def _milliseconds(samples_ns: list[int]) -> list[float]:
    return [round(ns / NS_PER_MS, 5) for ns in samples_ns]


def sustain(
    run: Callable[..., dict[str, Any]], seconds: float, window: float
) -> Iterator[dict[str, Any]]:
    """Runs without pauses, and describes one window after the other; keeps one window's samples.

    Args:
      run: Takes samples, as an opened job does.
      seconds: Length of it all.
      window: Length of a window; the last takes what is left, half as long to half as long again.

    Yields:
      start_s, n, p50_ms and p90_ms of each window. A window starts where the one before ended.
    """
    begun, start = time.perf_counter(), 0.0
    while start < seconds:
        samples: list[float] = []
        now, end = start, start + window
        if seconds - end < window / 2:  # no scrap at the end, with a median of an inference or two
            end = seconds
        while now < end:
            samples += run(1)["samples_ms"]
            now = time.perf_counter() - begun
        p50, p90 = np.percentile(samples, [50, 90])
        yield {"start_s": round(start, 4), "n": len(samples), "p50_ms": p50, "p90_ms": p90}
        start = now


def _open(job: dict[str, Any]) -> tuple[dict[str, Any], Callable[..., dict[str, Any]]]:
    if job["kind"] in ("coverage", "operators"):
        from tfdistill.benchmark.host import probes  # what is timed does not hold them

        return probes.look(job), lambda number, lead_in: {}
    if job["kind"] == "answers":
        from tfdistill.benchmark.host import isolated

        return isolated.open_answers_job(open_file(job))
    return {"ids": open_ids_job, "text": open_text_job}[job["kind"]](job)


def main() -> int:
    """Serves one job; what the runtime prints goes to stderr, so that stdout is only answers."""
    processes.end_with_parent()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(value: dict[str, Any]) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    try:
        job = json.loads(sys.stdin.readline())
        gc.disable()
        report, run = _open(job)
        answer(report)
        for line in sys.stdin:
            asked = json.loads(line)
            if "sustain" in asked:
                for row in sustain(run, asked["sustain"], asked["window"]):
                    answer(row)
                answer({"end": True})
            elif "features" in asked:
                answer(run(**asked))
            else:
                answer(run(asked["run"], asked["lead_in"]))
    except (ValueError, RuntimeError, KeyError, OSError) as error:
        answer({"error": f"{type(error).__name__}: {error}"})
        return 1
    answer({"peak_rss_bytes": memory_bytes("VmHWM")})
    return 0


if __name__ == "__main__":
    sys.exit(main())
