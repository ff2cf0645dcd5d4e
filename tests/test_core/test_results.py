"""Result files: written and read through the same classes."""

import json

import pytest

from tfdistill import errors, results

MODEL = {
    "name": "full",
    "role": "student",
    "seed": 1,
    "stages": ["labels"],
    "metrics": {"accuracy": 0.5},
    "num_examples": 40,
    "parameters": 10,
    "flops": {"24": 7},
    "architecture": {"family": "bert", "num_layers": 1},
    "train_seconds": 1.5,
    "folder": "students/full/seed-1",
    "history": [{"stage": "labels", "csv": "stages/labels/seed-1/history.csv"}],
}
METRICS = {
    "format_version": 1,
    "recipe": "toy",
    "created": "2026-01-01T00:00:00+00:00",
    "seed": 1,
    "task": {"name": "t", "kind": "classification", "labels": ["a"], "primary_metric": "accuracy"},
    "synthetic_data": False,
    "models": [MODEL],
    "baselines": [
        {
            "name": "tfidf",
            "note": "",
            "metrics": {"accuracy": 0.5},
            "seconds": 1.5,
            "parameters": 9,
            "latency_ms": 0.5,
            "folder": "baselines/tfidf",
        }
    ],
    "chosen": "students/full/seed-1",
    "exports": [{"name": "student", "of": "students/full/seed-1", "manifest": "export/model.json"}],
    "test_metrics": {"teacher": {"accuracy": 0.85}, "file": {"accuracy": None}},
}
SWEEP = {
    "format_version": 1,
    "request": {"weights": "ab", "lengths": [8]},
    "rows": [
        {
            "name": "float32",
            "layers": {},
            "verdict": "good",
            "p50_ms": {"8": 0.5},
            "model_metrics": {"accuracy": 0.9},
            "file_metrics": {"accuracy": 0.8},
            "primary_metric": "accuracy",
            "metric_drop": 0.1,
        }
    ],
}


def read(tmp_path, content, kind):
    path = tmp_path / "metrics.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return results.read_result_file(path, kind)


def test_metrics_are_written_as_they_were_read(tmp_path):
    metrics = read(tmp_path, METRICS, results.RunMetrics)
    results.write_result_file(metrics, tmp_path / "again.json")
    assert json.loads((tmp_path / "again.json").read_text()) == METRICS


def test_a_sweep_is_read_without_the_keys_that_it_may_lack(tmp_path):
    (row,) = read(tmp_path, SWEEP, results.SweepResults).rows
    assert row.p50_ms == {8: 0.5}
    assert row.metric_drop == pytest.approx(0.1)
    written = row.model_dump(mode="json")
    assert written["p50_ms"] == {"8": 0.5} and written["metric_drop"] == row.metric_drop
    assert results.Trial.model_validate(written) == row


def test_a_metric_that_is_no_finite_number_is_written_as_null(tmp_path):
    model = results.ModelResult.model_validate({**MODEL, "metrics": {"pearson": float("nan")}})
    results.write_result_file(model, tmp_path / "record.json")
    assert json.loads((tmp_path / "record.json").read_text())["metrics"] == {"pearson": None}


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("{", "file: Invalid JSON"),
        ("[" * 50_000, "file: Invalid JSON"),
        ('{"format_version": 2}', "format_version: Input should be 1"),
        ({**METRICS, "models": [{**MODEL, "role": "pupil"}]}, "models.0.role"),
    ],
)
def test_a_malformed_file_is_an_error_that_names_it(tmp_path, content, fault):
    with pytest.raises(errors.DataError, match=r"metrics\.json: expected a valid") as caught:
        read(tmp_path, content, results.RunMetrics)
    assert fault in str(caught.value)


def test_an_absent_file_is_an_error_that_names_it(tmp_path):
    with pytest.raises(errors.DataError, match="No such file"):
        results.read_result_file(tmp_path / "none.json", results.FitResult)


def test_a_student_and_a_teacher_below_a_baseline_are_named():
    def row(name, value, note=""):
        return results.BaselineResult(name=name, note=note, metrics={"f1": value})

    rows = [row("majority", 0.5), row("tfidf", 0.8, "words"), row("unknown", None)]
    assert results.compare_with_baselines("f1", 0.85, 0.9, rows) == [
        "compared with, f1",
        "  teacher: 0.9000",
        "  majority: 0.5000",
        "  tfidf: 0.8000 (words)",
    ]
    lines = results.compare_with_baselines("f1", 0.4, 0.75, rows)
    assert lines[-2:] == [
        "WARNING: the student is below the baseline majority and tfidf.",
        "WARNING: the teacher is below the baseline tfidf.",
    ]
    part = results.part_of(10, 40)
    lines = results.compare_with_baselines("f1", 0.85, 0.75, rows, answered=part)
    assert lines[1] == "  teacher: 0.7500 (of the 10 of 40 examples that it answered)"
    assert not any("WARNING" in line for line in lines)
    assert results.part_of(40, 40) is results.part_of(None, 40) is None
    before = [row("frozen_teacher", 0.8, "the teacher before fine-tuning")]
    advice = results.compare_with_baselines("f1", 0.85, 0.75, before)[-2:]
    assert advice[0] == "WARNING: the teacher is below the baseline frozen_teacher."
    assert "more steps" in advice[1]
    assert len(results.compare_with_baselines("f1", 0.75, 0.85, before)) == 4  # only the student
    itself = [row("frozen_teacher", 0.9, results.FINE_TUNED)]  # no alternative to a student
    assert len(results.compare_with_baselines("f1", 0.4, 0.75, itself)) == 3
    assert len(results.compare_with_baselines("f1", None, None, rows)) == 4
    assert results.compare_with_baselines("f1", 0.4, None, []) == []


def test_an_integer_of_thousands_of_digits_is_refused(tmp_path):
    path = tmp_path / "result.json"
    path.write_text(f'{{"steps": {"9" * 4300}, "seconds": 1}}')
    with pytest.raises(errors.DataError, match=r"result\.json"):
        results.read_result_file(path, results.FitResult)
