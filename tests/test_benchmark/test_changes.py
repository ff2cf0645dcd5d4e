"""Two results against one another: which may be, what is paired, and what may be said."""

import pytest
from benchmark_results import HOST, PHONE, RUNTIME, assembled, measurement, model_file, repetitions

from tfdistill import errors
from tfdistill.benchmark import schema
from tfdistill.benchmark.comparing import changes, comparison_text, gate, matching
from tfdistill.benchmark.settings import Settings
from tfdistill.benchmark.statistics import stats


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


@pytest.mark.parametrize(
    "level, verdict",
    [(3.0, "slower"), (2.0, "no difference that these runs can tell"), (1.5, "faster")],
)
def test_the_verdict_is_what_the_interval_says(level, verdict):
    rows = changes.between(one(2.0), one(level, seed=7)).rows
    assert {row.verdict for row in rows} == {verdict}


def test_a_spread_between_processes_makes_small_changes_chance():
    def spread(level, seed):
        return assembled(repetitions(level, seed=seed, spread=0.15))

    (row,) = changes.between(spread(2.0, 1), spread(2.2, 2)).rows
    assert row.faster is None
    assert row.speedup_ci[1] / row.speedup_ci[0] > 1.3


def test_files_are_paired_by_name():
    comparison = changes.between(of_files("teacher", "student"), one(2.0))
    assert [row.case.model for row in comparison.rows] == ["student"]
    assert [(p.model, p.sequence_length) for p in comparison.only_old] == [("teacher", 32)]
    assert [(p.model, p.sequence_length) for p in comparison.only_new] == [("student", 64)]


def test_the_only_files_of_two_results_are_paired_whatever_they_are_called():
    rows = changes.between(one(name="v1"), one(name="v2")).rows
    assert {(row.baseline, row.case.model) for row in rows} == {("v1", "v2")}


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
def test_no_option_mixes_kinds_or_backends(new):
    with pytest.raises(errors.BenchmarkError, match="results: expected two of one"):
        changes.between(one(), new, devices_may_differ=True)


def test_another_device_is_shown_on_request_but_never_called_faster():
    other = one(0.5, device=OTHER_HOST)
    rows = changes.between(one(2.0), other, devices_may_differ=True).rows
    assert {row.faster for row in rows} == {None}
    assert {row.verdict for row in rows} == {"another device: no conclusion about the files"}
    assert rows[0].speedup_ci[0] > 1


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


def test_other_circumstances_are_named():
    runtime = RUNTIME.model_copy(update={"version": "2.4.0", "packages": {"numpy": "2.1"}})
    new = one(
        runtime=runtime,
        settings=Settings(warmup=3, seed=9, threads=(1,), lengths=(32, 64)),
        device=HOST.model_copy(update={"kernel": "Linux 6.2"}),
    )
    (differing,) = [n for n in changes.between(one(), new).notes if n.startswith("Not only")]
    assert differing == (
        "Not only the files differ: kernel: unknown -> Linux 6.2; runtime version: 2.3.0 -> 2.4.0; "
        "numpy: unknown -> 2.1; warmup: 10 -> 3."
    )


def test_the_same_file_is_said_to_be_the_same():
    assert changes.between(one(), one(seed=1)).notes == ("The same file in both results: student.",)


def test_one_repetition_on_either_side_cannot_tell():
    single = assembled(repetitions(9.0, number=1))
    for old, new in ((single, one(1.0)), (one(1.0), single)):
        (row,) = changes.between(old, new).rows
        assert (row.speedup_ci, row.joint_ci, row.faster) == (None, None, None)
        assert row.verdict == "one repetition cannot tell a difference"


def test_throttling_of_either_side_is_marked():
    hot = schema.Conditions(time="2026-11-21T10:00:00+00:00", thermal_status=2)
    rows = [row.model_copy(update={"after": hot}) for row in repetitions(2.0)]
    throttled = assembled(rows)
    assert changes.between(throttled, one()).rows[0].throttled
    assert changes.between(one(), throttled).rows[0].throttled
    assert not changes.between(one(), one(seed=3)).rows[0].throttled


@pytest.fixture(scope="module")
def turns():
    rows = []
    for length in (32, 64):
        for seed, (name, level) in enumerate((("old", 4.0), ("new", 2.0), ("same", 4.0))):
            rows += repetitions(level, seed=seed, model=name, length=length)
    rows += repetitions(1.0, model="new", length=16)
    return assembled(rows)


def test_the_files_of_one_result_are_compared_as_it_says(turns):
    comparison = changes.within(turns)
    assert [
        (row.baseline, row.case.model, row.case.sequence_length, row.speedup, row.speedup_ci)
        for row in comparison.rows
    ] == [(c.baseline, c.candidate, c.sequence_length, c.speedup, c.speedup_ci)
          for c in turns.comparisons]  # fmt: skip
    assert [row.faster for row in comparison.rows] == [True, True, None, None]
    assert [pair.new.name for pair in comparison.pairs] == ["new", "same"]
    assert [place.sequence_length for place in comparison.only_new] == [16]
    for row in comparison.rows:
        assert row.joint_ci[0] <= row.speedup_ci[0] < row.speedup_ci[1] <= row.joint_ci[1]


def test_a_baseline_that_throttled_marks_the_rows_of_its_result():
    hot = schema.Conditions(time="2026-11-21T10:00:00+00:00", thermal_status=2)
    old, new = (repetitions(2.0, model=name) for name in ("old", "new"))
    rows = [*(row.model_copy(update={"after": hot}) for row in old), *new]
    (row,) = changes.within(assembled(rows)).rows
    assert row.throttled and not changes.within(assembled([*old, *new])).rows[0].throttled


def test_a_case_of_the_baseline_alone_is_told():
    """As where the new file failed at a length: the gate warns of it."""
    rows = [*repetitions(2.0, model="old"), *repetitions(2.0, model="new")]
    rows += repetitions(4.0, model="old", length=64)
    comparison = changes.within(assembled(rows))
    assert [(p.model, p.sequence_length) for p in comparison.only_old] == [("old", 64)]
    ruling = gate.judge(comparison, gate.Limits(slower=0.05))
    assert ruling.warnings == ("old at 64 tokens, 1 thread: the new file was not measured there.",)


def test_one_result_of_one_file_compares_nothing():
    with pytest.raises(errors.BenchmarkError, match="a single result: expected two or more files"):
        changes.within(one())


def test_the_text_names_both_results_sizes_and_metrics():
    old = one(models=[model_file(size_bytes=2_000_000, accuracy=0.9)])
    new = one(models=[model_file(size_bytes=1_500_000, accuracy=0.91)], seed=5)
    text = comparison_text.format_text(changes.between(old, new))
    assert text.startswith("old: host, no phone: A processor")
    assert "\nnew: host, no phone: A processor" in text
    assert "student: 2.00 MB -> 1.50 MB (-25.0%); accuracy 0.9000 -> 0.9100" in text
    assert text.count("no difference that these runs can tell") == 2


def test_the_text_of_one_result_says_that_the_files_took_turns(turns):
    text = comparison_text.format_text(changes.within(turns))
    assert "the files took turns" in text.splitlines()[0]
    assert "new for old" in text
    assert "only in the new result: new at 16 tokens, 1 thread" in text


def test_comparisons_that_the_summary_knows_nothing_of_are_refused():
    """As in a file that somebody else wrote, or changed by hand."""
    value = of_files("old", "new")
    for summary_row in value.summary:
        damaged = value.model_copy(update={"summary": (summary_row,)})
        with pytest.raises(errors.BenchmarkError, match="cases that the summary has"):
            changes.within(damaged)
