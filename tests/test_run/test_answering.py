"""`tfdistill answers`: a row for each different text, labels by name, resumable."""

import json

import numpy as np
import pytest
import toys

from tfdistill import cli, models, tasks, training, weights
from tfdistill.data import batches
from tfdistill.tokenization.reading import read_tokenizer
from tfdistill.training import teachers as training_teachers

LABELS = ("glad", "sad")  # of the model; the files have them in another order
TRAIN = "text\tmood\ngood film\tglad\nbad film\tsad\ngood film\tglad\nGood film\tglad\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory, toy_vocab_file):
    folder = tmp_path_factory.mktemp("answering")
    (folder / "train.tsv").write_text(TRAIN)
    (folder / "dev.tsv").write_text("text\tmood\nbad story\tsad\ngood story\tglad\n")
    (folder / "more.txt").write_text("a play\nbad film\n")
    size = len(toy_vocab_file.read_text().splitlines())
    shape = models.preset("bert_tiny").replace(
        num_layers=1, hidden_size=8, num_heads=2, intermediate_size=8, vocab_size=size
    )
    model = models.build_random(shape, models.Head("sequence", 2))
    weights.save_hf(model, folder / "teacher", labels=LABELS, tokenizer=toy_vocab_file)
    return folder


def command(folder, out, *options):
    return [
        *("answers", str(folder / "teacher"), "--task", "moods", "--data-dir", str(folder)),
        *("--text-column", "text", "--label-column", "mood", "--out", str(out), *options),
    ]


def expected(folder, texts):
    """The model's logits of each text alone, in the order of its labels."""
    spec = tasks.TaskSpec("moods", "text", "mood", labels=LABELS)
    tokenizer = read_tokenizer(folder / "teacher" / "vocab.txt")
    encoded = batches.encode_examples(tasks.Examples(spec, texts, None, None), tokenizer, 128)
    model = weights.load_classifier(folder / "teacher").model
    return training.predict_logits(model, batches.Batches(encoded, shuffle=False))


@pytest.mark.slow
def test_every_different_text_is_answered_once(folder, tmp_path, capsys):
    path = tmp_path / "a.jsonl"
    more = ("--unlabelled", str(folder / "more.txt"))
    assert cli.main(command(folder, path, *more, "--json")) == 0
    assert json.loads(capsys.readouterr().out) == {"file": str(path), "num_texts": 6}
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    texts = ["good film", "bad film", "Good film", "bad story", "good story", "a play"]
    assert [row["text"] for row in rows] == texts
    logits_of_rows = [[row[f"logits.{name}"] for name in LABELS] for row in rows]
    np.testing.assert_allclose(logits_of_rows, expected(folder, texts), rtol=1e-4, atol=1e-5)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_stopped_command_goes_on_where_it_was(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(training_teachers, "BLOCK", 2)
    assert cli.main(command(folder, tmp_path / "whole.parquet")) == 0
    stopped, calls = toys.stopping(models.predictor, call=2)
    monkeypatch.setattr(models, "predictor", stopped)
    path = tmp_path / "a.parquet"
    assert cli.main(command(folder, path)) == 130
    assert not path.exists()
    assert cli.main(command(folder, path)) == 0
    assert calls == [2, 2, 2, 1]
    assert path.read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.parquet", "whole.parquet"]
    assert cli.main(command(folder, path)) == 2
    assert "Use --overwrite" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--out", "a.txt"), "one of .jsonl, .csv, .parquet, received .txt"),
        (("--split", "train,tset"), "tset"),
        (("--task", "squad"), "answers inside texts"),
    ],
)
def test_what_cannot_be_answered_is_refused(options, message, folder, tmp_path, capsys):
    line = command(folder, tmp_path / "a.csv", *options)
    if "squad" in line:
        text = {"data": [{"paragraphs": []}]}
        for name in ("train", "dev"):
            (tmp_path / f"{name}-v1.1.json").write_text(json.dumps(text))
        line = [*line[:2], "--task", "squad", "--data-dir", str(tmp_path), "--out", line[11]]
    assert cli.main(line) != 0
    assert message in capsys.readouterr().err
    assert not list(tmp_path.glob("a*"))
