"""The benchmark result: assembled from raw samples, written, read back, and shown as text."""

from __future__ import annotations

import json
import pathlib
import re
import statistics
from typing import Any

from tfdistill import _version, errors, files
from tfdistill.benchmark import inputs, stats

FORMAT_VERSION = 1
# Of a start there is one value a repetition; the summary gives their median.
_START = (
    "process_start_ms",
    "init_ms",
    "first_inference_ms",
    "cold_start_ms",
    "baseline_rss_bytes",
    "peak_rss_bytes",
)


def assemble(
    *,
    subjects: list[inputs.Subject],
    measurements: list[dict[str, Any]],
    text_samples: list[dict[str, Any]],
    settings: dict[str, Any],
    machine: dict[str, Any],
    command: list[str],
    created: str,
    baseline: str,
) -> dict[str, Any]:
    """Builds the result from what was measured. Pure.

    Args:
      subjects: The models, in the order in which they are listed.
      measurements: One row per model, length, threads and repetition, with raw samples.
      text_samples: One row per model, threads and repetition of the text jobs.
      settings: What was asked for.
      machine: The circumstances.
      command: The command line.
      created: Time, ISO 8601.
      baseline: The model that the others are compared with.

    Returns:
      The value of benchmark.json.
    """
    order = {subject.name: i for i, subject in enumerate(subjects)}
    measurements = sorted(
        measurements,
        key=lambda m: (order[m["model"]], m["sequence_length"], m["threads"], m["repetition"]),
    )
    seed = settings["seed"]
    cells = _cells(measurements)
    tokenizer, end_to_end = _text_summary(text_samples, [subject.name for subject in subjects])
    return {
        "format_version": FORMAT_VERSION,
        "kind": "host",
        "created": created,
        "tfdistill_version": _version.__version__,
        "environment": machine,
        "command": command,
        "settings": settings,
        "models": [_model(subject) for subject in subjects],
        "measurements": measurements,
        "summary": [_summary(key, rows, seed) for key, rows in cells.items()],
        "tokenizer": tokenizer,
        "end_to_end": end_to_end,
        "comparisons": _comparisons(cells, baseline, seed),
        "notes": _notes(subjects, text_samples, machine),
    }


def to_json(result: dict[str, Any]) -> str:
    """Writes a result as indented JSON in which a list of numbers stays on one line."""
    text = json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False)
    flat = re.sub(
        r"\[\s+(-?[\d.eE+-]+(?:,\s+-?[\d.eE+-]+)*)\s+\]",
        lambda found: "[" + re.sub(r"\s+", " ", found.group(1)) + "]",
        text,
    )
    return flat + "\n"


def write_result(result: dict[str, Any], path: files.Path) -> pathlib.Path:
    """Writes benchmark.json so that it is either whole or unchanged, and returns its path."""
    files.atomic_write_text(path, to_json(result))
    return pathlib.Path(path)


def read_result(path: files.Path) -> dict[str, Any]:
    """Reads a benchmark.json.

    Raises:
      BenchmarkError: If it is missing, no JSON, or of another format or version.
    """
    try:
        value = json.loads(pathlib.Path(path).read_bytes())
    except (OSError, ValueError) as error:
        raise errors.BenchmarkError(
            errors.explain(
                f"{path}", "a benchmark result", error, "`tfdistill benchmark` makes one."
            )
        ) from error
    version = value.get("format_version") if isinstance(value, dict) else None
    if version != FORMAT_VERSION:
        raise errors.BenchmarkError(
            errors.explain(f"{path}", f"format_version {FORMAT_VERSION}", repr(version))
        )
    return value


