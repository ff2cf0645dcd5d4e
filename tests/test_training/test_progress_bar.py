"""The bar of a fit has room at any width, and losses as far as they fit beside it."""

import io
import re
import types

import pytest
import tqdm

from tfdistill.training import callbacks

LOSSES = {"loss": 3.21, "logits": 1.5, "hidden_states": 0.25, "attention": 0.125, "words": 1.0}


@pytest.mark.parametrize(("columns", "shown"), [(80, 1), (120, 2), (200, 5)])
def test_the_bar_has_ten_characters_and_the_first_losses(columns, shown, monkeypatch):
    monkeypatch.setattr(tqdm.std, "_screen_shape_wrapper", lambda: lambda _: (columns, 24))
    stream = io.StringIO()
    bar = callbacks.ProgressBar("student, joint (seed 1)", 1000, stream)
    bar.set_model(types.SimpleNamespace(batches_trained=0))
    bar.on_train_begin()
    for step in range(500):
        bar.on_train_batch_end(step, LOSSES)
    bar.close()
    line = stream.getvalue().splitlines()[-1].split("\r")[-1]
    assert len(line) <= columns
    assert len(re.findall(r"\|(.*?)\|", line)[0]) >= 10
    assert re.findall(r"(\w+)=", line) == list(LOSSES)[:shown]
