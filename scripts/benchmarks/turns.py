"""Tasks that take turns, so that what disturbs the machine disturbs all of them."""

from __future__ import annotations

import os
import pathlib
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tqdm


def take_turns(
    tasks: Mapping[str, Callable[[], Any]], *, rounds: int, warmup: int, seed: int = 0
) -> dict[str, Any]:
    """Times tasks in rounds: each task once a round, in random order.

    Args:
      tasks: Name -> what to run; it returns when its work is done, and one that works in another
        process returns the seconds that this one kept processors busy, a float.
      rounds: Samples of each task.
      warmup: Rounds that are not timed, before.
      seed: Seed of the order.

    Returns:
      `seconds`, name -> list of `rounds` durations; `processor_seconds`, the same of the time that
      this process, or that of the task, kept processors busy; `others_share`, a list of `rounds`
      shares of the machine's processor time that went to others (None where it is not known).
    """
    random = np.random.default_rng(seed)
    names = list(tasks)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    processor_seconds: dict[str, list[float]] = {name: [] for name in names}
    others: list[float | None] = []
    with tqdm.tqdm(total=(warmup + rounds) * len(names), unit="turn", disable=None) as bar:
        for turn in range(warmup + rounds):
            busy, elsewhere = _busy(), 0.0
            for index in random.permutation(len(names)):
                name = names[index]
                bar.set_description(name)
                started, started_busy = time.perf_counter(), time.process_time()
                worked = tasks[name]()
                if isinstance(worked, float):
                    elsewhere += worked
                else:
                    worked = time.process_time() - started_busy
                if turn >= warmup:
                    seconds[name].append(time.perf_counter() - started)
                    processor_seconds[name].append(worked)
                bar.update()
            if turn >= warmup:
                others.append(_others_share(busy, _busy(), elsewhere))
    return {
        "seconds": seconds,
        "processor_seconds": processor_seconds,
        "others_share": others,
    }


def medians(samples: Mapping[str, list[float]]) -> dict[str, float]:
    """Returns the median of each task's samples."""
    return {name: statistics.median(values) for name, values in samples.items()}


def describe_others(samples: Mapping[str, Any]) -> str:
    """Shows how much of the machine other processes took while `take_turns` ran."""
    shares = [share for share in samples["others_share"] if share is not None]
    return f"{statistics.median(shares):.0%}, at most {max(shares):.0%}" if shares else "unknown"


def _busy() -> tuple[float, float, float] | None:
    """Returns seconds: the clock, those that all processors were busy, those this process used."""
    try:
        first = pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    except OSError:
        return None
    user, nice, system, _, _, interrupts, soft, steal = map(int, first)
    ticks = user + nice + system + interrupts + soft + steal
    return time.perf_counter(), ticks / os.sysconf("SC_CLK_TCK"), time.process_time()


def _others_share(
    before: tuple[float, float, float] | None,
    after: tuple[float, float, float] | None,
    elsewhere: float,
) -> float | None:
    if before is None or after is None:
        return None
    clock, busy, processor = (late - early for early, late in zip(before, after, strict=True))
    others = busy - processor - elsewhere
    return round(min(1.0, max(0.0, others / (clock * (os.cpu_count() or 1)))), 3)
