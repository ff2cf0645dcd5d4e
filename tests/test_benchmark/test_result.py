"""The result: assembled, completed, written, read back, and refused when it is none."""

import json

import numpy as np
import pytest
from benchmark_results import assembled, measurement, model_file, repetitions

from tfdistill import errors
from tfdistill.benchmark import result, schema
from tfdistill.benchmark.statistics import stats
from tfdistill.io import files


@pytest.fixture(scope="module")
def whole():
    """Two files at two lengths, three repetitions each, with texts and a failure."""
    rows = []
    for length in (64, 32):
        for model, level in (("slow", 4.0), ("fast", 2.0)):
            rows += repetitions(level, seed=length, model=model, length=length)
    texts = [
        schema.TextMeasurement(
            model=model,
            threads=1,
            repetition=index,
            tokenizer_ms=(0.1 + index, 0.3 + index),
            samples_ms=(2.0, 4.0),
        )
        for index in (1, 0)
        for model in ("fast", "slow")
    ]
    return assembled(
        rows,
        models=[model_file("slow"), model_file("fast")],
        texts=texts,
        failures=[schema.Failure(what="slow at 128 tokens", error="too long")],
    )


def test_a_summary_describes_all_samples_of_its_place_that_count(whole):
    row = whole.summary[1]
    samples = [s for m in whole.measurements[3:6] for s in m.samples_ms]
    described = stats.summarize(samples)
    assert {name: getattr(row, name) for name in described} == described
    assert row.repetition_p50_ms == tuple(np.median(m.samples_ms) for m in whole.measurements[3:6])
    blocks = [stats.blocks_of(m.samples_ms, 10) for m in whole.measurements[3:6]]
    expected = stats.percentile_cis(blocks, (50, 90, 95, 99))
    assert [row.p50_ci_ms, row.p90_ci_ms, row.p95_ci_ms, row.p99_ci_ms] == expected
    assert row.drift_ci[0] <= row.drift <= row.drift_ci[1]
    assert (row.first_inference_ms, row.cold_start_ms) == (3.0, 250.0)
    assert (row.of, row.throttled) == ("inferences", False)
    hot = measurement([900.0] * 100, model="slow", repetition=7, left_out="thermal status 3")
    rows = [*whole.measurements, hot]
    with_it = assembled(rows, models=whole.models, texts=whole.texts)
    assert with_it.summary == whole.summary
    assert with_it.comparisons == whole.comparisons
    assert "1 of 13 measurements do not count: thermal status 3." in with_it.notes
    assert hot in with_it.measurements


