"""The benchmark result: assembled from what was seen, completed, written, and read back."""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pydantic

from tfdistill import _version, errors
from tfdistill.benchmark import schema
from tfdistill.benchmark.settings import Settings
from tfdistill.benchmark.statistics import disturbance, summaries
from tfdistill.benchmark.subjects import Subject
from tfdistill.io import files, reading
from tfdistill.results import quantities

FORMAT_VERSION = schema.FORMAT_VERSION
_SHOWN = 3  # contradictions in a message
MAX_BYTES = 256_000_000  # some twenty million samples; no sensible run has more
BUSY = "were measured on a busy machine"
SLOWED = "were measured on a device that throttled, or slowed down for another reason"

_SAID = {
    "vocabulary": "no golden.json: fed with random words of its vocabulary.",
    "random": "no model.json: fed with random ids below the size of its embedding table.",
}


def remarks(result: schema.Result) -> list[str]:
    """Says what follows from a result with its summary and is easily overlooked."""
    sources = (_of_busy, _of_machine, _of_repetitions)
    return list(dict.fromkeys(note for source in sources for note in source(result)))


def _of_busy(result: schema.Result) -> Iterator[str]:
    rows = (*result.summary, *result.end_to_end)
    busy = [row for row in rows if row.busy]
    if not busy:
        return
    words = [f"{len(busy)} of {len(rows)} figures {BUSY}:"]
    if not any(row.processor_ms for row in (*result.measurements, *result.texts)):
        words.append(
            f"more than a tenth of their inferences took over {disturbance.SPREAD} times as long "
            "as the shortest of their block. The device reports no processor time, so that the "
            "cause may also be a change of core or clock. No speed-up is given."
        )
        yield " ".join([*words, "Measure again on a quiet device."])
        return
    words.append("other programs disturbed more than a tenth of the samples.")
    if any(row.threads == 1 for row in busy):
        words.append(
            "With one thread, their figures are of processor time, and intervals of speed-ups are "
            "15% wider on either side."
        )
    if any(row.threads > 1 for row in busy):
        words.append("With several threads, their figures are too large: no speed-up is given.")
    yield " ".join([*words, "Measure again on a quiet machine."])


def _of_machine(result: schema.Result) -> Iterator[str]:
    for model in result.models:
        if model.inputs.source in _SAID:
            yield f"{model.name}: {_SAID[model.inputs.source]}"
    load = result.before.load_average if result.before else None
    cores = result.device.cores_logical
    if result.kind == "host" and load is not None and cores and load > 0.5 * cores:
        yield (
            f"Load average {load} on {cores} cores before the run: "
            "other work may have disturbed the times."
        )


def _of_repetitions(result: schema.Result) -> Iterator[str]:
    left_out = [row for row in result.measurements if row.left_out]
    if left_out:
        reasons = ", ".join(dict.fromkeys(row.left_out for row in left_out))
        yield (
            f"{len(left_out)} of {len(result.measurements)} measurements do not count: {reasons}."
        )
    if any(len(row.repetition_p50_ms) == 1 for row in result.summary):
        yield (
            "One repetition does not show how much two processes differ: its intervals are too "
            "narrow. Measure 3 or more."
        )
    if any(row.of == "blocks" for row in result.summary):
        yield "The tool gives no single durations: p50 is of blocks, and the tails are unknown."
    slowed = [row for row in result.summary if row.throttled]
    if slowed:
        cases = f"{len(slowed)} of {len(result.summary)} cases"
        yield f"{cases} {SLOWED}: cool it down and measure again."


def assemble(
    *,
    models: Sequence[schema.MeasuredFile],
    settings: Settings,
    baseline: str | None = None,
    **fields: Any,
) -> schema.Result:
    """Builds a result from what a backend measured, and completes it. Pure.

    The files are listed in the order of `models`; the others are compared with `baseline`, the
    first by default, which the result's settings keep. `fields` are others of `schema.Result`, rows
    in any order.
    """
    order = {model.name: i for i, model in enumerate(models)}

    def key(row: Any) -> tuple[Any, ...]:
        case = (getattr(row, "sequence_length", 0), row.threads, row.delegate, row.affinity or "")
        within = (getattr(row, "words", None) or 0, getattr(row, "repetition", 0))
        return (order.get(row.model, 0), *case, *within)

    for name in ("measurements", "texts", "answers"):
        fields[name] = sorted(fields.get(name, ()), key=key)
    requested = json.loads(json.dumps(dataclasses.asdict(settings)))  # lists, as in the file
    if settings.roles is None:
        del requested["roles"]  # of files whose names tell them
    return complete(
        schema.Result(
            tfdistill_version=_version.__version__,
            settings={**requested, "baseline": baseline or next(iter(order), None)},
            models=tuple(models),
            **fields,
        )
    )