def format_text(result: dict[str, Any]) -> str:
    """Shows a result as a table for a terminal."""
    head = (
        "model",
        "length",
        "threads",
        "n",
        "p50 ms",
        "p90",
        "p95",
        "p99",
        "first",
        "cold",
        "peak MB",
    )
    rows: list[tuple[str, ...]] = [head]
    for row in result["summary"]:
        numbers = (f"{row[f'p{q}_ms']:.3f}" for q in (50, 90, 95, 99))
        peak = row["peak_rss_bytes"]
        rows.append(
            (
                row["model"],
                str(row["sequence_length"]),
                str(row["threads"]),
                str(row["n"]),
                *numbers,
                f"{row['first_inference_ms']:.1f}",
                f"{row['cold_start_ms']:.0f}",
                "-" if peak is None else f"{peak / 1e6:.0f}",
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    lines = [
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    words = {True: "faster", False: "slower", None: "no difference that this run can tell"}
    for row in result["comparisons"]:
        low, high = row["speedup_ci"]
        lines.append(
            f"{row['candidate']} against {row['baseline']} at {row['sequence_length']} tokens, "
            f"{row['threads']} thread(s): {row['speedup']:.2f}x [{low:.2f}, {high:.2f}] "
            f"({words[row['faster']]})"
        )
    return "\n".join([*lines, *result["notes"]])


Key = tuple[str, int, int]  # model, sequence length, threads


def _cells(measurements: list[dict[str, Any]]) -> dict[Key, list[dict[str, Any]]]:
    cells: dict[Key, list[dict[str, Any]]] = {}
    for row in measurements:
        key = (row["model"], row["sequence_length"], row["threads"])
        cells.setdefault(key, []).append(row)
    return cells


def _blocks(rows: list[dict[str, Any]]) -> stats.Repetitions:
    return [stats.blocks_of(row["samples_ms"], row["block_runs"]) for row in rows]


def _summary(key: Key, rows: list[dict[str, Any]], seed: int) -> dict[str, Any]:
    model, length, threads = key
    start = {}
    for name in _START:
        values = [row[name] for row in rows if row[name] is not None]
        start[name] = statistics.median(values) if values else None
    return {
        "model": model,
        "sequence_length": length,
        "threads": threads,
        **stats.summarize([sample for row in rows for sample in row["samples_ms"]]),
        "p50_ci_ms": list(stats.median_ci(_blocks(rows), seed=seed)),
        **start,
    }


def _comparisons(
    cells: dict[Key, list[dict[str, Any]]], baseline: str, seed: int
) -> list[dict[str, Any]]:
    found = []
    for (model, length, threads), rows in cells.items():
        reference = cells.get((baseline, length, threads))
        if model == baseline or reference is None:
            continue
        old, new = (
            stats.summarize([s for row in side for s in row["samples_ms"]])["p50_ms"]
            for side in (reference, rows)
        )
        interval = stats.speedup_ci(_blocks(reference), _blocks(rows), seed=seed)
        found.append(
            {
                "baseline": baseline,
                "candidate": model,
                "sequence_length": length,
                "threads": threads,
                "speedup": old / new,
                "speedup_ci": list(interval),
                "faster": stats.is_faster(interval),
            }
        )
    return found


def _text_summary(
    rows: list[dict[str, Any]], names: list[str]
) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """Summarises the text jobs: the tokenizer over all of them, end to end by model and threads."""
    if not rows:
        return None, []
    tokenizer = stats.summarize([sample for row in rows for sample in row["tokenizer_ms"]])
    end_to_end = []
    for key in sorted({(names.index(row["model"]), row["threads"]) for row in rows}):
        model, threads = names[key[0]], key[1]
        samples = [
            sample
            for row in rows
            if (row["model"], row["threads"]) == (model, threads)
            for sample in row["samples_ms"]
        ]
        end_to_end.append({"model": model, "threads": threads, **stats.summarize(samples)})
    return tokenizer, end_to_end


def _model(subject: inputs.Subject) -> dict[str, Any]:
    return {
        "name": subject.name,
        "file": "/".join(subject.file.parts[-2:]),  # not where it lies on this machine
        "sha256": subject.sha256,
        "size_bytes": subject.file.stat().st_size,
        "quantization": subject.card.quantization if subject.card else None,
        "inputs": {"source": subject.source, "num_examples": len(subject.examples)},
    }


def _notes(
    subjects: list[inputs.Subject], text_samples: list[dict[str, Any]], machine: dict[str, Any]
) -> list[str]:
    """Says in sentences what a reader of the numbers has to know."""
    said = {
        "vocabulary": "no golden.json: fed with random words of its vocabulary.",
        "random": "no model.json: fed with random ids below the size of its embedding table.",
    }
    notes = [f"{s.name}: {said[s.source]}" for s in subjects if s.source in said]
    load, cores = machine["load_average_before"], machine["cores_logical"]
    if load is not None and cores and load > 0.5 * cores:
        notes.append(
            f"Load average {load} on {cores} cores before the run: other work disturbed the times."
        )
    for subject in subjects:
        row = next((row for row in text_samples if row["model"] == subject.name), None)
        expected = {(e.text, e.pair): list(e.input_ids) for e in subject.examples}
        wrong = sum(expected.get((t, p), ids) != ids for t, p, ids in row["encoded"]) if row else 0
        if wrong:
            notes.append(
                f"{subject.name}: {wrong} texts tokenize to other ids than those recorded in its "
                "golden.json."
            )
    return notes
