"""The process that is measured: ``python -m tfdistill.benchmark.host.worker``.

It imports what a program that runs the model needs and nothing else. As `tflite.serving` says, it
gets a job, answered with what the start cost; then ``{"run": n, "lead_in": k}``, answered with n
samples behind k inferences that do not count; at the end of stdin, the peak of the memory.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

from ai_edge_litert import interpreter as litert

from tfdistill.benchmark.host.stopwatch import NS_PER_MS, Stopwatch, milliseconds
from tfdistill.tflite import serving
from tfdistill.tflite.signature import Signature, SignatureRunner


def open_file(job: dict[str, Any]) -> Any:
    """Opens a file in LiteRT: with its default delegate, XNNPACK, or with none."""
    types = litert.OpResolverType
    resolvers = {"xnnpack": types.AUTO, "none": types.BUILTIN_WITHOUT_DEFAULT_DELEGATES}
    return litert.Interpreter(
        os.fsencode(job["file"]),
        num_threads=job["threads"],
        experimental_op_resolver_type=resolvers[job["delegate"]],
    )


def open_ids_job(job: dict[str, Any]) -> tuple[dict[str, Any], Callable[..., dict[str, Any]]]:
    """Opens one entry point, runs it once and warms it up.

    The job has file, threads, delegate, signature, feeds, warmup, spawned_ns (`time.monotonic_ns`
    in the parent just before it started this process). Returns the durations of the start in
    milliseconds, and a function that takes n more samples, behind k inferences that do not count:
    after a pause, in which another process ran, the caches are its.
    """
    ready = time.monotonic_ns()
    baseline = serving.memory_bytes("VmRSS")
    interpreter = open_file(job)
    signature = Signature.from_json(job["signature"])
    runner = SignatureRunner(interpreter, signature)
    opened = time.monotonic_ns()
    first = signature.padded(**job["feeds"][0])
    before = time.monotonic_ns()
    runner(first)
    answered = time.monotonic_ns()
    feeds = [first, *(signature.padded(**feed) for feed in job["feeds"][1:])]

    def timed(first: int, number: int) -> dict[str, Any]:
        stopwatch = Stopwatch(job["threads"])
        for index in range(first, first + number):
            feed = feeds[index % len(feeds)]
            stopwatch.start()
            runner(feed)
            stopwatch.stop()
        return stopwatch.samples()

    run = _in_turn(timed)
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

    The job has file, threads, delegate, signatures (shortest first), tokenizer (the arguments of
    `read_tokenizer`), texts, warmup. Returns the ids of every text, and a function that takes n
    samples: of the tokenizer, and of tokenizer, padding, inference at the shortest length that
    fits, and arg max together.
    """
    from tfdistill.tokenization.reading import read_tokenizer  # only this job needs it

    signatures = [Signature.from_json(content) for content in job["signatures"]]
    longest = signatures[-1].sequence_length
    encode = read_tokenizer(**job["tokenizer"]).encode_typed
    interpreter = open_file(job)
    runners = [
        (entry.sequence_length, entry.padded, SignatureRunner(interpreter, entry))
        for entry in signatures
    ]
    texts = job["texts"]

    def timed(first: int, number: int) -> dict[str, Any]:
        stopwatch, tokenizer_ns = Stopwatch(job["threads"]), []
        for index in range(first, first + number):
            text, pair = texts[index % len(texts)]
            stopwatch.start()
            ids, types = encode(text, pair, longest)
            tokenized = time.perf_counter_ns()
            _, padded, runner = next(r for r in runners if len(ids) <= r[0])
            for output in runner(padded(ids, types)):
                output.argmax(axis=-1)  # the label, each token's, or a start and an end
            stopwatch.stop()
            tokenizer_ns.append(tokenized - stopwatch.started_ns)
        return {"tokenizer_ms": milliseconds(tokenizer_ns), **stopwatch.samples()}

    run = _in_turn(timed)
    warmup = run(max(job["warmup"], len(texts)))["samples_ms"]  # every length allocated
    ids = [encode(text, pair, longest)[0] for text, pair in texts]
    return {"texts": texts, "ids": ids, "warmup_ms": warmup}, run


def _in_turn(timed: Callable[[int, int], dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Makes of what times examples from a number on what times the next ones at each call."""
    position = 0

    def run(number: int, lead_in: int = 0) -> dict[str, Any]:
        nonlocal position
        begun, position = position, position + number
        return {"warmup_ms": timed(begun, lead_in)["samples_ms"], **timed(begun, number)}

    return run


def _open(job: dict[str, Any]) -> tuple[dict[str, Any], serving.Answer]:
    report, run = {"ids": open_ids_job, "text": open_text_job}[job["kind"]](job)
    return report, lambda question: run(question["run"], question["lead_in"])


if __name__ == "__main__":
    sys.exit(serving.serve(_open))