def complete(result: schema.Result) -> schema.Result:
    """Computes what follows from the measurements: a backend need not know the statistics. Pure.

    `summary`, `tokenizer`, `end_to_end`, `text_times` and `comparisons` are computed anew;
    sentences that follow from the measurements are added to the notes. Completing twice changes
    nothing. Raises BenchmarkError if rows are about files that are not listed or listed twice, or
    durations are not above 0 or beyond any sense.
    """
    names = [model.name for model in result.models]
    _check_names(result, names)
    seed = result.settings.get("seed")
    seed = seed if isinstance(seed, int) and seed >= 0 else 0
    by_case = summaries.by_case(result.measurements)
    baseline = result.settings.get("baseline")
    if baseline not in names:
        baseline = next(iter(names), "")
    try:
        summary = tuple(summaries.summary(case, rows, seed=seed) for case, rows in by_case.items())
        derived = {
            "summary": summary,
            "tokenizer": summaries.tokenizer(result.texts),
            "end_to_end": summaries.end_to_end(result.texts),
            "text_times": summaries.text_times(result.models, summary),
            "comparisons": summaries.comparisons(by_case, baseline, seed=seed),
        }
    except pydantic.ValidationError as error:
        raise errors.BenchmarkError(
            "durations",
            "milliseconds that an inference can take",
            reading.validation_faults(error),
        ) from error
    completed = result.model_copy(update=derived)
    new = [note for note in remarks(completed) if note not in completed.notes]
    return completed.model_copy(update={"notes": (*completed.notes, *new)})


def model_file(subject: Subject) -> schema.MeasuredFile:
    """Describes a file that is to be measured."""
    return schema.MeasuredFile.model_validate(
        {
            "name": subject.name,
            "file": "/".join(subject.file.parts[-2:]),  # not its path on this machine
            "sha256": subject.sha256,
            "size_bytes": subject.file.stat().st_size,
            "quantization": subject.manifest.quantization if subject.manifest else None,
            "manifest": subject.manifest,
            "inputs": {"source": subject.source, "num_examples": len(subject.examples)},
        }
    )


def to_json(value: Mapping[str, Any]) -> str:
    """`files.json_text` in which a list of numbers stays on one line."""
    text = files.json_text(value)
    return re.sub(
        r"\[\s+(-?[\d.eE+-]+(?:,\s+-?[\d.eE+-]+)*)\s+\]",
        lambda match: "[" + re.sub(r"\s+", " ", match.group(1)) + "]",
        text,
    )


def write_result(result: schema.Result, path: files.Path) -> pathlib.Path:
    """Writes benchmark.json so that it is either whole or unchanged, and returns its path."""
    files.atomic_write_text(path, to_json(result.model_dump(mode="json")))
    return pathlib.Path(path)


