"""The measuring loop: turns, failures, throttling, what is measured one file at a time, Ctrl-C."""

import pytest
from fake_backend import Backend

from tfdistill import errors
from tfdistill.benchmark import measuring, schema
from tfdistill.benchmark.backend import Findings

WARM = [0, 0, 2]  # before everything, before the first repetition, after it


def measured(backend):
    """Measures; returns what was found and whether it came to its end."""
    findings = Findings()
    with measuring.progress_bar([backend], shown=False) as bar:
        finished = measuring.measure(backend, findings, bar)
    return findings, finished


def breaks(when, error=None):
    """An `act` that raises for these (what, action) pairs, and lists all that it is asked."""
    actions = []

    def act(what, action):
        actions.append((what, action))
        if when(str(what), action):
            raise error or errors.BenchmarkError("broken")

    return act, actions


def test_files_take_turns_block_by_block_in_random_order_that_follows_from_the_seed():
    backend = Backend("ab", runs=20, rounds=10, repetitions=2)
    findings, finished = measured(backend)
    assert finished and findings.failures == []
    rounds = [backend.blocks[i : i + 2] for i in range(0, len(backend.blocks), 2)]
    assert len(rounds) == 2 * 10
    for (number, one, runs), (same, other, _) in rounds:
        assert number == same and {one, other} == {"a", "b"} and runs == 2
    assert {pair[0][1] for pair in rounds} == {"a", "b"}  # not always in the same order
    assert [len(row.samples_ms) for row in findings.measurements] == [20] * 4
    assert not backend.alive

    def order(seed):
        backend = Backend("abc", runs=20, rounds=10, seed=seed)
        measured(backend)
        return [name for _, name, _ in backend.blocks]

    assert order(1) == order(1) != order(2)


@pytest.mark.parametrize("action", ["start", "block", "finish"])
def test_a_file_that_fails_leaves_the_others_to_continue_and_is_not_tried_again(action):
    act, actions = breaks(lambda what, doing: what.startswith("b,") and doing == action)
    backend = Backend("abc", act, repetitions=3)
    findings, finished = measured(backend)
    assert finished
    assert [(f.what, f.error) for f in findings.failures] == [
        ("b, 8 tokens, 1 thread(s), xnnpack", "broken")
    ]
    assert sorted((m.model, m.repetition) for m in findings.measurements) == [
        (name, repetition) for name in "ac" for repetition in range(3)
    ]
    starts = [what for what, doing in actions if doing == "start" and what.startswith("b,")]
    assert len(starts) == 1
    assert not backend.alive


def test_each_repetition_begins_after_its_rest():
    act, actions = breaks(lambda what, action: False)
    measured(Backend("a", act, repetitions=3, cool_down_seconds=7.5))
    shown = [action if action == "start" else what for what, action in actions]
    assert [entry for entry in shown if entry in ("start", 7.5)] == [7.5, "start"] * 3


def test_a_throttled_repetition_counts_and_is_noted():
    backend = Backend("a", repetitions=1)
    backend.statuses = iter(WARM)
    findings, _ = measured(backend)
    assert [row.after.thermal_status for row in findings.measurements] == [2]
    assert "The device throttled during some repetitions." in findings.notes


def test_heat_that_comes_and_goes_within_a_repetition_is_seen_and_unknown_heat_is_not_asked_for():
    actions = []

    def counting(statuses):
        for status in statuses:
            actions.append(status)
            yield status

    backend = Backend("ab", repetitions=1, rounds=4)
    backend.statuses = counting([0, 0, 0, 3, 1, 0])  # at the start, before, between rounds, after
    findings, _ = measured(backend)
    assert {row.after.thermal_status for row in findings.measurements} == {3}
    assert {row.before.thermal_status for row in findings.measurements} == {0}
    assert len(actions) == 6
    unknown = Backend("a", repetitions=1, rounds=4)
    unknown.statuses = counting([None] * 4)
    findings, _ = measured(unknown)
    assert [row.after.thermal_status for row in findings.measurements] == [None]
    assert len(actions) == 6 + 4


@pytest.mark.parametrize("action", ["start", "block"])
def test_a_lost_device_ends_everything_and_keeps_what_is_finished(action):
    def last(what, doing):
        return doing == action and len(backend.blocks) >= 4

    act, _ = breaks(last, errors.DeviceLostError("gone"))
    backend = Backend("ab", act)
    findings, finished = measured(backend)
    assert finished  # nobody interrupted it
    assert {row.repetition for row in findings.measurements} >= {0}
    assert findings.failures == [schema.Failure(what="the rest on a fake", error="gone")]
    assert findings.before is not None and findings.after is None
    assert not backend.alive


def test_an_interruption_keeps_what_is_finished_and_nothing_measured_is_an_error_without_one():
    act, _ = breaks(lambda what, action: len(backend.blocks) == 6, KeyboardInterrupt("left: x"))
    backend = Backend("ab", act)
    findings, finished = measured(backend)
    assert not finished and not backend.alive
    assert {row.repetition for row in findings.measurements} == {0}
    cleaning = schema.Failure(what="cleaning up", error="left: x")
    assert findings.failures == [measuring.INTERRUPTED, cleaning]
    (result,) = measuring.results_of([(backend, findings)], finished=False, baseline="a")
    assert len(result.summary) == 2 and len(result.comparisons) == 1
    act, _ = breaks(lambda what, action: action == "open")
    backend = Backend("ab", act)
    findings, finished = measured(backend)
    with pytest.raises(errors.BenchmarkError, match=r"\Abroken\Z"):
        measuring.results_of([(backend, findings)], finished=finished, baseline="a")
    assert measuring.results_of([(backend, findings)], finished=False, baseline="a") == []
