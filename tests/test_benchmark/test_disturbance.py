"""A busy machine: what is marked, what is still told, and what is withheld.

busy.json has the samples of two files, recorded on two cores that other work shared: "quiet" with
real-time priority, which nothing preempts, and "loaded" beside a spinning process on each core.
"""

import json
import pathlib
import statistics

import golden_page
import pytest
from benchmark_results import assembled, measurement, model_file, repetitions

from tfdistill import errors
from tfdistill.benchmark import result, schema, terminal
from tfdistill.benchmark.comparing import changes, comparison_text, gate
from tfdistill.benchmark.statistics import disturbance
from tfdistill.io import files
from tfdistill.results import tables

BUSY = pathlib.Path(__file__).parent / "texts" / "busy.txt"
RECORDED = json.loads(pathlib.Path(__file__).with_name("busy.json").read_text())["samples"]
UNKNOWN = {"processor_ms": (), "waits": (), "preemptions": ()}
FILES = [model_file(name) for name in ("slow", "fast")]


def recorded(name, threads=1):
    rows = [schema.Measurement(**row) for row in RECORDED[name] if row["threads"] == threads]
    return assembled(rows, models=FILES)


def without_processor_times(name, threads=1):
    """The recorded samples as an app gives them."""
    rows = [row.model_copy(update=UNKNOWN) for row in recorded(name, threads).measurements]
    return assembled(rows, models=FILES)


def in_blocks(name, threads=1):
    """The recorded samples as `benchmark_model` gives them: statistics of bursts."""
    rows = []
    for row in recorded(name, threads).measurements:
        size, samples = row.block_runs, row.samples_ms
        bursts = [samples[at : at + size] for at in range(0, len(samples), size)]
        blocks = tuple(
            schema.Block(
                n=len(burst),
                mean_ms=statistics.fmean(burst),
                min_ms=min(burst),
                max_ms=max(burst),
                median_ms=statistics.median(burst),
            )
            for burst in bursts
        )
        rows.append(row.model_copy(update={**UNKNOWN, "samples_ms": (), "blocks": blocks}))
    return assembled(rows, models=FILES)


def on_the_clock(value):
    samples = {
        name: [ms for row in value.measurements if row.model == name for ms in row.samples_ms]
        for name in ("slow", "fast")
    }
    return statistics.median(samples["slow"]) / statistics.median(samples["fast"])


def preempted(level=2.0, *, share=0.5, **more):
    """Repetitions of which a share of the samples took ten times as long as on the processor."""
    rows = repetitions(level, **more)
    for row in rows:
        lost = [index % 10 < 10 * share for index in range(len(row.samples_ms))]
        pairs = list(zip(row.samples_ms, lost, strict=True))
        yield row.model_copy(
            update={
                "samples_ms": tuple(ms * (10 if is_lost else 1) for ms, is_lost in pairs),
                "processor_ms": row.samples_ms,
                "preemptions": tuple(int(is_lost) for is_lost in lost),
            }
        )


def test_a_loaded_machine_shows_the_ratio_of_the_quiet_one_and_none_of_several_threads():
    quiet, loaded = recorded("quiet"), recorded("loaded")
    assert not 1 / 1.5 < on_the_clock(loaded) / on_the_clock(quiet) < 1.5
    (before,), (after,) = quiet.comparisons, loaded.comparisons
    assert after.speedup == pytest.approx(before.speedup, rel=0.15)
    assert after.speedup_ci[0] <= before.speedup <= after.speedup_ci[1]
    assert (before.busy, after.busy, after.faster) == (False, True, True)
    quiet, loaded = recorded("quiet", 2), recorded("loaded", 2)
    (before,), (after,) = quiet.comparisons, loaded.comparisons
    assert (before.busy, before.faster) == (False, True)
    assert (after.busy, after.faster, after.speedup_ci) == (True, None, None)
    assert disturbance.WITHHELD in terminal.format_text(loaded)
    assert f"{after.speedup:.2f}x" not in terminal.format_text(loaded)


def test_no_figure_of_a_quiet_machine_changes():
    quiet = recorded("quiet")
    without = without_processor_times("quiet")
    assert (quiet.summary, quiet.comparisons) == (without.summary, without.comparisons)
    assert quiet.notes == without.notes


