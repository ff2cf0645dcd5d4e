"""The expected time of a text follows from the times by length and the texts of the manifest."""

import pytest
from benchmark_results import assembled, model_file, repetitions

from tfdistill import errors
from tfdistill.benchmark import result, schema, terminal
from tfdistill.benchmark.comparing import changes, comparison_text
from tfdistill.manifest import SignatureRecord

TEXTS = {10: 3, 20: 1}


def file_of(lengths, *, texts=TEXTS, name="student"):
    """A file with signatures of these lengths, and development texts."""
    file = model_file(name, accuracy=0.9)
    signatures = {
        f"len{n}": SignatureRecord(sequence_length=n, inputs={}, outputs={}) for n in lengths
    }
    card = file.manifest.model_copy(update={"signatures": signatures, "text_lengths": texts})
    return file.model_copy(update={"manifest": card})


def measured(times, *, name="student", **more):
    """Repetitions at each length, around its time."""
    return [
        row
        for length, level in times.items()
        for row in repetitions(level, model=name, length=length, **more)
    ]


def test_a_text_takes_the_mean_of_the_medians_at_its_lengths():
    rows = [*measured({16: 1.0, 32: 3.0}), *measured({16: 0.6, 32: 2.0}, threads=2)]
    whole = assembled(rows, models=[file_of((16, 32))])
    medians = {(row.sequence_length, row.threads): row.p50_ms for row in whole.summary}
    assert [(row.model, row.threads, row.num_texts) for row in whole.text_times] == [
        ("student", 1, 4),
        ("student", 2, 4),
    ]
    for row in whole.text_times:
        shorter, longer = medians[16, row.threads], medians[32, row.threads]
        assert row.expected_ms == pytest.approx((3 * shorter + longer) / 4, rel=1e-12)
    assert "student, 1 thread: a text takes 1.5" in terminal.format_text(whole)


@pytest.mark.parametrize(
    "file",
    [
        file_of((16, 24, 32)),  # the text of 20 tokens runs at 24, which was not measured
        file_of((16, 32), texts=None),
        model_file(),
    ],
)
def test_without_the_texts_or_a_length_of_theirs_nothing_is_said(file):
    whole = assembled(measured({16: 1.0, 32: 3.0}), models=[file])
    assert whole.text_times == ()
    assert "a text takes" not in terminal.format_text(whole)


def test_files_of_other_lengths_are_compared_by_the_time_of_a_text():
    old = assembled(measured({32: 3.0}), models=[file_of((32,))])
    new = assembled(measured({16: 1.0, 32: 3.0}, seed=1), models=[file_of((16, 32))])
    compared = changes.between(old, new)
    times = old.text_times[0].expected_ms, new.text_times[0].expected_ms
    (row,) = comparison_text.as_dict(compared)["text_times"]
    assert (row["old_expected_ms"], row["new_expected_ms"]) == times
    assert f"({times[0] / times[1]:.2f}x), each file at its own" in comparison_text.format_text(
        compared
    )
    others = file_of((16, 32), texts={10: 5})  # of other texts there is nothing to compare
    new = assembled(measured({16: 1.0, 32: 3.0}, seed=1), models=[others])
    assert comparison_text.as_dict(changes.between(old, new))["text_times"] == []


def test_a_time_that_does_not_follow_from_the_samples_is_refused(tmp_path):
    whole = assembled(measured({16: 1.0, 32: 3.0}), models=[file_of((16, 32))])
    path = result.write_result(whole, tmp_path / "benchmark.json")
    assert result.read_result(path) == whole
    wrong = schema.TextTime(model="student", threads=1, num_texts=4, expected_ms=0.1)
    result.write_result(whole.model_copy(update={"text_times": (wrong,)}), path)
    with pytest.raises(errors.BenchmarkError, match="text_times of student"):
        result.read_result(path)
