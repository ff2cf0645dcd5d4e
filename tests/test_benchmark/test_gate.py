"""The gate: what fails a build, what does not, and how often it is wrong."""

import dataclasses

import numpy as np
import pytest
from benchmark_results import (
    HOST,
    RUNTIME,
    assembled,
    latencies,
    measurement,
    model_file,
    repetitions,
)

from tfdistill.benchmark import schema
from tfdistill.benchmark.comparing import changes, gate
from tfdistill.benchmark.statistics import summaries


def change(level, *, seed=1, old=None, size=1_000_000, accuracy=None, **options):
    """From 2 ms to `level` ms."""
    noise = {"spread": options.pop("spread", 0.01)}
    before = assembled(repetitions(2.0, seed=0, **noise), models=[model_file(accuracy=old)])
    rows = repetitions(level, seed=seed, **noise)
    models = [model_file(size_bytes=size, accuracy=accuracy)]
    return changes.between(before, assembled(rows, models=models, **options))


FIVE = gate.Limits(slower=0.05)


@pytest.mark.parametrize(
    "level, passed", [(1.0, True), (2.0, True), (2.06, True), (2.2, False), (4.0, False)]
)
def test_a_file_that_is_slower_by_more_than_the_limit_fails(level, passed):
    ruling = gate.judge(change(level), FIVE)
    assert ruling.passed is passed
    if not passed:
        (reason,) = ruling.reasons
        assert reason.startswith("student at 32 tokens, 1 thread: ")
        assert "slower [+" in reason and reason.endswith("more than 5%")


def test_a_slowdown_that_may_be_chance_does_not_fail_but_is_told():
    comparison = change(2.3, spread=0.15)
    assert comparison.rows[0].slowdown > 0.05
    ruling = gate.judge(comparison, FIVE)
    assert ruling.passed
    assert "too noisy for a limit of 5%" in ruling.warnings[0]


def test_measurements_too_noisy_for_the_limit_fail_on_request():
    strict = gate.Limits(slower=0.05, refuse_undecided=True)
    assert not gate.judge(change(2.0, spread=0.15), strict).passed
    assert gate.judge(change(2.0, spread=0.0), strict).passed


def test_a_clear_failure_is_not_called_undecided_as_well():
    ruling = gate.judge(change(4.0, spread=0.05), gate.Limits(slower=0.02, refuse_undecided=True))
    assert len(ruling.reasons) == 1


def test_many_places_are_held_to_the_interval_of_all_of_them_together():
    comparison = change(2.4)
    row = dataclasses.replace(comparison.rows[0], speedup_ci=(0.7, 0.95), joint_ci=(0.6, 1.01))
    assert row.faster is False
    assert gate.judge(dataclasses.replace(comparison, rows=(row,)), FIVE).passed
    row = dataclasses.replace(row, joint_ci=(0.6, 0.99))
    assert not gate.judge(dataclasses.replace(comparison, rows=(row,)), FIVE).passed


def test_without_limits_everything_passes():
    limits = gate.Limits()
    assert not limits
    assert gate.judge(change(9.0, size=9_000_000), limits) == gate.Ruling()


def test_a_throttled_measurement_is_refused_unless_that_is_allowed():
    hot = schema.Conditions(time="2026-11-21T10:00:00+00:00", thermal_status=2)
    rows = [row.model_copy(update={"after": hot}) for row in repetitions(2.0, seed=1)]
    comparison = changes.between(assembled(repetitions(2.0)), assembled(rows))
    (reason,) = gate.judge(comparison, FIVE).reasons
    assert "throttled" in reason and "--allow-throttled" in reason
    assert gate.judge(comparison, gate.Limits(slower=0.05, allow_throttled=True)).passed
    assert gate.judge(comparison, gate.Limits(larger=0.0)).passed  # sizes do not get hot


def test_what_could_not_be_measured_fails():
    failure = schema.Failure(what="student at 64 tokens", error="the worker ended")
    (reason,) = gate.judge(change(2.0, failures=[failure]), FIVE).reasons
    assert reason == "student at 64 tokens was not measured: the worker ended"


def test_a_place_that_only_the_old_file_has_is_a_warning():
    two = [*repetitions(2.0), *repetitions(4.0, length=64)]
    comparison = changes.between(assembled(two), assembled(repetitions(2.0, seed=1)))
    ruling = gate.judge(comparison, FIVE)
    assert ruling.passed
    assert ruling.warnings == (
        "student at 64 tokens, 1 thread: the new file was not measured there.",
    )
    assert gate.judge(comparison, gate.Limits(larger=0.0)).warnings == ()