def read_result(path: files.Path) -> schema.Result:
    """Reads a benchmark.json; one without a summary is completed.

    Raises:
      BenchmarkError: If it is missing, too large, no JSON, or of another format or version.
    """
    path = pathlib.Path(path)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise errors.BenchmarkError(
                f"{path}",
                f"at most {quantities.size(MAX_BYTES)}",
                quantities.size(path.stat().st_size),
                "Measure fewer files in one result.",
            )
        content = path.read_bytes()
    except OSError as error:
        raise errors.BenchmarkError(
            f"{path}",
            "a benchmark result",
            error.strerror or error,
            "`tfdistill benchmark` makes one.",
        ) from error
    value = reading.parse_json(
        content,
        f"{path}",
        error=errors.BenchmarkError,
        expected="a benchmark result",
        remedy="`tfdistill benchmark` makes one.",
    )
    version = value.get("format_version") if isinstance(value, dict) else None
    if version != FORMAT_VERSION:
        raise errors.BenchmarkError(
            f"{path}",
            f"a benchmark result of format_version {FORMAT_VERSION}",
            _other(value),
            "Measure again with `tfdistill benchmark`.",
        )
    result = reading.read_model(
        content,
        schema.Result,
        f"{path}",
        error=errors.BenchmarkError,
        expected=f"a benchmark result of format_version {FORMAT_VERSION}",
        remedy="Measure again with `tfdistill benchmark`.",
    )
    if not result.summary:
        return complete(result)
    if faults := _contradictions(result):
        raise errors.BenchmarkError(
            f"{path}",
            "figures that follow from its samples",
            "; ".join(faults[:_SHOWN]) + (" ..." if len(faults) > _SHOWN else ""),
            "Delete summary, tokenizer, end_to_end, text_times and comparisons: they are computed "
            "again.",
        )
    return result


def _contradictions(result: schema.Result) -> list[str]:
    """Figures of a result that its samples do not give; of the intervals nothing is said.

    These are drawn, and another version of NumPy may draw others.
    """
    _check_names(result, [model.name for model in result.models])
    by_case = summaries.by_case(result.measurements)
    pairs: list[tuple[str, Any, Any]] = []
    stated = {summaries.case_of(row): row for row in result.summary}
    if result.measurements:
        pairs.append(("summary: cases", len(result.summary), len(by_case)))
    for case, rows in by_case.items():
        where = f"summary of {case.model} at {case.sequence_length} tokens"
        figures = summaries.percentiles(summaries.as_counted(rows))
        pairs += _pairs(where, stated.get(case), figures)
    if result.texts:
        tokenizer = summaries.tokenizer(result.texts)
        pairs += _pairs("tokenizer", result.tokenizer, tokenizer and tokenizer.model_dump())
        texts = summaries.end_to_end(result.texts)
        pairs.append(("end_to_end: rows", len(result.end_to_end), len(texts)))
        for row, again in zip(result.end_to_end, texts, strict=False):
            pairs += _pairs(f"end_to_end of {again.model}", row, again.model_dump())
    for row in result.text_times:
        of_file = [other for other in result.models if other.name == row.model]
        rows = summaries.text_times(of_file, result.summary)
        same = (other.expected_ms for other in rows if other.setting == row.setting)
        where = f"text_times of {row.model}: expected_ms"
        pairs.append((where, row.expected_ms, next(same, None)))
    ratios = {
        (baseline, case): summaries.speedup(sides)
        for baseline in {row.baseline for row in result.comparisons}
        for case, sides in summaries.compared(by_case, baseline)
    }
    for row in result.comparisons:
        where = f"comparisons: speedup of {row.candidate}"
        if result.measurements:
            pairs.append((where, row.speedup, ratios.get((row.baseline, row.case))))
    return [
        f"{what} {errors.shortened(repr(value))} instead of {errors.shortened(repr(again))}"
        for what, value, again in pairs
        if value != again
        and not (
            isinstance(value, float)
            and isinstance(again, float)
            and math.isclose(value, again, rel_tol=1e-6, abs_tol=1e-9)  # but for rounding
        )
    ]


def _pairs(where: str, row: Any, figures: Mapping[str, Any] | None) -> list[tuple[str, Any, Any]]:
    """Each figure of a row beside the one that was computed again."""
    if row is None or figures is None:
        return [(where, row, figures)]
    return [(f"{where}: {name}", getattr(row, name), figures[name]) for name in figures]


def _check_names(result: schema.Result, names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise errors.BenchmarkError("names of files", "each once", f"{twice} twice")
    rows = (*result.measurements, *result.texts)
    unknown = sorted({row.model for row in (*rows, *result.answers)} - set(names))
    if unknown:
        raise errors.BenchmarkError("measured files", f"some of the listed {list(names)}", unknown)


def _other(value: Any) -> str:
    if not isinstance(value, dict):
        return f"a JSON {type(value).__name__}"
    if "format_version" not in value:
        return "JSON without a format_version"
    if "measurements" not in value:
        return "JSON that is no benchmark result"
    return f"format_version {value['format_version']!r}"
