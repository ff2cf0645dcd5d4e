"""The gate: what fails a build, what does not, and how often it is wrong."""

import dataclasses
import re

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


def judged_together(joint_ci):
    """A slowdown that is sure at one place, and of `joint_ci` at all places together."""
    comparison = change(2.4)
    row = dataclasses.replace(comparison.rows[0], speedup_ci=(0.7, 0.95), joint_ci=joint_ci)
    assert row.faster is False
    return dataclasses.replace(comparison, rows=(row,))


def throttled():
    hot = schema.Conditions(time="2026-11-21T10:00:00+00:00", thermal_status=2)
    rows = [row.model_copy(update={"after": hot}) for row in repetitions(2.0, seed=1)]
    return changes.between(assembled(repetitions(2.0)), assembled(rows))


def measured_at_fewer_places():
    two = [*repetitions(2.0), *repetitions(4.0, length=64)]
    return changes.between(assembled(two), assembled(repetitions(2.0, seed=1)))


def of_one_repetition():
    single = assembled(repetitions(2.0, number=1))
    return changes.between(single, single)


def without_the_teacher():
    models = [model_file(name, accuracy=0.9) for name in ("student", "teacher")]
    rows = repetitions(2.0)
    both = [*rows, *repetitions(4.0, model="teacher")]
    return changes.between(assembled(both, models=models), assembled(rows, models=models[:1]))


def answers_of(model, accuracy):
    """Answers of the device itself."""
    place = {"model": model, "sequence_length": 32, "threads": 1}
    against_host = {"max_abs_error": 0.1, "sqnr_db": 20.0, "argmax_agreement": 0.7}
    metrics = {"accuracy": accuracy}
    return schema.AnswerComparison(**place, **against_host, num_examples=100, metrics=metrics)


def in_turns_with_answers():
    names = ("old", "new")
    rows = [row for name in names for row in repetitions(2.0, model=name)]
    answers = [answers_of("old", 0.9), answers_of("new", 0.7)]
    models = [model_file(name, accuracy=0.9) for name in names]
    return changes.within(assembled(rows, models=models, answers=answers))


