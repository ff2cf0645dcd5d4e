"""How fast every place is, in blocks that take turns.

The tool gives no single durations, only statistics of a run. So a run is a block: a repetition of
a place consists of `rounds` runs of each file, in random order, each a fresh process; and before
them one short run of each that tells whether the delegate takes part, how long an inference takes
about, and how much memory the process needs.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping

from tfdistill import errors
from tfdistill.benchmark import schema
from tfdistill.benchmark.adb import conditions, output
from tfdistill.benchmark.adb.stage import Stage, name_of
from tfdistill.benchmark.host import turns


def measure_latency(stage: Stage, after_round: Callable[[], object]) -> None:
    """Measures every place as often as the settings ask for.

    Args:
      stage: The device; its findings are filled.
      after_round: Called after each round of blocks.

    Raises:
      DeviceLostError: If the device went away.
    """
    for repetition, length, threads, delegate in _cells(stage):
        rivals = {
            subject.name: stage.place(subject.name, length, threads, delegate)
            for subject in stage.plan.subjects
            if length in stage.lengths_of(subject)
        }
        _repeat(stage, repetition, rivals, after_round)


def _cells(stage: Stage) -> Iterator[tuple[int, int, int, schema.Delegate]]:
    settings = stage.plan.settings
    for repetition in range(settings.repetitions):
        cells = [
            (repetition, length, threads, delegate)
            for length in stage.plan.lengths
            for threads in settings.threads
            for delegate in settings.delegates
        ]
        yield from (cells[i] for i in stage.rng.permutation(len(cells)))


def _repeat(
    stage: Stage,
    repetition: int,
    rivals: Mapping[str, schema.Place],
    after_round: Callable[[], object],
) -> None:
    """Measures one repetition, and again where the device throttled and that is wished."""
    settings = stage.plan.settings
    tries = 1 + (settings.max_repeats if settings.when_throttled == "repeat" else 0)
    for attempt in range(tries):
        willing = {n: place for n, place in rivals.items() if place not in stage.refused}
        if not willing:
            return
        if settings.cool_down_seconds:
            stage.phone.rest(settings.cool_down_seconds)
        before = conditions.wait_until_cool(stage.phone, settings)
        rows = _take_turns(stage, willing, after_round)
        after = conditions.read(stage.phone)
        status = max(before.thermal_status or 0, after.thermal_status or 0)
        reason = f"the device throttled (thermal status {status})"
        left_out = reason if status and settings.when_throttled == "repeat" else ""
        update = {"repetition": repetition, "started": before.time, "left_out": left_out}
        update |= {"before": before, "after": after}
        stage.found.measurements += [row.model_copy(update=update) for row in rows]
        if not left_out:
            return
        if attempt + 1 == tries:
            what = f"repetition {repetition} of " + "; ".join(map(name_of, willing.values()))
            error = errors.explain(
                what,
                f"a device that stays cool within {tries} tries",
                reason,
                "Rest longer with --cool-down, or count it with --when-throttled flag.",
            )
            stage.found.failures.append(schema.Failure(what=what, error=error))


def _take_turns(
    stage: Stage, willing: Mapping[str, schema.Place], after_round: Callable[[], object]
) -> list[schema.Measurement]:
    settings, warmup = stage.plan.settings, max(stage.plan.settings.warmup, 1)
    looks: dict[str, tuple[output.Output, schema.Coverage | None]] = {}
    for name in turns.shuffled(list(willing), stage.rng):
        place = willing[name]
        seen = stage.attempt(
            place, "first run", lambda p=place: stage.look(p, warmup=warmup, memory=True)
        )
        if seen is not None:
            looks[name] = seen
    sizes = {
        name: settings.block_runs(seen.inference.mean_ms or 1.0)
        for name, (seen, _) in looks.items()
    }
    outputs: dict[str, list[output.Output]] = {name: [] for name in looks}
    for number in range(settings.rounds):
        for name in turns.shuffled(list(outputs), stage.rng):
            said = stage.attempt(
                willing[name],
                f"block {number}",
                lambda n=name, i=number: stage.run(willing[n], i, runs=sizes[n], warmup=warmup),
            )
            if said is None:
                outputs.pop(name)
            else:
                outputs[name].append(said)
        after_round()
    return [
        schema.Measurement(
            **willing[name].model_dump(),
            signature=stage.deployed[name, willing[name].sequence_length].layout.signature,
            repetition=0,
            block_runs=sizes[name],
            blocks=tuple(said.block() for said in said_),
            init_ms=statistics.median(said.init_ms for said in said_),
            first_inference_ms=statistics.median(said.first_inference_ms for said in said_),
            peak_rss_bytes=looks[name][0].peak_bytes,
            coverage=looks[name][1],
        )
        for name, said_ in outputs.items()
    ]
