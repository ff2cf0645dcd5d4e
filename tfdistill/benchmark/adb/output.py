"""Reads what `benchmark_model` prints, of any release since 2019.

The lines that are looked for, here as the tool writes them (times in microseconds, "INFO: " before
each in newer builds)::

    Replacing 71 out of 73 node(s) with delegate (TfLiteXNNPackDelegate) node, yielding 3 partitions
    Explicitly applied XNNPACK delegate, and the model graph will be partially executed by the
      delegate w/ 2 delegate kernels.
    count=10 first=979 curr=901 min=890 max=979 avg=911.2 std=12 p5=890 median=905 p95=979
    Inference timings in us: Init: 8123, First inference: 1022, Warmup (avg): 950.5, ...
    Overall peak memory footprint (MB) via periodic monitoring: 34.2

The first statistics line is about the warm-up, the second about what counts.
"""

from __future__ import annotations

import dataclasses
import re
import signal
from typing import NamedTuple

from tfdistill import errors
from tfdistill.benchmark import schema

# How the tool names a delegate.
PROVIDERS = {"xnnpack": "XNNPACK", "gpu": "GPU", "nnapi": "NNAPI"}
_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf)"
_MOST = 1e9  # of any figure, as milliseconds, megabytes or calls
_STATS = re.compile(rf"\bcount=(\d{{1,9}})\b((?:[ \t]+\w+={_NUMBER}(?:\(all same\))?)*)")
_PAIR = re.compile(rf"(\w+)=({_NUMBER})")
_TIMINGS = re.compile(
    rf"Inference timings in us: Init: ({_NUMBER}), First inference: ({_NUMBER})", re.IGNORECASE
)
_REPLACED = re.compile(
    r"Replacing (\d{1,9}) out of (\d{1,9}) node\(s\) with delegate \(([^)]*)\) node, yielding "
    r"(\d{1,9}) partitions(?: for subgraph (\d{1,9}))?"
)
_PARTLY = r"partially executed by the delegate w/ (?P<kernels>\d{1,9})\b"
_APPLIED = re.compile(
    rf"Explicitly applied (?P<name>\S+) delegate, and the model graph will be "
    rf"(?:{_PARTLY}|(?P<completely>completely executed))"
)
_PEAK = re.compile(
    rf"Overall peak memory footprint \(MB\) via periodic monitoring: +({_NUMBER})",
    re.IGNORECASE,
)
_UNKNOWN = re.compile(r"Unconsumed cmdline flags: (.*)")
_MISNAMED = re.compile(r"Tensor # ?\d+ is named (\S+) but flags call it (\S+)")
_TELLING = re.compile(
    r"^.*(?:error|fail|cannot|can not|unsupported|not supported|unable|abort|not executable|"
    r"no such|disallowed|explicitly applied|should be|must match|denied|killed).*$",
    re.IGNORECASE | re.MULTILINE,
)
_NOISE = re.compile(r"precision loss|Benchmarking failed|experimental", re.IGNORECASE)


class Replacement(NamedTuple):
    """A part of a graph that went to a delegate; `subgraph` is None in older builds."""

    nodes: int
    of: int
    delegate: str
    partitions: int
    subgraph: int | None


@dataclasses.dataclass(frozen=True)
class Output:
    """The printed output of one run of the tool."""

    init_ms: float  # opening the file, delegates and allocation included
    first_inference_ms: float  # the first inference of the warm-up, or of all where there was none
    block: schema.Block  # of the inferences that count
    replacements: tuple[Replacement, ...]  # every graph's, in order
    # by name of a delegate that was applied explicitly, how many of its kernels the graph that runs
    # has; -1 for a graph that it runs completely
    kernels: dict[str, int]
    # the largest memory footprint that the tool saw, where it was asked to look
    peak_bytes: int | None
    what: str  # what ran, for messages
    text: str  # all of it


def parse(text: str, *, what: str, exit_code: int = 0) -> Output:
    """Reads the output of one run, standard error included."""
    _refuse_misunderstandings(text, what)
    if exit_code:
        raise errors.BenchmarkError(_explain_exit(text, what, exit_code))
    stats_lines = [_stats(match) for match in _STATS.finditer(text)]
    timings = _TIMINGS.search(text)
    if timings is None or len(stats_lines) < 2:
        raise errors.BenchmarkError(
            what,
            "benchmark_model's statistics and its line `Inference timings in us`",
            "no output" if not text.strip() else "output without them",
            f"{last_lines(text)} Is --binary the benchmark_model of TensorFlow Lite or LiteRT, "
            "and did the connection hold?",
        )
    (warmups, _), (runs, inference) = stats_lines[-2:]
    init, first = (_milliseconds(value) for value in timings.groups())
    first = (first if warmups else inference.get("first")) or 0.0
    mean, low, high = (inference.get(name) for name in ("avg", "min", "max"))
    if runs < 1 or init is None or not (mean and low and high and min(mean, low, high) > 0):
        raise errors.BenchmarkError(
            what, "inferences of more than 0 us", "figures without any", last_lines(text)
        )
    peak = _PEAK.search(text)
    peak_mb = _figure(peak[1]) if peak else None
    return Output(
        init_ms=init,
        first_inference_ms=first,
        block=schema.Block(
            n=runs,
            mean_ms=mean,
            min_ms=low,
            max_ms=high,
            std_ms=inference.get("std"),
            first_ms=first,
            median_ms=inference.get("median"),
            p95_ms=inference.get("p95"),
        ),
        replacements=tuple(
            Replacement(int(nodes), int(of), name, int(parts), int(subgraph) if subgraph else None)
            for nodes, of, name, parts, subgraph in _REPLACED.findall(text)
        ),
        kernels={
            m["name"]: -1 if m["completely"] else int(m["kernels"]) for m in _APPLIED.finditer(text)
        },
        peak_bytes=None if peak_mb is None else round(peak_mb * 2**20),
        what=what,
        text=text,
    )