MAY_BE_HOT = gate.Limits(slower=0.05, allow_throttled=True)
FAILURE = schema.Failure(what="student at 64 tokens", error="the worker ended")
FIVE, SIZE, ACCURACY = {"slower": 0.05}, {"larger": 0.0}, {"less_accurate": 0.005}
STRICT = {"slower": 0.05, "refuse_undecided": True}
SLOWER = r"student at 32 tokens, 1 thread: .* slower \[\+.*more than 5%"
NOISY = "too noisy for a limit of 5%"
NOT_THERE = "student at 64 tokens, 1 thread: the new file was not measured there."
NO_TEACHER = "teacher: the new result lacks this file."
RULINGS = {  # name -> comparison, limits, the only reason to fail, the only warning
    "faster": (lambda: change(1.0), FIVE, "", ""),
    "as fast": (lambda: change(2.0), FIVE, "", ""),
    "slower within the limit": (lambda: change(2.06), FIVE, "", ""),
    "slower": (lambda: change(2.2), FIVE, SLOWER, ""),
    "much slower": (lambda: change(4.0), FIVE, SLOWER, ""),
    "slower by chance": (lambda: change(2.3, spread=0.15), FIVE, "", NOISY),
    "noisy": (lambda: change(2.0, spread=0.15), STRICT, NOISY, ""),
    "not noisy": (lambda: change(2.0, spread=0.0), STRICT, "", ""),
    "slower and noisy": (lambda: change(4.0, spread=0.05), STRICT, SLOWER, ""),
    "slower at one of many places": (lambda: judged_together((0.6, 1.01)), FIVE, "", NOISY),
    "slower at all places": (lambda: judged_together((0.6, 0.99)), FIVE, "slower", ""),
    "without limits": (lambda: change(9.0, size=9_000_000), {}, "", ""),
    "throttled": (throttled, FIVE, "throttled.*--allow-throttled", ""),
    "throttled as allowed": (throttled, {**FIVE, "allow_throttled": True}, "", ""),
    "sizes do not get hot": (throttled, SIZE, "", ""),
    "not measured": (
        lambda: change(2.0, failures=[FAILURE]),
        FIVE,
        "student at 64 tokens was not measured: the worker ended",
        "",
    ),
    "fewer places": (measured_at_fewer_places, FIVE, "", NOT_THERE),
    "fewer places for a size": (measured_at_fewer_places, SIZE, "", ""),
    "one repetition": (of_one_repetition, FIVE, "measure 2 or more", ""),
    "larger within the limit": (lambda: change(2.0, size=1_010_000), {"larger": 0.01}, "", ""),
    "larger": (lambda: change(2.0, size=1_010_001), {"larger": 0.01}, "bytes against", ""),
    "larger by a byte": (lambda: change(2.0, size=1_000_001), SIZE, "bytes against", ""),
    "smaller": (lambda: change(2.0, size=9), SIZE, "", ""),
    "as accurate": (lambda: change(2.0, old=0.9, accuracy=0.9), ACCURACY, "", ""),
    "within the limit": (lambda: change(2.0, old=0.9, accuracy=0.896), ACCURACY, "", ""),
    "less accurate": (lambda: change(2.0, old=0.9, accuracy=0.894), ACCURACY, "accuracy 0.89", ""),
    "more accurate": (lambda: change(2.0, old=0.9, accuracy=1), ACCURACY, "", ""),
    "of unknown accuracy": (
        lambda: change(2.0, accuracy=0.9),
        ACCURACY,
        "task's metric is not in both results",
        "",
    ),
    "less accurate on the device": (
        lambda: change(2.0, old=0.9, accuracy=0.9, answers=[answers_of("student", 0.7)]),
        ACCURACY,
        "accuracy 0.7000 against 0.9000",
        "",
    ),
    "each by its own answers": (
        in_turns_with_answers,
        ACCURACY,
        "new: accuracy 0.7000 against 0.9000",
        "",
    ),
    "a file less, by size": (without_the_teacher, SIZE, "", NO_TEACHER),
    "a file less, by accuracy": (without_the_teacher, ACCURACY, "", NO_TEACHER),
}


@pytest.mark.parametrize("name", RULINGS)
def test_a_comparison_passes_or_fails_for_one_reason(name):
    comparison, limits, *expected = RULINGS[name]
    ruling = gate.judge(comparison(), gate.Limits(**limits))
    assert ruling.passed is (expected[0] == "")
    for words, texts in zip(expected, (ruling.reasons, ruling.warnings), strict=True):
        assert len(texts) == (words != "")
        assert re.search(words, "".join(texts))


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


def test_the_files_of_one_result_pass_the_gate_by_their_paired_intervals():
    rounds = np.exp(np.random.default_rng(0).normal(0, 0.3, (3, 10)))  # a restless machine

    def rows(name, level):
        return [
            measurement(np.repeat(level * rounds[r], 10), model=name, repetition=r)
            for r in range(3)
        ]

    def ruling(level):
        value = assembled([*rows("old", 2.0), *rows("new", level)])
        return gate.judge(changes.within(value), MAY_BE_HOT)

    assert ruling(2.0).passed
    assert ruling(2.08).passed
    assert not ruling(2.2).passed


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
        failed += not gate.judge(changes.between(run(1.0), run(1 + slowdown)), MAY_BE_HOT).passed
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
        failed += not gate.judge(changes.within(result), MAY_BE_HOT).passed
    return failed / trials


@pytest.mark.slow
@pytest.mark.parametrize("places, process, at_most", [(12, 0.01, 0.0), (12, 0.06, 0.15)])
def test_an_unchanged_file_seldom_fails_at_any_of_many_places(places, process, at_most):
    # At most 0.025 of builds by construction: three of 20 come once in a hundred.
    assert share_failed_in_turns(0.0, process, places=places, trials=20) <= at_most


def test_a_single_case_of_many_that_is_much_slower_fails():
    assert share_failed_in_turns(0.8, 0.005, places=12, slow_places=1, trials=6) == 1.0
