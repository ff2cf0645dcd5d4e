"""`tfdistill data augment` from files to a training set that the task reads."""

import json

import numpy as np
import pytest
import toys

from tfdistill import cli, models, tasks, weights
from tfdistill.data import parallel

FILMS = tasks.TaskSpec("films", "text", "label", labels=("bad", "good"))
TRAIN = "text\tlabel\nthe film is good\tgood\na bad story .\tbad\ngood films\tgood\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory, toy_vocab_file):
    """A masked language model, word vectors and a task."""
    root = tmp_path_factory.mktemp("augment")
    size = len(toy_vocab_file.read_text().splitlines())
    config = toys.SHALLOW_STUDENT.replace(vocab_size=size, max_positions=40)
    for name, build in (("mlm", models.build_masked_lm), ("encoder", models.build_encoder)):
        weights.save_hf(toys.randomise(build(config)), root / name, tokenizer=toy_vocab_file)
    (root / "vectors.txt").write_text("films 1 0\nmovies 0.9 0.1\nplays 0 1\n")
    (root / "data").mkdir()
    (root / "data" / "train.tsv").write_text(TRAIN)
    (root / "data" / "dev.tsv").write_text("text\tlabel\nnever seen\tgood\n")
    return root


def arguments(folder, out, *more, model="mlm"):
    return [
        *("data", "augment", "--task", "films", "--data-dir", str(folder / "data")),
        *("--text-column", "text", "--label-column", "label"),
        *("--masked-lm", str(folder / model), "--vectors", str(folder / "vectors.txt")),
        *("--out", str(out), "--set", "copies=6", "--set", "candidates=4", *more),
    ]


@pytest.mark.slow
def test_it_writes_a_training_set_that_the_task_reads(folder, tmp_path, capsys):
    assert cli.main(arguments(folder, tmp_path / "out", "--json")) == 0
    result = json.loads(capsys.readouterr().out)
    read = tasks.load_examples(FILMS, tmp_path / "out", "train")
    assert result == {
        "file": str(tmp_path / "out" / "train.tsv"),
        "num_examples": 3,
        "num_rows": len(read),
        "num_augmented": len(read) - 3,
    }
    assert len(read) > 8
    assert read.texts[0] == "the film is good"
    assert not any("never" in text for text in read.texts)
    # "films" has two pieces: its neighbours come from the vectors.
    words = {word for text in read.texts for word in text.split()}
    assert {"movies", "plays"} & words
    assert np.isin(read.labels, [0, 1]).all()


@pytest.mark.slow
def test_workers_of_a_pipeline_load_the_inputs_for_themselves(
    folder, tmp_path, monkeypatch, capsys
):
    assert cli.main(arguments(folder, tmp_path / "here")) == 0
    run = parallel.run_pipeline
    # As in other processes.
    monkeypatch.setattr(parallel, "run_pipeline", lambda *handed_on: run(*handed_on[:3]))
    monkeypatch.chdir(folder)
    relative = arguments(folder.relative_to(folder), tmp_path / "there")
    assert cli.main([*relative, "--runner", "DirectRunner"]) == 0
    here, there = ((tmp_path / place / "train.tsv").read_bytes() for place in ("here", "there"))
    assert here == there
    relative[relative.index("--data-dir") + 1] = "gs://bucket/data"
    assert cli.main([*relative, "--overwrite", "--runner", "DirectRunner"]) == 2
    assert "mount it" in capsys.readouterr().err


def test_a_missing_file_or_head_is_an_error_that_says_what_to_do(folder, tmp_path, capsys):
    arguments_without = arguments(folder, tmp_path / "out")
    arguments_without[arguments_without.index("--vectors") + 1] = str(tmp_path / "none.txt")
    assert cli.main(arguments_without) == 1
    assert "GloVe" in capsys.readouterr().err
    assert cli.main(arguments(folder, tmp_path / "out", model="encoder")) == 1
    assert "mask" in capsys.readouterr().err.lower()
    assert cli.main(arguments(folder, tmp_path / "out", "--set", "copies=0")) == 2
    assert "copies: expected more than 0" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
