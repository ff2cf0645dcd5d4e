"""Two results against one another: which may be, what is paired, and what may be said.

Texts of comparisons are held in files under texts/compared/: see tests/golden_page.py.
"""

import pathlib

import golden_page
import pytest
from benchmark_results import HOST, PHONE, RUNTIME, assembled, measurement, model_file, repetitions

from tfdistill import errors
from tfdistill.benchmark import schema
from tfdistill.benchmark.comparing import changes, comparison_text, matching
from tfdistill.benchmark.settings import Settings
from tfdistill.benchmark.statistics import stats

TEXTS = pathlib.Path(__file__).parent / "texts" / "compared"


def one(level=2.0, *, seed=0, name="student", **more):
    """A result of one file at 32 and 64 tokens."""
    rows = [
        *repetitions(level, seed=seed, model=name),
        *repetitions(2 * level, seed=seed + 100, model=name, length=64),
    ]
    return assembled(rows, **more)


def phone(level=2.0, **more):
    options = {"kind": "phone", "backend": "benchmark_model", "device": PHONE, **more}
    return one(level, **options)


def test_every_case_of_both_is_compared_with_the_interval_of_separate_runs():
    old, new = one(2.0), one(1.0, seed=1)
    comparison = changes.between(old, new)
    assert [(r.baseline, r.case.model, r.case.sequence_length) for r in comparison.rows] == [
        ("student", "student", 32),
        ("student", "student", 64),
    ]
    row = comparison.rows[0]
    sides = [
        [stats.blocks_of(m.samples_ms, 10) for m in value.measurements[:3]] for value in (old, new)
    ]
    apart = stats.compare_unpaired(*sides)
    assert row.speedup_ci == apart.interval()
    assert row.joint_ci == apart.interval(0.975)  # two rows
    assert (row.old_p50_ms, row.new_p50_ms) == (old.summary[0].p50_ms, new.summary[0].p50_ms)
    assert row.speedup == row.old_p50_ms / row.new_p50_ms
    assert row.slowdown == pytest.approx(row.new_p50_ms / row.old_p50_ms - 1)
    assert row.slowdown_ci[0] < row.slowdown < row.slowdown_ci[1] < 0
    assert (row.faster, row.verdict) == (True, "faster")


def of_files(*names, **more):
    """A result of files at one length."""
    rows = [row for name in names for row in repetitions(1.0, model=name, **more)]
    return assembled(rows)


OTHER_HOST = HOST.model_copy(update={"id": "c" * 12})
NOTHING = assembled([measurement(())], models=[model_file()])
NO_CASE = "cases of the results: expected a length"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (of_files("a", "b"), one(name="c"), "one name that both have"),
        (one(), of_files("student", length=16), NO_CASE),
        (one(), of_files("student", delegate="none"), NO_CASE),
        (one(), NOTHING, NO_CASE),
        (one(), phone(), "two of one kind, received one of a host and one of a phone"),
        (one(), one(backend="app"), "two of one backend, received litert and app"),
        (one(), one(device=OTHER_HOST), "two of one device"),
    ],
)
def test_results_that_do_not_belong_together_are_not_compared(old, new, message):
    with pytest.raises(errors.BenchmarkError, match=message):
        changes.between(old, new)


@pytest.mark.parametrize("new", [phone(), one(backend="app")])
def test_kinds_and_backends_are_not_mixed(new):
    with pytest.raises(errors.BenchmarkError, match="results: expected two of one"):
        changes.between(one(), new)


@pytest.mark.parametrize(
    "change, same",
    [
        ({}, True),
        ({"os": "Android 15 (API 35)", "fingerprint": "google/shiba/shiba:15/B/2:user"}, True),
        ({"id": "f" * 12}, False),
        ({"id": None}, True),
        ({"id": None, "fingerprint": "google/husky/husky:14/A/1:user"}, False),
        ({"id": None, "name": "Google Pixel 8 Pro"}, False),
        ({"id": None, "fingerprint": None, "soc": None}, True),
    ],
)
def test_a_device_is_known_by_its_id_or_else_by_its_traits(change, same):
    other = PHONE.model_copy(update=change)
    assert (matching.other_device(PHONE, other) is None) is same
    assert (matching.other_device(other, PHONE) is None) is same


