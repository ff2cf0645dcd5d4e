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
    "history": [{"stage": "labels", "csv": "stages/labels/seed-1/history.csv", "sha256": "0" * 64}],
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


def test_a_sweep_is_read_without_the_keys_that_it_may_lack(tmp_path):
    (row,) = read(tmp_path, SWEEP, results.SweepResults).rows
    assert row.p50_ms == {8: 0.5}
    assert row.metric_drop == pytest.approx(0.1)
    written = row.model_dump(mode="json")
    assert written["p50_ms"] == {"8": 0.5} and written["metric_drop"] == row.metric_drop
    assert results.Trial.model_validate(written) == row


def test_a_metric_that_is_no_number_is_null_and_an_absent_file_an_error(tmp_path):
    model = results.ModelResult.model_validate({**MODEL, "metrics": {"pearson": float("nan")}})
    results.write_result_file(model, tmp_path / "record.json")
    assert json.loads((tmp_path / "record.json").read_text())["metrics"] == {"pearson": None}
    with pytest.raises(errors.DataError, match="No such file"):
        results.read_result_file(tmp_path / "none.json", results.FitResult)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("{", "a fault: Expecting property name"),
        ("[" * 50_000, "levels of nesting"),
        ('{"format_version": 2}', "format_version: Input should be 1"),
        ({"models": [{**MODEL, "role": "pupil"}]}, "models.0.role"),
    ],
)
def test_a_malformed_file_is_an_error_that_names_it(tmp_path, content, fault):
    with pytest.raises(errors.DataError, match=r"metrics\.json.*: expected a valid") as caught:
        read(tmp_path, content, results.RunMetrics)
    assert fault in str(caught.value)