def test_files_that_took_turns_are_compared_by_the_numbers_of_their_repetitions(whole):
    p50 = {(s.model, s.sequence_length): s.p50_ms for s in whole.summary}
    for row in whole.comparisons:
        places = [(name, row.sequence_length) for name in ("slow", "fast")]
        assert row.speedup == p50[places[0]] / p50[places[1]]
    other = assembled(whole.measurements, models=whole.models, baseline="fast")
    assert other.settings["baseline"] == "fast"
    assert {(c.candidate, c.faster) for c in other.comparisons} == {("slow", False)}
    rows = whole.measurements
    assert rows[-1].model == "fast" and rows[0].model == "slow"
    mixed = [*rows[: len(rows) // 2], *rows[len(rows) // 2 :][::-1]]  # one file's the other way
    other = result.complete(whole.model_copy(update={"measurements": tuple(mixed)}))
    assert sorted(other.comparisons, key=lambda c: c.sequence_length) == list(whole.comparisons)


def test_a_result_with_parts_that_are_no_longer_measured_is_read_without_them(whole, tmp_path):
    """As earlier versions wrote it, with a checksum over all keys."""
    path = tmp_path / "benchmark.json"
    for part in ([], [{"model": "student", "windows": [{"start_s": 0.0, "p50_ms": 2.0}]}]):
        earlier = {**json.loads(whole.model_dump_json()), "sustained": part}
        earlier["settings"] = {**earlier["settings"], "sustained_seconds": 60.0}
        path.write_text(result.to_json(earlier))
        assert '"checksum"' in path.read_text()
        again = result.read_result(path)
        assert again.model_copy(update={"settings": whole.settings}) == whole
        assert "sustained" not in again.model_dump()
        assert result.read_result(result.write_result(again, path)) == again
    path.write_text(result.to_json({**earlier, "sustain": part}))
    with pytest.raises(errors.BenchmarkError, match="received sustain: "):
        result.read_result(path)


def block(mean, n=10, **more):
    return schema.Block(n=n, mean_ms=mean, min_ms=mean / 2, max_ms=mean * 2, **more)


def in_blocks(levels, *, repetition=0, **more):
    return measurement((), repetition=repetition, blocks=[block(level, **more) for level in levels])


def test_blocks_without_single_durations_are_summarized_by_their_medians_or_means():
    rows = [
        in_blocks([2.0, 3.0, 4.0], std_ms=0.5, median_ms=1.5),
        in_blocks([5.0, 6.0, 7.0], repetition=1, std_ms=0.5, median_ms=2.5),
    ]
    (row,) = assembled(rows).summary
    assert (row.of, row.n, row.p50_ms) == ("blocks", 60, 2.0)
    assert (row.p90_ms, row.p95_ms, row.p99_ms, row.p99_ci_ms) == (None,) * 4
    assert (row.min_ms, row.max_ms, row.mean_ms) == (1.0, 14.0, 4.5)
    assert row.repetition_p50_ms == (1.5, 2.5)
    low, high = row.p50_ci_ms
    assert low <= 1.5 and high >= 2.5
    (row,) = assembled([in_blocks([2.0, 3.0, 7.0])]).summary
    assert (row.p50_ms, row.std_ms) == (3.0, None)
    samples = np.random.default_rng(0).lognormal(size=(6, 10))
    blocks = [
        schema.Block(
            n=10,
            mean_ms=values.mean(),
            min_ms=values.min(),
            max_ms=values.max(),
            std_ms=values.std(ddof=1),
        )
        for values in samples
    ]
    (row,) = assembled([measurement((), blocks=blocks)]).summary
    assert row.std_ms == pytest.approx(samples.std(ddof=1))
    assert row.mean_ms == pytest.approx(samples.mean())


def state(**more):
    return schema.Conditions(time="2026-11-21T10:00:00+00:00", **more)


def between(before, after):
    """Two repetitions; the first was measured between two states of the device."""
    first, second = repetitions(2.0, number=2)
    return [first.model_copy(update={"before": before, "after": after}), second]


def slowed(number):
    """The last repetition becomes slower and stays so."""
    rows = repetitions(2.0, number=number)
    samples = rows[-1].samples_ms
    rows[-1] = rows[-1].model_copy(
        update={"samples_ms": (*samples[:60], *(1.3 * ms for ms in samples[60:]))}
    )
    return rows


def at_levels(*levels, repetitions=1):
    return [
        in_blocks([level * (1 + 0.001 * index) for level in levels], repetition=index)
        for index in range(repetitions)
    ]


STEADY, RISEN = (2.0, 2.01, 1.99, 2.0, 2.02, 1.98), (2.6, 2.61, 2.6, 2.59)
THROTTLED = {
    "a status of 1": between(state(thermal_status=0), state(thermal_status=1)),
    "a status of 3 that passes": between(state(thermal_status=3), state(thermal_status=0)),
    "a count that rose": between(state(throttle_count=3), state(throttle_count=4)),
    "a level that rises and stays": slowed(2),
    "levels of blocks": at_levels(*STEADY, *RISEN),
    "levels of blocks in repetitions": at_levels(*STEADY, *RISEN, repetitions=2),
    "a drift without a level": at_levels(2.0, 2.0, 2.1, 2.2, 2.3, 2.3, repetitions=3),
}
COOL = {
    "an unknown status": between(state(), state()),
    "a status of 0": between(state(thermal_status=0), state(thermal_status=0)),
    "an equal count": between(state(throttle_count=3), state(throttle_count=3)),
    "a count known before alone": between(state(throttle_count=3), state()),
    "a count known after alone": between(state(), state(throttle_count=4)),
    "no state before": between(None, state(throttle_count=4)),
    "steady levels": at_levels(*STEADY, 2.0, 2.01, 2.0, 1.99),
    "a drift within its interval": at_levels(2.0, 2.0, 2.01, 2.0, 2.01, 2.0, repetitions=3),
}


@pytest.mark.parametrize("name", [*THROTTLED, *COOL])
def test_throttling_is_marked_and_noted(name):
    value = assembled({**THROTTLED, **COOL}[name])
    assert value.summary[0].throttled is (name in THROTTLED)
    assert any("throttled" in note for note in value.notes) is (name in THROTTLED)


def test_only_repetitions_of_both_files_in_turns_to_the_end_are_compared():
    slow, fast = (repetitions(x, model=name) for name, x in (("a", 4.0), ("b", 2.0)))
    (row,) = assembled([*slow, *fast[:2]]).comparisons
    (same,) = assembled([*slow[:2], *fast[:2]]).comparisons
    assert row == same
    rows = [*repetitions(2.0, model="a"), *repetitions(2.0, model="b", runs=70)]
    assert assembled(rows).comparisons == ()


def test_what_readers_overlook_is_noted():
    fed = schema.Inputs(source="random", num_examples=3)
    models = [model_file().model_copy(update={"inputs": fed})]
    busy = schema.Conditions(time="2026-11-21T10:00:00+00:00", load_average=1.5)
    notes = assembled(repetitions(2.0), models=models, before=busy).notes
    assert [note.split(":")[0] for note in notes] == [
        "student",
        "Load average 1.5 on 2 cores before the run",
    ]


ONE_FILE = (model_file(),)


@pytest.mark.parametrize(
    ("rows", "models", "message"),
    [
        ([measurement([1.0, 0.0])], ONE_FILE, "more than 0 ms, received 0.0"),
        ([measurement([1.0, -2.0])], ONE_FILE, "more than 0 ms, received -2.0"),
        ([in_blocks([1.0], n=0)], ONE_FILE, "more than 0 ms, received 0"),
        (
            [measurement([1.0], model="other")],
            ONE_FILE,
            r"listed \['student'\], received \['other'\]",
        ),
        ([], 2 * ONE_FILE, "each once, received"),
    ],
)
def test_durations_and_names_that_cannot_be_are_refused(rows, models, message):
    with pytest.raises(errors.BenchmarkError, match=message):
        assembled(rows, models=models)


NAN = '{"format_version": 2, "kind": "host", "device": {"name": "x", "max_frequencies_mhz": [NaN]}}'


@pytest.mark.parametrize(
    "content, complaint",
    [
        (None, "a benchmark result, received"),
        ("{", "a benchmark result, received"),
        ('{"format_version": 2, "kind": "ho', "a benchmark result, received"),
        ("[" * 100_000, "a benchmark result, received"),
        ("[]", "format_version 2, received a JSON list"),
        ("{}", "received JSON without a format_version"),
        ('{"format_version": 1, "measurements": []}', "received format_version 1. Measure again"),
        ('{"format_version": 3, "measurements": []}', "received format_version 3"),
        ('{"format_version": 1, "temperature": 2}', "received JSON that is no benchmark result"),
        ('{"format_version": 2}', "kind: Field required"),
        (NAN, "max_frequencies_mhz.0: Input should be a finite number"),
    ],
)
def test_a_foreign_result_is_refused(tmp_path, content, complaint):
    path = tmp_path / "benchmark.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(errors.BenchmarkError, match=complaint):
        result.read_result(path)


def test_a_result_that_is_strange_incomplete_or_too_large_is_refused(whole, tmp_path, monkeypatch):
    text = result.to_json(whole.model_dump(mode="json"))
    path = tmp_path / "benchmark.json"
    value = json.loads(text.replace('"baseline_rss_bytes"', '"baseline_rs_bytes"'))
    files.atomic_write_json(path, value)
    with pytest.raises(errors.BenchmarkError, match="baseline_rs_bytes: Extra inputs"):
        result.read_result(path)
    value = whole.model_copy(update={"summary": whole.summary[:-1]})
    path = result.write_result(value, tmp_path / "benchmark.json")
    with pytest.raises(errors.BenchmarkError, match="summary: cases 3 instead of 4"):
        result.read_result(path)
    path = tmp_path / "benchmark.json"
    path.write_text(" " * 1000)
    monkeypatch.setattr(result, "MAX_BYTES", 999)
    with pytest.raises(errors.BenchmarkError, match=r"at most 999 B, received 1\.00 kB"):
        result.read_result(path)


# Files that contradict themselves.


def change_figure(value, place, figure):
    """Adds a tenth to a figure of the JSON; `place` leads to the row."""
    row = value
    for key in place:
        row = row[key]
    row[figure] = row[figure] + 1 if isinstance(row[figure], int) else row[figure] * 1.1


@pytest.mark.parametrize(
    ("place", "figure", "said"),
    [
        (("summary", 0), "p50_ms", "summary of slow at 32 tokens: p50_ms"),
        (("summary", 3), "p99_ms", "summary of fast at 64 tokens: p99_ms"),
        (("summary", 1), "n", "n 301 instead of 300"),
        (("summary", 1), "mean_ms", "mean_ms"),
        (("summary", 1), "max_ms", "max_ms"),
        (("summary", 1), "sequence_length", "summary of slow at 64 tokens None"),
        (("tokenizer",), "p50_ms", "tokenizer: p50_ms"),
        (("end_to_end", 1), "min_ms", "end_to_end of fast: min_ms"),
        (("comparisons", 0), "speedup", "comparisons: speedup of fast"),
        (("measurements", 0, "samples_ms"), 0, "summary of slow at 32 tokens: "),
    ],
)
def test_a_figure_that_its_samples_do_not_give_is_refused(whole, tmp_path, place, figure, said):
    value, path = whole.model_dump(mode="json"), tmp_path / "benchmark.json"
    change_figure(value, place, figure)
    path.write_text(result.to_json(value))
    with pytest.raises(errors.BenchmarkError) as caught:
        result.read_result(path)
    assert said in str(caught.value)


@pytest.mark.parametrize("with_summary", [True, False])
@pytest.mark.parametrize(
    ("place", "figure", "wild"),
    [
        (("measurements", 0, "samples_ms"), 0, 1e308),
        (("measurements", 0, "waits"), None, [2**70] * 100),
        (("measurements", 0), "init_ms", 1e300),
        (("measurements", 0), "peak_rss_bytes", 10**400),
        (("texts", 0, "samples_ms"), 1, 1e308),
        (("texts", 0, "tokenizer_ms"), 1, 1e200),
    ],
)
def test_a_number_whose_sums_overflow_is_refused(
    whole, tmp_path, place, figure, wild, with_summary
):
    value, path = whole.model_dump(mode="json"), tmp_path / "benchmark.json"
    if not with_summary:
        value["summary"] = []
    *above, last = place
    row = value
    for key in above:
        row = row[key]
    if figure is None:
        row[last] = wild
    else:
        row[last][figure] = wild
    files.atomic_write_json(path, value)
    with pytest.raises(errors.BenchmarkError, match="a benchmark result"):
        result.read_result(path)
