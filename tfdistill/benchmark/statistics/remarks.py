"""Sentences that a reader of a result's numbers has to know."""

from __future__ import annotations

from collections.abc import Iterator

from tfdistill.benchmark import schema
from tfdistill.benchmark.statistics import disturbance

BUSY = "were measured on a busy machine"
SLOWED = "were measured on a device that throttled, or slowed down for another reason"

_SAID = {
    "vocabulary": "no golden.json: fed with random words of its vocabulary.",
    "random": "no model.json: fed with random ids below the size of its embedding table.",
}


def remarks(result: schema.Result) -> list[str]:
    """Says what follows from a result with its summary and is easily overlooked."""
    sources = (_of_busy, _of_inputs, _of_load, _of_repetitions, _of_heat)
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


def _of_inputs(result: schema.Result) -> Iterator[str]:
    for model in result.models:
        if model.inputs.source in _SAID:
            yield f"{model.name}: {_SAID[model.inputs.source]}"


def _of_load(result: schema.Result) -> Iterator[str]:
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


def _of_heat(result: schema.Result) -> Iterator[str]:
    slowed = [row for row in result.summary if row.throttled]
    if slowed:
        cases = f"{len(slowed)} of {len(result.summary)} cases"
        yield f"{cases} {SLOWED}: cool it down and measure again."
