"""A result as text: what is on top, which columns there are, what may be said."""

import benchmark_results
import pytest

from tfdistill.benchmark import schema, terminal


def lines_of(value):
    return terminal.format_text(value).splitlines()


def cells(line):
    return line.split()


def test_the_kind_and_the_device_stand_on_top():
    rows = benchmark_results.repetitions(2.0)
    phone = {"device": benchmark_results.PHONE, "backend": "benchmark_model"}
    tops = [
        lines_of(benchmark_results.assembled(rows))[0],
        lines_of(benchmark_results.assembled(rows, kind="phone", **phone))[0],
        lines_of(benchmark_results.assembled(rows, kind="emulator", **phone))[0],
    ]
    assert tops[0].startswith("host, no phone: A processor, Debian; measured by ai_edge_litert 2.3")
    assert tops[1].startswith("phone: Google Pixel 8, Google Tensor G3, Android 14 (API 34);")
    assert tops[2].startswith("emulated phone, no real one: Google Pixel 8")


def test_a_row_shows_median_interval_tails_and_start():
    rows = benchmark_results.repetitions(2.0, peak_rss_bytes=55_000_000)
    (row,) = benchmark_results.assembled(rows).summary
    lines = lines_of(benchmark_results.assembled(rows))
    assert cells(lines[2]) == (
        "model length threads n p50 ms 95% p90 p99 first cold peak MB".split()
    )
    low, high = row.p50_ci_ms
    assert lines[4] == (
        f"student      32        1  300   {row.p50_ms:.3f}  [{low:.3f}, {high:.3f}]  "
        f"{row.p90_ms:.3f}  {row.p99_ms:.3f}  3.000  250.0     55.0"
    )


def test_the_usual_way_of_running_is_not_repeated_in_every_row():
    usual = benchmark_results.repetitions(2.0)
    assert "delegate" not in lines_of(benchmark_results.assembled(usual))[2]
    assert "affinity" not in lines_of(benchmark_results.assembled(usual))[2]
    gpu = benchmark_results.assembled([*usual, *benchmark_results.repetitions(1.0, delegate="gpu")])
    assert "delegate" in cells(lines_of(gpu)[2])
    assert [cells(line)[3] for line in lines_of(gpu)[4:6]] == ["gpu", "xnnpack"]
    pinned = benchmark_results.assembled(benchmark_results.repetitions(2.0, affinity="f0"))
    assert cells(lines_of(pinned)[4])[3:5] == ["xnnpack", "f0"]


def test_columns_of_which_nothing_is_known_are_left_out():
    blocks = [schema.Block(n=50, mean_ms=2.0, min_ms=1.9, max_ms=2.2)] * 4
    rows = [
        benchmark_results.measurement((), blocks=blocks, repetition=r, first_inference_ms=None)
        for r in (0, 1)
    ]
    head = lines_of(benchmark_results.assembled(rows))[2]
    assert "p50 ms" in head and "cold" in head
    assert not {"p90", "p99", "first", "peak", "remarks"} & set(cells(head))


def test_drift_and_throttling_are_marked():
    rows = benchmark_results.repetitions(2.0, number=3, spread=0.0, noise=0.001)
    hot = [
        row.model_copy(
            update={
                "model": "hot",
                "samples_ms": tuple(s * (1 + (i > 50)) for i, s in enumerate(row.samples_ms)),
            }
        )
        for row in rows
    ]
    drifting = [
        row.model_copy(
            update={
                "model": "warm",
                "samples_ms": tuple(s * (1 + i / 3000) for i, s in enumerate(row.samples_ms)),
            }
        )
        for row in rows
    ]
    lines = lines_of(benchmark_results.assembled([*rows, *hot, *drifting]))
    assert "remarks" in lines[2]
    assert not lines[4].endswith(("throttled", "drift 1.00"))
    assert lines[5].endswith("throttled, drift 2.00")
    assert lines[6].endswith("drift 1.02") and "throttled" not in lines[6]


@pytest.mark.parametrize(
    "level, number, words",
    [
        (4.0, 3, "(faster)"),
        (1.0, 3, "(slower)"),
        (2.0, 3, "(no difference that this run can tell)"),
        (4.0, 1, "(one repetition cannot tell a difference)"),
    ],
)
def test_a_comparison_says_what_it_may(level, number, words):
    rows = [
        *benchmark_results.repetitions(level, model="old", number=number, seed=1),
        *benchmark_results.repetitions(2.0, model="new", number=number, seed=2),
    ]
    text = terminal.format_text(benchmark_results.assembled(rows))
    (line,) = [line for line in text.splitlines() if "against" in line]
    assert line.startswith("new against old at 32 tokens, 1 thread: ")
    assert line.endswith(words)


def test_everything_else_that_was_measured_is_told():
    place = {"model": "student", "sequence_length": 32, "threads": 2}
    operators = [
        schema.Operator(type="FULLY_CONNECTED", calls=9, ms=3.0),
        schema.Operator(type="GELU", calls=4, ms=1.0),
    ]
    answers = schema.AnswerComparison(
        **place,
        num_examples=50,
        max_abs_error=0.01234,
        sqnr_db=60.0,
        argmax_agreement=0.98,
        metrics={"accuracy": 0.9},
        host_metrics={"accuracy": 0.92},
    )
    value = benchmark_results.assembled(
        benchmark_results.repetitions(2.0, threads=2),
        texts=[
            schema.TextMeasurement(
                model="student", threads=2, repetition=0, tokenizer_ms=(0.05,), samples_ms=(2.2,)
            )
        ],
        operators=[schema.Operators(**place, source="LiteRT", operators=tuple(operators))],
        answers=[answers],
        failures=[schema.Failure(what="student at 64 tokens", error="out of memory")],
        notes=["By hand."],
    )
    text = terminal.format_text(value)
    for sentence in (
        "tokenizer: p50 0.050 ms a text",
        "student from text to answer, 2 threads: p50 2.200 ms",
        "largest difference 0.012, agreement 0.9800, accuracy 0.9000 (host 0.9200)",
        "operators (LiteRT): FULLY_CONNECTED 75%, GELU 25%",
        "NOT MEASURED: student at 64 tokens: out of memory",
        "By hand.",
    ):
        assert sentence in text


def test_ways_from_text_are_told_apart():
    texts = [
        schema.TextMeasurement(
            model="student",
            threads=1,
            repetition=0,
            tokenizer_ms=(0.05,),
            samples_ms=(2.0,),
            **way,
        )
        for way in ({}, {"delegate": "none"}, {"affinity": "f0"})
    ]
    text = terminal.format_text(
        benchmark_results.assembled(benchmark_results.repetitions(2.0), texts=texts)
    )
    for way in ("1 thread", "1 thread, none", "1 thread, on cores f0"):
        assert f"student from text to answer, {way}: p50 2.000 ms" in text


def test_durations_have_digits_that_mean_something():
    shown = [terminal.milliseconds(value) for value in (0.1234, 9.9994, 12.346, 123.46, None)]
    assert shown == ["0.123", "9.999", "12.35", "123.5", "-"]
