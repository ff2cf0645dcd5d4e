"""Answers of a device against those of the host: what is compared, and by which measure."""

import math

import numpy as np
import pytest
import tiny_tflite

from tfdistill import errors
from tfdistill.benchmark import schema
from tfdistill.benchmark.adb import tool, tool_backend
from tfdistill.benchmark.subjects import feeds_for, open_subject
from tfdistill.tflite import roles
from tfdistill.tflite.model import rows_of

PLACE = schema.BenchmarkCase(model="m", sequence_length=4, threads=1, delegate="gpu")


def outputs_of(tmp_path, *outputs):
    key, inputs, _ = tiny_tflite.bert(4)
    named = [(name, f"t{i}", tiny_tflite.FLOAT32, shape) for i, (name, shape) in enumerate(outputs)]
    path = tiny_tflite.write(tmp_path / "m.tflite", [(key, inputs, named)])
    return tool.read_layout(path, roles.read_signatures(path)[4])


def arrays(*rows):
    return [np.array(row, np.float32) for row in rows]


def test_errors_are_those_of_a_loop_and_metrics_those_of_each_side():
    rng = np.random.default_rng(0)
    host = [rng.normal(size=5).astype(np.float32) for _ in range(20)]
    device = [row + np.float32(0.4) * rng.normal(size=5).astype(np.float32) for row in host]
    comparison = tool_backend.compare_answers(PLACE, host, device)
    worst = signal = noise = same = 0.0
    for a, b in zip(host, device, strict=True):
        for x, y in zip(a.tolist(), b.tolist(), strict=True):
            worst, signal, noise = max(worst, abs(x - y)), signal + x * x, noise + (x - y) ** 2
        same += a.tolist().index(max(a.tolist())) == b.tolist().index(max(b.tolist()))
    assert comparison.max_abs_error == worst
    assert comparison.sqnr_db == pytest.approx(10 * math.log10(signal / noise), rel=1e-12)
    assert comparison.argmax_agreement == same / 20 and 0 < same < 20

    def metric(outputs):
        return {"mean": np.float32(np.mean([row[0] for row in outputs]))}

    comparison = tool_backend.compare_answers(
        PLACE, arrays([1], [3]), arrays([5], [7]), metric=metric
    )
    assert (comparison.metrics, comparison.host_metrics) == ({"mean": 6.0}, {"mean": 2.0})


WORDS = arrays([[1, 0], [0, 1]], [[1, 0], [1, 0]])
SPAN = arrays([[5, 0], [4, 0], [0, 6]])


@pytest.mark.parametrize(
    ("host", "device", "span", "agreement"),
    [
        (arrays([1, 2], [3, 1]), arrays([1, 2], [3, 1]), False, 1),
        (arrays([1.5], [2]), arrays([1.25], [2]), False, None),  # a single number
        (WORDS, arrays([[2, 0], [0, 1]], [[1, 0], [0, 1]]), False, 0.5),  # all tags of an example
        (SPAN, SPAN, True, 1),
        # Another start, though no token changed its side.
        (SPAN, arrays([[4, 0], [5, 0], [0, 6]]), True, 0),
    ],
    ids=["equal", "numbers", "words", "spans", "another start"],
)
def test_answers_agree_where_all_of_their_parts_do(host, device, span, agreement):
    comparison = tool_backend.compare_answers(PLACE, host, device, span=span)
    assert comparison.argmax_agreement == agreement
    worst = max(np.abs(a - b).max() for a, b in zip(host, device, strict=True))
    assert comparison.max_abs_error == worst
    assert (comparison.sqnr_db is None) == (worst == 0)
    assert (comparison.num_examples, comparison.delegate) == (len(host), "gpu")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_numbers_that_overflowed_are_an_error(value):
    with pytest.raises(errors.BenchmarkError, match=r"on the device.* for 1 of 2 examples"):
        tool_backend.compare_answers(PLACE, arrays([1], [2]), arrays([1], [value]))
    with pytest.raises(errors.BenchmarkError, match="on the host"):
        tool_backend.compare_answers(PLACE, arrays([value], [2]), arrays([1], [2]))


def test_an_answer_is_its_row_up_to_the_padding_with_starts_before_ends(tmp_path):
    layout = outputs_of(tmp_path, ("logits", (1, 3)))
    answer = rows_of(layout, arrays([[1, 2, 3]]), num_tokens=2)
    assert answer.tolist() == [1, 2, 3] and answer.dtype == np.float32
    assert not tool_backend.is_span(layout)
    layout = outputs_of(tmp_path, ("logits", (1, 4)))
    assert rows_of(layout, arrays([[1, 2, 3, 4]]), num_tokens=2).tolist() == [1, 2, 3, 4]
    layout = outputs_of(tmp_path, ("logits", (1, 4, 2)))
    answer = rows_of(layout, arrays([[[1, 2], [3, 4], [5, 6], [7, 8]]]), num_tokens=3)
    assert answer.tolist() == [[1, 2], [3, 4], [5, 6]]
    layout = outputs_of(tmp_path, ("end_logits", (1, 4)), ("start_logits", (1, 4)))
    assert tool_backend.is_span(layout)
    answer = rows_of(layout, arrays([[5, 6, 7, 8]], [[1, 2, 3, 4]]), num_tokens=2)
    assert answer.tolist() == [[1, 5], [2, 6]]


@pytest.mark.slow
def test_what_runs_here_can_be_ended_between_two_examples(tflite_files):
    subject = open_subject(tflite_files / "fast.tflite")
    layout = tool.read_layout(subject.file, subject.signatures[8])
    feeds = feeds_for(subject, 8, limit=3)
    assert len(tool_backend.answers_of_host(subject, layout, feeds)) == 3
    calls = []

    def stop_at_the_second():
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tool_backend.answers_of_host(subject, layout, feeds, before_each=stop_at_the_second)
    assert len(calls) == 2