def coverage(
    output: Output,
    delegate: str,
    *,
    subgraph: int,
    num_nodes: int,
) -> schema.Coverage | None:
    """Says how much of the graph that ran a delegate took, and refuses a silent fallback.

    Returns the coverage; None without a delegate. For builds that do not print numbers of nodes:
    all nodes where the delegate runs the whole graph, else None.
    """
    if delegate == "none":
        return None
    kernels = output.kernels.get(PROVIDERS[delegate], 0)
    parts = [r for r in output.replacements if delegate in r.delegate.lower()]
    if not kernels:
        raise errors.BenchmarkError(
            output.what,
            f"a graph that {PROVIDERS[delegate]} takes part in",
            "one that it takes no node of: what would be measured is another processor",
            f"{telling_lines(output.text)} Leave {delegate} out of --delegates for this file "
            "and device.",
        )
    exact = [r for r in parts if r.subgraph == subgraph]
    if not exact:  # older builds name no subgraph: only a graph of as many nodes can be meant
        alike = {r for r in parts if r.subgraph is None and r.of == num_nodes}
        exact = list(alike) if len(alike) == 1 else []
    if exact:
        last = exact[-1]
        return schema.Coverage(delegated_nodes=last.nodes, nodes=last.of, partitions=abs(kernels))
    if kernels < 0:
        return schema.Coverage(delegated_nodes=num_nodes, nodes=num_nodes, partitions=1)
    return None


def last_lines(text: str) -> str:
    """Quotes the last lines of an output, for a message."""
    lines = [line.strip()[:300] for line in text.strip().splitlines() if line.strip()]
    if not lines:
        return "It printed nothing."
    return "Its last lines: " + " | ".join(lines[-5:]) + "."


def telling_lines(text: str) -> str:
    """Quotes the lines that explain a fault, or the last ones where none does."""
    lines = [match.group().strip()[:300] for match in _TELLING.finditer(text)]
    lines = [line for line in dict.fromkeys(lines) if not _NOISE.search(line)]
    return "It printed: " + " | ".join(lines[:6]) + "." if lines else last_lines(text)


def _explain_exit(text: str, what: str, exit_code: int) -> str:
    remedies = {
        126: "The device cannot run the binary: is it built for its processor?",
        127: "The device does not find the binary, or the linker that it names: is it built for "
        "Android?",
    }
    received = f"exit code {exit_code}"
    remedy = remedies.get(exit_code, "")
    if exit_code == 126 and "permission denied" in text.casefold():
        remedy = (
            "The file is executable; the file system that holds it is mounted noexec (`adb shell "
            "mount` shows it, /sdcard is one), or a policy of the device forbids programs there. "
            "Programs run from /data/local/tmp; where that is forbidden, measure in the "
            "demo app and name its file with --adopt."
        )
    if exit_code > 128:
        try:
            name = signal.Signals(exit_code - 128).name
        except ValueError:
            name = str(exit_code - 128)
        received = f"its end by signal {name}"
        remedy = {
            "SIGKILL": "Android ends what takes too much memory: is the file too large for it?",
            "SIGILL": "The binary uses instructions that this processor does not have.",
        }.get(name, "")
    return errors.explain(
        what, "a run of benchmark_model to its end", received, f"{telling_lines(text)} {remedy}"
    ).rstrip()


def _refuse_misunderstandings(text: str, what: str) -> None:
    unknown = _UNKNOWN.search(text)
    if unknown:
        options = re.findall(r"--(\w+)", unknown.group(1))
        remedy = "It would have measured something else. Use the binary of a newer release."
        if "input_layer" in options:
            remedy = (
                "Use the benchmark_model of the Interpreter API (android_aarch64_benchmark_model): "
                "that of the CompiledModel API takes no token ids."
            )
        raise errors.BenchmarkError(
            what,
            "a benchmark_model that knows all options that the measurement takes",
            f"one that does not know {', '.join(options) or unknown.group(1).strip()}",
            remedy,
        )
    misnamed = _MISNAMED.search(text)
    if misnamed:
        raise errors.BenchmarkError(
            f"inputs of {what}",
            f"{misnamed.group(2)} instead of {misnamed.group(1)}",
            "another order in the runtime than in the file",
            "The ids would have gone to another input. Export the file again.",
        )


def _stats(match: re.Match[str]) -> tuple[int, dict[str, float | None]]:
    """Number of inferences of a statistics line, and its values in milliseconds by name."""
    values = {name: _milliseconds(value) for name, value in _PAIR.findall(match.group(2))}
    last = values.get("curr")
    if last is not None and "avg" not in values:  # all the same: the line has one value
        values |= dict.fromkeys(("first", "avg", "min", "max", "median", "p95"), last) | {
            "std": 0.0
        }
    return int(match.group(1)), values


def _milliseconds(microseconds: str) -> float | None:
    return _figure(microseconds, 1000)


def _figure(text: str, divisor: int = 1) -> float | None:
    """A number over the divisor; None for what no figure can be, such as `nan`."""
    value = float(text) / divisor
    return value if 0 <= value < _MOST else None
