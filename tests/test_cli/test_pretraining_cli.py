"""data vocab, data prepare, pretrain: from text to a model on the command line."""

import json

import pytest

from tfdistill import cli, training
from tfdistill.data import synthetic, vocab
from tfdistill.tokenization import words as tokenizer_words
from tfdistill.tokenization.reading import read_vocab
from tfdistill.training import pretrain_run


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "corpus.txt"
    path.write_text(synthetic.generate_corpus(60, seed=1), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def vocab_file(text):
    path = text.parent / "vocab.txt"
    assert cli.main(["data", "vocab", str(text), "--out", str(path), "--size", "150"]) == 0
    return path


@pytest.fixture
def prepare(text, vocab_file):
    command = ["data", "prepare", str(text), "--vocab", str(vocab_file), "--max-length", "24"]
    return lambda out, *more: cli.main([*command, "--out", str(out), *more])


def last_json(capsys):
    return json.loads(capsys.readouterr().out)


def test_a_vocabulary_is_learnt_from_files(text, vocab_file, tmp_path, capsys):
    tokens = read_vocab(vocab_file)
    assert tokens == vocab.train_vocab([text.read_text()], 150)
    arguments = ["data", "vocab", str(text), "--out", str(vocab_file)]
    assert cli.main(arguments) == 2
    assert "Use --overwrite" in capsys.readouterr().err
    out = str(tmp_path / "cased.txt")
    arguments = ["data", "vocab", str(text), "--out", out, "--size", "400", "--cased", "--json"]
    assert cli.main(arguments) == 0
    result = last_json(capsys)
    cased = read_vocab(out)
    assert result["num_tokens"] == len(cased) <= 400
    assert any(token[0].isupper() for token in cased if token[0] != "[")
    assert not any(token[0].isupper() for token in tokens if token[0] != "[")
    assert result["num_words"] == len(
        tokenizer_words.split_texts([text.read_text()], lower_case=False)
    )


def test_a_corpus_is_prepared_resumed_and_replaced(prepare, tmp_path, capsys):
    arguments = tmp_path / "shards", "--shard-mb", "0.004", "--json"
    assert prepare(*arguments) == 0
    result = last_json(capsys)
    assert result["num_shards"] > 3 and result["num_examples"] > 60
    assert prepare(*arguments) == 2
    assert "--resume to continue" in capsys.readouterr().err
    assert prepare(*arguments, "--resume") == 0
    assert last_json(capsys) == result
    assert prepare(*arguments, "--overwrite", "--next-sentence", "--seed", "3") == 0
    manifest = json.loads((tmp_path / "shards" / "corpus.json").read_text())
    assert manifest["settings"]["next_sentence"] and manifest["settings"]["seed"] == 3


def test_a_runner_takes_the_rest_of_the_line(prepare, tmp_path, capsys):
    options = ["--shard-mb", "0.004", "--json"]
    assert prepare(tmp_path / "here", *options) == 0
    result = last_json(capsys)
    runner = ["--runner", "DirectRunner", "--direct_num_workers", "2"]
    runner += ["--direct_running_mode", "multi_threading"]
    assert prepare(tmp_path / "there", *options, *runner) == 0
    assert last_json(capsys) == {**result, "folder": str(tmp_path / "there")}
    for name in ("corpus.json", "part-00002.tfrecord"):
        written = (tmp_path / "there" / name).read_bytes()
        assert written == (tmp_path / "here" / name).read_bytes()


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        (["Flinq"], "Flinq"),
        ([], "expected a name"),
        (["--direct_num_workers=2"], "expected a name"),
        (["DirectRunner", "--seed=4"], "--seed: expected before --runner"),
        (["DirectRunner", "--direct_num_worker", "2"], "--direct_num_workers"),
    ],
)
def test_a_strange_runner_is_misuse(rest, message, prepare, tmp_path, capsys):
    try:
        code = prepare(tmp_path / "out", "--runner", *rest)
    except SystemExit as stopped:
        code = stopped.code
    assert code == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.fixture
def seen(monkeypatch, tmp_path):
    """What `tfdistill pretrain` asks for, with its files there."""
    seen = {}

    def stand_in(*positional, **options):
        seen.update(positional=positional, options=options)
        return {"held_out": {"mlm_loss": 1.25}, "model_folder": "model/hf"}

    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b.txt", "v.txt"):
        (tmp_path / name).touch()
    monkeypatch.setattr(pretrain_run, "run_pretraining", stand_in)
    return seen


def test_the_options_of_pretrain_reach_the_training(seen, capsys):
    options = (
        "--shape num_layers=3 --shape dropout=0.2 --vocab v.txt --cased --steps 70 --batch-size 9 "
        "--set optimizer=lamb --learning-rate 0.1 --next-sentence --set smoothing=0.7 --resume "
        "--set held_out=0.2 --seed 4 --max-length 50 --workers 2 --on-invalid replace "
        "--set evaluations=5 --gpus 3"
    )
    command = "pretrain bert_tiny --corpus a.txt b.txt --out out"
    assert cli.main([*command.split(), *options.split()]) == 0
    source, corpus, out, config = seen["positional"]
    assert source == pretrain_run.PretrainSource(
        "bert_tiny",
        vocab_file="v.txt",
        lower_case=False,
        overrides={"num_layers": 3, "dropout": 0.2},
    )
    assert (corpus, out) == (["a.txt", "b.txt"], "out")
    assert config == training.PretrainConfig(
        steps=70,
        batch_size=9,
        optimizer="lamb",
        learning_rate=0.1,
        next_sentence=True,
        smoothing=0.7,
        held_out=0.2,
        evaluations=5,
    )
    assert seen["options"] == {
        "max_length": 50,
        "workers": 2,
        "on_invalid": "replace",
        "seed": 4,
        "devices": 3,
        "resume": True,
        "overwrite": False,
    }
    shown = capsys.readouterr().out
    assert "mlm_loss: 1.2500" in shown and "out/model/hf" in shown


def test_the_options_left_out_are_the_defaults_of_the_configuration(seen):
    assert cli.main(["pretrain", "x", "--corpus", "a.txt", "--out", "o"]) == 0
    source, _, _, config = seen["positional"]
    assert config == training.PretrainConfig()
    assert source == pretrain_run.PretrainSource("x")


def test_a_strange_override_is_misuse(capsys):
    arguments = "pretrain bert_tiny --corpus c --out o --shape num_layers=six".split()
    assert cli.main(arguments) == 2
    assert "KEY=NUMBER" in capsys.readouterr().err


@pytest.mark.parametrize("size", ["nan", "inf", "0", "-1", "1e-9"])
def test_a_shard_of_no_size_is_refused(size, prepare, tmp_path, capsys):
    assert prepare(tmp_path / "out", "--shard-mb", size) == 1
    expected = "--shard-mb: expected a finite size of at least one byte, received"
    assert expected in capsys.readouterr().err