def test_a_tenth_of_the_samples_may_be_disturbed_and_more_count_with_their_processor_time():
    for share, busy in ((0.1, False), (0.2, True)):
        rows = list(preempted(share=share))
        (row,) = assembled(rows).summary
        samples = [ms for row in rows for ms in row.samples_ms]
        assert row.busy is busy
        assert (row.max_ms == max(samples)) is not busy  # a quiet machine's outliers stay
    rows = list(preempted(2.0, share=0.6))
    (row,) = assembled(rows).summary
    (undisturbed,) = assembled(repetitions(2.0)).summary
    assert (row.p50_ms, row.max_ms) == (undisturbed.p50_ms, undisturbed.max_ms)


def test_the_mark_stands_beside_every_figure():
    rows = [*preempted(2.0, model="old", seed=1), *preempted(1.0, model="new", seed=2)]
    texts = [
        schema.TextMeasurement(
            **{name: getattr(row, name) for name in ("model", "threads", "repetition")},
            tokenizer_ms=(0.1,) * len(row.samples_ms),
            **{n: getattr(row, n) for n in ("samples_ms", "processor_ms", "preemptions")},
        )
        for row in rows
    ]
    value = assembled(rows, texts=texts)
    compared = comparison_text.format_text(changes.within(value))
    golden_page.check(f"{terminal.format_text(value)}\n\n{compared}\n", BUSY)


def test_two_busy_results_are_compared_within_15_percent_more():
    quiet = assembled(repetitions(2.0))
    busy = assembled(list(preempted(2.0)))
    usual, wide = (changes.between(quiet, new).rows[0] for new in (quiet, busy))
    assert (usual.busy, wide.busy) == (False, True)
    assert wide.speedup == usual.speedup
    low, high = usual.speedup_ci
    assert wide.speedup_ci == pytest.approx((low / 1.15, high * 1.15))
    assert wide.joint_ci[0] < usual.joint_ci[0]


def test_a_limit_of_latency_calls_a_busy_machine_undecided_or_refuses_it():
    def ruling(threads):
        rows = [
            [*preempted(2.0, threads=threads, model=name, seed=seed)]
            for name, seed in (("old", 0), ("new", 1))
        ]
        files = [model_file(name) for name in ("old", "new")]
        value = assembled([*rows[0], *rows[1]], models=files)
        return gate.judge(changes.within(value), gate.Limits(slower=0.05))

    assert ruling(1).passed and tables.BUSY in ruling(1).warnings[0]
    (reason,) = ruling(2).reasons
    assert disturbance.WITHHELD in reason


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("recording", [without_processor_times, in_blocks])
def test_without_processor_times_the_spread_tells_the_recorded_machines_apart(recording, threads):
    quiet, loaded = recording("quiet", threads), recording("loaded", threads)
    assert [row.busy for row in quiet.summary] == [False, False]
    assert [row.busy for row in loaded.summary] == [True, True]
    (before,), (after,) = quiet.comparisons, loaded.comparisons
    assert (before.faster, after.faster, after.speedup_ci) == (True, None, None)
    assert not any("busy" in note for note in quiet.notes)
    (note,) = (note for note in loaded.notes if "busy" in note)
    assert "The device reports no processor time" in note
    figures = [line for line in terminal.format_text(loaded).splitlines() if " 64 " in line]
    assert figures and all(tables.BUSY in line for line in figures)


def test_what_slows_whole_blocks_is_not_called_busy():
    levels = [2.0, 3.0, 2.0, 4.0]  # other files had their turns as slowly
    samples = [level * factor for level in levels for factor in (1.0, 1.1, 1.2)]
    assert not disturbance.is_busy([measurement(samples, block_runs=3)])
    spread = [level * factor for level in levels for factor in (1.0, 1.1, 1.4)]
    assert disturbance.is_busy([measurement(spread, block_runs=3)])


@pytest.mark.parametrize(
    ("column", "values"),
    [("processor_ms", [1.0]), ("processor_ms", [-1.0, 1.0]), ("preemptions", [0, 0, 0])],
)
def test_processor_times_that_do_not_belong_to_the_samples_are_refused(tmp_path, column, values):
    written = assembled([measurement([2.0, 2.0])]).model_dump(mode="json")
    written["measurements"][0][column] = values
    path = tmp_path / "benchmark.json"
    files.atomic_write_json(path, written)
    with pytest.raises(errors.BenchmarkError, match=column):
        result.read_result(path)