def test_the_files_of_one_result_are_compared_as_it_says():
    rows = [
        row
        for seed, (name, level) in enumerate((("old", 4.0), ("new", 2.0), ("same", 4.0)))
        for row in repetitions(level, seed=seed, model=name)
    ]
    value = assembled(rows)
    comparison = changes.within(value)
    assert [(row.case.model, row.speedup, row.speedup_ci) for row in comparison.rows] == [
        (c.candidate, c.speedup, c.speedup_ci) for c in value.comparisons
    ]
    assert [row.faster for row in comparison.rows] == [True, None]
    for row in comparison.rows:
        assert row.joint_ci[0] <= row.speedup_ci[0] < row.speedup_ci[1] <= row.joint_ci[1]


def test_a_single_file_and_cases_that_the_summary_lacks_are_not_compared():
    with pytest.raises(errors.BenchmarkError, match="a single result: expected two or more files"):
        changes.within(one())
    # As in a file that somebody else wrote, or changed by hand.
    value = of_files("old", "new")
    for summary_row in value.summary:
        damaged = value.model_copy(update={"summary": (summary_row,)})
        with pytest.raises(errors.BenchmarkError, match="cases that the summary has"):
            changes.within(damaged)


def in_circumstances():
    runtime = RUNTIME.model_copy(update={"version": "2.4.0", "packages": {"numpy": "2.1"}})
    settings = Settings(warmup=3, seed=9, threads=(1,), lengths=(32, 64))
    device = HOST.model_copy(update={"kernel": "Linux 6.2"})
    return one(runtime=runtime, settings=settings, device=device)


def throttled(name="student"):
    hot = schema.Conditions(time="2026-11-21T10:00:00+00:00", thermal_status=2)
    return [row.model_copy(update={"after": hot}) for row in repetitions(2.0, model=name)]


def of_spread(level, seed):
    return assembled(repetitions(level, seed=seed, spread=0.15))


def in_turns(old, **of_old):
    """The old file, which may have a length more than the new one."""
    return assembled([*old, *repetitions(2.0, model="new"), *of_old.get("more", ())])


COMPARED = {
    "of other sizes and metrics": lambda: changes.between(
        one(models=[model_file(size_bytes=2_000_000, accuracy=0.9)]),
        one(models=[model_file(size_bytes=1_500_000, accuracy=0.91)], seed=5),
    ),
    "slower": lambda: changes.between(one(2.0), one(3.0, seed=7)),
    "faster": lambda: changes.between(one(2.0), one(1.5, seed=7)),
    "chance": lambda: changes.between(of_spread(2.0, 1), of_spread(2.2, 2)),
    "paired by name": lambda: changes.between(of_files("teacher", "student"), one(2.0)),
    "paired by number": lambda: changes.between(one(name="v1"), one(name="v2")),
    "other circumstances": lambda: changes.between(one(), in_circumstances()),
    "one repetition before": lambda: changes.between(of_files("student", number=1), one(1.0)),
    "one repetition after": lambda: changes.between(one(1.0), of_files("student", number=1)),
    "throttled before": lambda: changes.between(assembled(throttled()), one()),
    "throttled after": lambda: changes.between(one(), assembled(throttled())),
    "in turns": lambda: changes.within(in_turns(repetitions(4.0, model="old"))),
    "in turns, throttled": lambda: changes.within(in_turns(throttled("old"))),
    "in turns, a length less": lambda: changes.within(
        in_turns(repetitions(2.0, model="old"), more=repetitions(4.0, model="old", length=64))
    ),
    "in turns, a length more": lambda: changes.within(
        in_turns(repetitions(2.0, model="old"), more=repetitions(1.0, model="new", length=16))
    ),
}


@pytest.mark.parametrize("name", COMPARED)
def test_a_comparison_is_the_text_of_its_name(name):
    text = comparison_text.format_text(COMPARED[name]())
    file = name.replace(" ", "_").replace(",", "")
    golden_page.check(text + "\n", TEXTS / f"{file}.txt")