def test_one_repetition_fails_the_gate():
    single = assembled(repetitions(2.0, number=1))
    (reason,) = gate.judge(changes.between(single, single), FIVE).reasons
    assert "measure 2 or more" in reason


@pytest.mark.parametrize(
    "size, limit, passed",
    [(1_010_000, 0.01, True), (1_010_001, 0.01, False), (1_000_001, 0.0, False), (9, 0.0, True)],
)
def test_a_larger_file_fails(size, limit, passed):
    assert gate.judge(change(2.0, size=size), gate.Limits(larger=limit)).passed is passed


@pytest.mark.parametrize(
    "old, new, passed", [(0.9, 0.9, True), (0.9, 0.896, True), (0.9, 0.894, False), (0.9, 1, True)]
)
def test_a_less_accurate_file_fails(old, new, passed):
    comparison = change(2.0, old=old, accuracy=new)
    assert gate.judge(comparison, gate.Limits(less_accurate=0.005)).passed is passed


def test_accuracy_that_is_not_known_fails():
    (reason,) = gate.judge(change(2.0, accuracy=0.9), gate.Limits(less_accurate=0.005)).reasons
    assert "task's metric is not in both results" in reason


@pytest.mark.parametrize(
    "part, other, told",
    [
        ("task", {"name": "trec"}, "task toy and trec"),
        ("task", {"labels": ("no", "yes")}, "labels () and (no, yes)"),
        ("parity", {"num_examples": 99}, "100 and 99 examples"),
    ],
)
def test_accuracy_on_other_data_fails(part, other, told):
    before, after = (model_file(accuracy=0.9) for _ in range(2))
    assert after.manifest is not None
    changed = getattr(after.manifest, part).model_copy(update=other)
    card = after.manifest.model_copy(update={part: changed})
    results = [
        assembled(repetitions(2.0, seed=seed), models=[model])
        for seed, model in enumerate([before, after.model_copy(update={"manifest": card})])
    ]
    comparison = changes.between(*results)
    (reason,) = gate.judge(comparison, gate.Limits(less_accurate=1.0)).reasons
    assert "accuracy of other data" in reason and told in reason
    assert f"student: metrics of other data ({told})." in comparison.notes
    assert gate.judge(comparison, gate.Limits(larger=0.0)).passed


@pytest.mark.parametrize("limits", [{"larger": 0.0}, {"less_accurate": 0.0}])
def test_a_file_that_the_new_result_lacks_is_a_warning_for_every_limit(limits):
    models = [model_file(name, accuracy=0.9) for name in ("student", "teacher")]
    rows = repetitions(2.0)
    both = [*rows, *repetitions(4.0, model="teacher")]
    comparison = changes.between(assembled(both, models=models), assembled(rows, models=models[:1]))
    ruling = gate.judge(comparison, gate.Limits(**limits))
    assert ruling.passed
    assert ruling.warnings == ("teacher: the new result lacks this file.",)


def answers_of(model, accuracy):
    """Answers of the device itself."""
    place = {"model": model, "sequence_length": 32, "threads": 1}
    against_host = {"max_abs_error": 0.1, "sqnr_db": 20.0, "argmax_agreement": 0.7}
    metrics = {"accuracy": accuracy}
    return schema.AnswerComparison(**place, **against_host, num_examples=100, metrics=metrics)


def test_accuracy_on_the_device_counts_before_that_of_the_export():
    comparison = change(2.0, old=0.9, accuracy=0.9, answers=[answers_of("student", 0.7)])
    (reason,) = gate.judge(comparison, gate.Limits(less_accurate=0.005)).reasons
    assert "accuracy 0.7000 against 0.9000" in reason


def test_each_file_of_a_result_has_its_own_accuracy():
    names = ("old", "new")
    rows = [row for name in names for row in repetitions(2.0, model=name)]
    answers = [answers_of("old", 0.9), answers_of("new", 0.7)]
    models = [model_file(name, accuracy=0.9) for name in names]
    comparison = changes.within(assembled(rows, models=models, answers=answers))
    (reason,) = gate.judge(comparison, gate.Limits(less_accurate=0.005)).reasons
    assert "new: accuracy 0.7000 against 0.9000" in reason


