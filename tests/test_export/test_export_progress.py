"""An export tells each of its long steps before it begins."""

import logging
import pathlib
import types

import pytest

from export.targets import tflite
from tfdistill import results
from tfdistill.run import deliver


def test_an_export_tells_what_it_converts_and_checks(monkeypatch, caplog):
    plans = [
        types.SimpleNamespace(
            paths=types.SimpleNamespace(model=pathlib.Path(f"out/{device}.tflite")),
            quantization=types.SimpleNamespace(name="float16"),
            device=types.SimpleNamespace(name=device),
        )
        for device in ("cpu", "gpu")
    ]
    lines = []

    def note(step):
        def call(*arguments):
            lines.append((step, len(caplog.messages)))
            return step

        return call

    monkeypatch.setattr(tflite, "make_plans", lambda request: plans)
    monkeypatch.setattr(tflite, "check_free", lambda plans: None)
    monkeypatch.setattr(tflite, "refuse_weak", lambda plan: None)
    monkeypatch.setattr(tflite, "at_temperature", lambda plans: plans)
    monkeypatch.setattr(tflite.convert, "convert", note("convert"))
    monkeypatch.setattr(tflite, "verify", note("verify"))
    monkeypatch.setattr(tflite, "write", lambda verified: verified)
    monkeypatch.setattr(tflite.bundle, "write_card", lambda path, manifest: None)
    request = types.SimpleNamespace(path=pathlib.Path("out/model.tflite"))
    with caplog.at_level("INFO", logger="export"):
        assert tflite.export_file(request) == ["verify", "verify"]
    assert lines == [("convert", 1), ("verify", 2), ("convert", 3), ("verify", 4)]
    assert caplog.messages[:2] == [
        "cpu.tflite: converting to float16",
        "cpu.tflite: checking against the model",
    ]


@pytest.mark.parametrize(
    ("file", "told"),
    [(0.8, "falls by 0.0500"), (0.8501, "rises by 0.0001"), (0.85000001, "unchanged")],
)
def test_a_trial_says_how_its_metric_differs_from_the_models(file, told, caplog):
    metrics = {"model_metrics": {"pearson": 0.85}, "file_metrics": {"pearson": file}}
    trial = results.Trial(name="int8", verdict="good", primary_metric="pearson", **metrics)
    with caplog.at_level(logging.INFO):
        deliver.tell_trial(trial)
    assert caplog.messages == [f"int8: pearson {told}, good"]
