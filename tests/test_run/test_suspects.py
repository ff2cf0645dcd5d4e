"""Suspects are known by their texts, whatever the columns of these are called."""

from types import SimpleNamespace

import numpy as np
import toys

import tfdistill
from tfdistill import config
from tfdistill.data import soft_labels
from tfdistill.run import suspects

WORDS = [f"w{letter}" for letter in "abcdefghijklmnop"]


def test_rows_are_dropped_also_where_a_column_of_texts_is_called_answer(tmp_path):
    toys.write_labelled(tmp_path, WORDS, ("no", "yes"), toys.SHALLOW_TEACHER)
    draw = np.random.default_rng(3)
    pairs = [[" ".join(draw.choice(WORDS, 6)) for _ in range(2)] for _ in range(90)]
    lines = [f"{first},{second},{('no', 'yes')[i % 2]}" for i, (first, second) in enumerate(pairs)]
    (tmp_path / "rows.csv").write_text("question,answer,right\n" + "\n".join(lines) + "\n")
    named = {"text_column": "question", "pair_column": "answer", "label_column": "right"}
    data = tfdistill.load_data(tmp_path / "rows.csv", tokenizer=str(tmp_path / "teacher"), **named)
    listed, *others = soft_labels.example_keys(data.train_examples)
    row = ",".join([*listed, "no", "yes", "0.1"])
    header = "question,answer,answer,other_answer,probability"
    (tmp_path / suspects.FILE).write_text(f"{header}\n{row}\n")
    declared = config.ModelAnswersConfig(drop_suspects=True)
    recipe = SimpleNamespace(data=SimpleNamespace(model_answers=declared, cross_fitted=False))
    encoders = SimpleNamespace(soft_labels=None)
    left = suspects.without_suspects(recipe, data, encoders, tmp_path)
    assert soft_labels.example_keys(left.train_examples) == others
    assert len(left.train.encoded) == len(others)