def test_the_files_of_one_result_pass_the_gate_by_their_paired_intervals():
    rounds = np.exp(np.random.default_rng(0).normal(0, 0.3, (3, 10)))  # a restless machine

    def rows(name, level):
        return [
            measurement(np.repeat(level * rounds[r], 10), model=name, repetition=r)
            for r in range(3)
        ]

    def ruling(level):
        value = assembled([*rows("old", 2.0), *rows("new", level)])
        return gate.judge(changes.within(value), gate.Limits(slower=0.05, allow_throttled=True))

    assert ruling(2.0).passed
    assert ruling(2.08).passed
    assert not ruling(2.2).passed


NOISY = gate.Limits(slower=0.05, allow_throttled=True)


def result_of(rows, *names, **more):
    """A result of files without the intervals of their medians, which take long."""
    return schema.Result(
        kind="host",
        backend="litert",
        created="2026-11-21T10:00:00+00:00",
        tfdistill_version="0.1.0",
        device=HOST,
        runtime=RUNTIME,
        models=tuple(map(model_file, names)),
        measurements=tuple(rows),
        **more,
    )


def share_failed(slowdown, process, *, trials=50, lengths=(16, 32, 64), seed=0):
    """How often the gate of 5% fails when all lengths are slower by `slowdown`."""
    rng = np.random.default_rng(seed)

    def run(factor):
        rows = []
        for length in lengths:
            drawn = latencies(rng, level=factor * length, process=process, blocks=5, runs=8)
            rows += [
                measurement(d.ravel(), length=length, repetition=r, block_runs=8)
                for r, d in enumerate(drawn)
            ]
        return result_of(rows, "student")

    failed = 0
    for _ in range(trials):
        failed += not gate.judge(changes.between(run(1.0), run(1 + slowdown)), NOISY).passed
    return failed / trials


@pytest.mark.slow
@pytest.mark.parametrize("process, at_most", [(0.01, 0.0), (0.03, 0.05), (0.1, 0.1)])
def test_an_unchanged_file_seldom_fails_however_noisy_the_machine(process, at_most):
    # By construction at most 0.025 over all places; 50 trials have a deviation of 0.02.
    assert share_failed(0.0, process) <= at_most


def share_failed_in_turns(slowdown, process, *, places, trials, slow_places=None, seed=0):
    """As `share_failed`, of two files that took turns at many places; some may be slower."""
    rng = np.random.default_rng(seed)
    failed = 0
    for _ in range(trials):
        rows, summary = [], []
        for threads in range(1, places + 1):
            moments = np.exp(rng.normal(0, 0.05, (3, 4, 1)))  # what slows the machine slows both
            changed = slow_places is None or threads <= slow_places
            levels = {"old": 1.0, "new": 1 + slowdown * changed}
            for name, level in levels.items():
                drawn = moments * latencies(
                    rng, level=level, process=process, blocks=4, runs=6, noise=0.01
                )
                at = {"model": name, "threads": threads, "block_runs": 6}
                at["preemptions"] = (0,) * drawn[0].size  # bursts that no other program made
                rows += [
                    measurement(d.ravel(), repetition=r, processor_ms=tuple(d.ravel()), **at)
                    for r, d in enumerate(drawn)
                ]
                shown = {"p50_ms": float(np.median(drawn)), "p50_ci_ms": (0.0, 9.0), "n": 72}
                shown |= {"min_ms": 0.0, "max_ms": 9.0, "mean_ms": 1.0, "sequence_length": 32}
                shown |= {"repetition_p50_ms": (1.0, 1.0, 1.0)}
                summary.append(schema.Summary(model=name, threads=threads, **shown))
        compared = summaries.comparisons(summaries.by_case(rows), "old")
        result = result_of(rows, "old", "new", summary=tuple(summary), comparisons=compared)
        failed += not gate.judge(changes.within(result), NOISY).passed
    return failed / trials


@pytest.mark.slow
@pytest.mark.parametrize("places, process, at_most", [(12, 0.01, 0.0), (12, 0.06, 0.15)])
def test_an_unchanged_file_seldom_fails_at_any_of_many_places(places, process, at_most):
    # At most 0.025 of builds by construction: three of 20 come once in a hundred.
    assert share_failed_in_turns(0.0, process, places=places, trials=20) <= at_most


def test_a_single_case_of_many_that_is_much_slower_fails():
    assert share_failed_in_turns(0.8, 0.005, places=12, slow_places=1, trials=6) == 1.0
