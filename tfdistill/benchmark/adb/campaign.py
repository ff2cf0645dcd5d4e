"""Everything that is measured on one device with `benchmark_model`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tfdistill import errors
from tfdistill.benchmark import inputs, interruption, schema
from tfdistill.benchmark.adb import answers, conditions, latency, probe, profile, tool
from tfdistill.benchmark.adb.deployment import Deployed, Deployment
from tfdistill.benchmark.adb.phone import Phone
from tfdistill.benchmark.adb.stage import NUM_FEEDS, Findings, Plan, Stage, name_of

_PROFILE_RUNS = 50
_CHUNK = 16  # examples that are answered in one trip to the device
_Feeds = Sequence[Mapping[str, Sequence[int]]]


def run(phone: Phone, plan: Plan, found: Findings, after_round: Callable[[], object]) -> None:
    """Measures a plan on one device; what fails is among the failures, and the rest goes on.

    A lost device, or `Phone.stop`, ends it with what is finished: neither raises.

    Args:
      phone: The device.
      plan: What to measure.
      found: Is filled as the work goes on.
      after_round: Called after each round of blocks.
    """
    try:
        looked = probe.look(phone)
        found.device, found.kind = looked.device, looked.kind
        plan.program.check_runs_on(looked.abis)
        affinity = looked.mask(plan.settings.affinity)
        found.before = conditions.read(phone)
        with phone.folder() as folder:
            timeout = plan.settings.timeout_seconds
            on_device = Deployment(phone, folder, timeout_seconds=timeout)
            rng = np.random.default_rng(plan.settings.seed)
            _measure(Stage(phone, plan, found, on_device, affinity, rng), after_round)
        found.after = conditions.read(phone)
    except KeyboardInterrupt as stopped:
        found.failures.append(interruption.FAILURE)
        left = [str(argument) for argument in stopped.args if argument]
        found.failures += [schema.Failure(what="cleaning up", error=text) for text in left]
    except (errors.TfdistillError, OSError) as error:  # such as a full disk here
        failure = schema.Failure(what=f"the rest on {phone.serial}", error=str(error))
        found.failures.append(failure)


def _measure(stage: Stage, after_round: Callable[[], object]) -> None:
    plan = stage.plan
    stage.on_device.install(plan.program)
    for subject in plan.subjects:
        for length in stage.lengths_of(subject):
            key = (subject.name, length)
            feeds = inputs.feeds_for(subject, length, limit=NUM_FEEDS)
            stage.deployed[key] = stage.on_device.put(subject, plan.layouts[key], feeds)
    latency.measure_latency(stage, after_round)
    if plan.settings.operators:
        for place in stage.places():
            stage.attempt(place, "operators", lambda p=place: _profile(stage, p))
    if plan.settings.sustained_seconds:
        for place in stage.places(longest=True):
            stage.attempt(place, "sustained run", lambda p=place: _sustain(stage, p))
    longest = {subject.name: max(subject.entries) for subject in plan.subjects}
    for place in stage.places():
        if not plan.examples or place.sequence_length < longest[place.model]:
            stage.attempt(place, "answers", lambda p=place: _answer(stage, p))
    if plan.examples:  # all of them at the longest length, instead of a few
        for subject in plan.subjects:
            _answer_task(stage, subject)


def _profile(stage: Stage, place: schema.Place) -> None:
    said = stage.run(place, runs=min(_PROFILE_RUNS, stage.plan.settings.runs), profile=True)
    stage.coverage(said, place)
    text = stage.on_device.fetch(tool.PROFILE_FILE).decode(errors="replace")
    operators = profile.parse_profile(text, what=name_of(place))
    stage.found.operators.append(
        schema.Operators(**place.model_dump(), source="benchmark_model", operators=operators)
    )


def _sustain(stage: Stage, place: schema.Place) -> None:
    """Runs the tool again and again: each run is a window, with its own short start."""
    total = stage.plan.settings.sustained_seconds
    window_s = min(max(total / 20, 5.0), total / 2)
    said, _ = stage.look(place)
    mean_ms = said.inference.mean_ms or 1.0
    windows: list[schema.Window] = []
    start = time.monotonic()
    while (at := time.monotonic() - start) < total or len(windows) < 2:
        runs = max(1, round(window_s * 1000 / mean_ms))
        block = stage.run(place, runs=runs, warmup=0).block()
        windows.append(
            schema.Window(
                start_s=round(at, 3),
                n=block.n,
                p50_ms=block.mean_ms if block.median_ms is None else block.median_ms,
                conditions=conditions.read(stage.phone),
            )
        )
        mean_ms = block.mean_ms
    stage.found.sustained.append(schema.Sustained(**place.model_dump(), windows=tuple(windows)))


def _answer(stage: Stage, place: schema.Place) -> None:
    """Compares the answers to the examples that are measured with."""
    subject = next(s for s in stage.plan.subjects if s.name == place.model)
    feeds = inputs.feeds_for(subject, place.sequence_length, limit=NUM_FEEDS)
    deployed = stage.deployed[place.model, place.sequence_length]
    _compare(stage, place, subject, deployed, feeds, None)


def _answer_task(stage: Stage, subject: inputs.Subject) -> None:
    """Measures what the task says of the answers, at the longest length: nothing is cut."""
    feeds = [
        {"input_ids": list(e.input_ids), "token_type_ids": list(e.token_type_ids)}
        for e in stage.plan.examples
    ]
    length, settings = max(subject.entries), stage.plan.settings
    layout = stage.plan.layouts[subject.name, length]
    deployed: Deployed | None = None
    for delegate in settings.delegates:
        place = stage.place(subject.name, length, settings.threads[0], delegate)
        if deployed is None:
            deployed = stage.attempt(
                place, "examples", lambda: stage.on_device.put(subject, layout, feeds)
            )
        if deployed is not None:
            stage.attempt(
                place,
                "answers to the task",
                lambda p=place, d=deployed: _compare(
                    stage, p, subject, d, feeds, stage.plan.metric
                ),
            )


def _compare(
    stage: Stage,
    place: schema.Place,
    subject: inputs.Subject,
    deployed: Deployed,
    feeds: _Feeds,
    metric: answers.Metric | None,
) -> None:
    layout, what = deployed.layout, f"{name_of(place)}, answers"
    job = stage.on_device.job(deployed, place, runs=1, dump=True)
    theirs: list[list[np.ndarray]] = []
    for first in range(0, len(feeds), _CHUNK):
        last = min(first + _CHUNK, len(feeds))
        theirs += stage.on_device.answers(job, first, last, what=what)
    # Ctrl-C, which only the phone is told of, ends what runs here as well.
    ours = answers.of_host(subject, layout, feeds, before_each=lambda: stage.phone.rest(0))
    tokens = [len(feed["input_ids"]) for feed in feeds]
    host, device = (
        [answers.answer_of(layout, o, n) for o, n in zip(side, tokens, strict=True)]
        for side in (ours, theirs)
    )
    span = answers.is_span(layout)
    stage.found.answers.append(answers.compare(place, host, device, metric=metric, span=span))
