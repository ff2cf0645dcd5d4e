"""An export tells each of its long steps before it begins."""

import logging

import pytest

from tfdistill import results
from tfdistill.run import deliver


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
