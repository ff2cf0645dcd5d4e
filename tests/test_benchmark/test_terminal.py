"""A result as text: what is on top, which columns there are, what may be said.

Whole texts are held in files under texts/: see tests/golden_page.py.
"""

import pathlib

import golden_page
import pytest
from benchmark_results import PHONE, assembled, measurement, repetitions

from tfdistill.benchmark import schema, terminal

TEXTS = pathlib.Path(__file__).parent / "texts"
ON_PHONE = {"device": PHONE, "backend": "benchmark_model"}
PLACE = {"model": "student", "sequence_length": 32, "threads": 2}


def host():
    """Everything that was measured beside the latency, and three ways from text."""
    answers = schema.AnswerComparison(
        **PLACE,
        num_examples=50,
        max_abs_error=0.01234,
        sqnr_db=60.0,
        argmax_agreement=0.98,
        metrics={"accuracy": 0.9},
        host_metrics={"accuracy": 0.92},
    )
    texts = [
        schema.TextMeasurement(
            model="student", threads=2, repetition=0, tokenizer_ms=(0.05,), samples_ms=(2.2,), **way
        )
        for way in ({}, {"delegate": "none"}, {"affinity": "f0"})
    ]
    return assembled(
        repetitions(2.0, threads=2, peak_rss_bytes=55_000_000),
        texts=texts,
        answers=[answers],
        failures=[schema.Failure(what="student at 64 tokens", error="out of memory")],
        notes=["By hand."],
    )


def phone():
    """Delegates and cores get columns where they are not the usual ones."""
    ways = ({}, {"delegate": "gpu"}, {"affinity": "f0"})
    rows = [row for way in ways for row in repetitions(2.0, **way)]
    return assembled(rows, kind="phone", **ON_PHONE)


def emulator():
    """Columns of which nothing is known are left out."""
    blocks = [schema.Block(n=50, mean_ms=2.0, min_ms=1.9, max_ms=2.2)] * 4
    rows = [measurement((), blocks=blocks, repetition=r, first_inference_ms=None) for r in (0, 1)]
    return assembled(rows, kind="emulator", **ON_PHONE)


def compared(level, number):
    old = repetitions(level, model="old", number=number, seed=1)
    return assembled([*old, *repetitions(2.0, model="new", number=number, seed=2)])


def drifting():
    """A steady file, one that throttled, and one whose level drifts."""
    rows = repetitions(2.0, number=3, spread=0.0, noise=0.001)
    slower = {"hot": lambda i: 1 + (i > 50), "warm": lambda i: 1 + i / 3000}
    for model, factor in slower.items():
        for row in rows[:3]:
            samples = tuple(ms * factor(i) for i, ms in enumerate(row.samples_ms))
            rows.append(row.model_copy(update={"model": model, "samples_ms": samples}))
    return assembled(rows)


RESULTS = {
    "host": host,
    "phone": phone,
    "emulator": emulator,
    "drifting": drifting,
    "faster": lambda: compared(4.0, 3),
    "slower": lambda: compared(1.0, 3),
    "no_difference": lambda: compared(2.0, 3),
    "one_repetition": lambda: compared(4.0, 1),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_the_text_of_its_name(name):
    golden_page.check(terminal.format_text(RESULTS[name]()) + "\n", TEXTS / f"{name}.txt")


def test_durations_have_digits_that_mean_something():
    shown = [terminal.milliseconds(value) for value in (0.1234, 9.9994, 12.346, 123.46, None)]
    assert shown == ["0.123", "9.999", "12.35", "123.5", "-"]
