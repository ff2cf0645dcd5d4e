"""A history of many cases: how many changes are false discoveries, and which are found."""

import benchmark_results as made
import numpy as np
import pytest

from tfdistill.benchmark import schema
from tfdistill.benchmark.comparing import history


def run(rng, day, factor, *, process, places=20):
    """A result of many places; latencies as a machine gives them."""
    rows, summary = [], []
    for threads in range(1, places + 1):
        drawn = made.latencies(rng, level=factor, process=process, blocks=4, runs=6)
        at = {"threads": threads, "block_runs": 6}
        rows += [made.measurement(d.ravel(), repetition=r, **at) for r, d in enumerate(drawn)]
        shown = {"p50_ms": float(np.median(drawn)), "p50_ci_ms": (0.0, 9.0), "n": drawn.size}
        shown |= {"min_ms": 0.0, "max_ms": 9.0, "mean_ms": 1.0}
        summary.append(
            schema.Summary(model="student", sequence_length=32, threads=threads, **shown)
        )
    return schema.Result(
        kind="host",
        backend="litert",
        created=f"2026-11-{day:02}T00:00:00+00:00",
        tfdistill_version="0",
        device=made.HOST,
        runtime=made.RUNTIME,
        models=(made.model_file(),),
        measurements=tuple(rows),
        summary=tuple(summary),
    )


def marked(results):
    """The changes that a history believes, and those that it would if each were alone."""
    found = history.trace([(f"{i}.json", value) for i, value in enumerate(results)])
    changes = [entry for entry in found.entries if entry.change is not None]
    believed = [entry for entry in changes if entry.beyond_chance]
    return believed, [e for e in changes if e.p_value is not None and e.p_value < 0.05]


@pytest.mark.parametrize("process", [0.01, 0.05])
def test_an_unchanged_file_is_seldom_marked_at_any_of_many_places(process):
    rng = np.random.default_rng(1)
    false, alone, trials = 0, 0, 25
    for _ in range(trials):
        believed, single = marked([run(rng, day, 1.0, process=process) for day in (1, 2)])
        false, alone = false + bool(believed), alone + bool(single)
    # At most 0.05 by construction, and 25 trials have a deviation of 0.044; uncorrected, over 0.5.
    assert false / trials <= 0.15
    assert alone / trials >= 0.2


def test_a_file_that_is_slower_everywhere_is_marked_everywhere():
    rng = np.random.default_rng(2)
    believed, _ = marked([run(rng, 1, 1.0, process=0.02), run(rng, 2, 1.1, process=0.02)])
    assert len(believed) >= 18  # of 20


def test_one_case_of_many_that_is_much_slower_is_marked_and_it_alone():
    rng = np.random.default_rng(3)
    old, new = run(rng, 1, 1.0, process=0.01), run(rng, 2, 1.0, process=0.01)
    slow = [
        row.model_copy(update={"samples_ms": tuple(1.3 * s for s in row.samples_ms)})
        if row.threads == 7
        else row
        for row in new.measurements
    ]
    believed, _ = marked([old, new.model_copy(update={"measurements": tuple(slow)})])
    assert [entry.case.threads for entry in believed] == [7]


def test_each_result_is_judged_by_its_own_places():
    """What comes later changes no verdict."""
    rng = np.random.default_rng(4)
    results = [
        run(rng, day, f, process=0.02, places=6) for day, f in ((1, 1.0), (2, 1.1), (3, 1.1))
    ]
    first, _ = marked(results[:2])
    both, _ = marked(results)
    assert [e.case for e in both if e.created == results[1].created] == [e.case for e in first]


def test_what_is_chance_among_many_is_said():
    rng = np.random.default_rng(5)
    for _ in range(20):
        results = [run(rng, day, 1.0, process=0.02) for day in (1, 2)]
        believed, single = marked(results)
        if single and not believed:
            break
    found = history.trace([(f"{i}.json", value) for i, value in enumerate(results)])
    assert "within chance of so many cases" in history.format_text(found)
