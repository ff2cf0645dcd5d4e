"""Workers that are alive together and take turns: one repetition of some files side by side."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tfdistill import errors
from tfdistill.benchmark import schema
from tfdistill.benchmark.host import session
from tfdistill.benchmark.host.jobs import Job
from tfdistill.benchmark.settings import Settings


def take_turns(
    planned: Mapping[str, Job],
    settings: Settings,
    rng: np.random.Generator,
    after_round: Callable[[], object],
) -> tuple[dict[str, dict[str, Any]], dict[str, schema.Failure]]:
    """Measures one repetition of some files side by side.

    A round is one short block of each, in random order, so that what disturbs the machine disturbs
    all of them. Before a block come `settings.lead_in` inferences that do not count: those after
    another file's turn find its weights in the caches, and would be the upper tenth of a block of
    ten. They are kept with the warm-up. A worker that fails leaves the others to go on without it.

    Args:
      planned: What each is to do, by name of the file.
      settings: How long to measure.
      rng: Source of the order.
      after_round: Called after each of `settings.rounds` rounds.

    Returns:
      What the workers answered, samples joined, by name; and why the others have no answer.
    """
    rows: dict[str, dict[str, Any]] = {}
    failures: dict[str, schema.Failure] = {}
    with contextlib.ExitStack() as stack:
        sessions: dict[str, session.Session] = {}

        def ask(name: str, question: Callable[[], dict[str, Any]]) -> dict[str, Any]:
            try:
                return question()
            except errors.BenchmarkError as error:
                failures[name] = schema.Failure(what=planned[name].what, error=str(error))
                sessions.pop(name, None)
                return {}

        def start(name: str) -> dict[str, Any]:
            job = planned[name]
            timeout = settings.timeout_seconds
            worker = session.Session(job.question, what=job.what, timeout_seconds=timeout)
            sessions[name] = stack.enter_context(worker)
            return dict(worker.report)

        reports = {
            name: ask(name, lambda n=name: start(n)) for name in shuffled(list(planned), rng)
        }
        for name in [name for name in planned if name in sessions]:
            warmup = reports[name]["warmup_ms"]
            typical = statistics.median(warmup or [reports[name].get("first_inference_ms", 1.0)])
            rows[name] = {**reports[name], "block_runs": settings.block_runs(typical)}
        for _ in range(settings.rounds):
            for name in shuffled(list(planned), rng):
                if name in sessions:
                    runs = rows[name]["block_runs"]
                    block = ask(
                        name,
                        lambda n=name, runs=runs: sessions[n].run(runs, lead_in=settings.lead_in),
                    )
                    for key, samples in block.items():
                        rows[name].setdefault(key, []).extend(samples)
            after_round()
        for name in list(sessions):
            rows[name].update(ask(name, sessions[name].finish))
    return {name: row for name, row in rows.items() if name not in failures}, failures


def shuffled(names: list[str], rng: np.random.Generator) -> list[str]:
    """Returns the names in random order."""
    return [names[i] for i in rng.permutation(len(names))]
