"""A run whose long texts lose their middle: training, file and answers read the same tokens."""

import csv
import json
import pathlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import toys

import tfdistill
from tfdistill import cli, config, errors, manifest, models, weights
from tfdistill.predictor import Predictor
from tfdistill.run import corpora, inputs, labelled
from tfdistill.tokenization.reading import read_tokenizer
from tfdistill.training import pretrain_run

pytestmark = pytest.mark.slow  # a run of 20 seconds
WORDS = ("good", "bad", "film", "story", "dull", "bright", "a", "the", "very", "and")
LENGTH = 12  # tokens; the texts have 20 to 40


def texts(num, seed):
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, random.integers(20, 41))) for _ in range(num)]


@pytest.fixture(autouse=True)
def _weak_is_fine(monkeypatch):
    monkeypatch.setattr("tfdistill.analysis.chance.MARGIN", -10.0)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A teacher and my-data.csv, whose texts are all too long."""
    folder = tmp_path_factory.mktemp("long")
    shape = models.preset("bert_tiny").replace(
        num_layers=2, hidden_size=16, num_heads=4, intermediate_size=32, max_positions=64
    )
    labels = ("negative", "positive")
    toys.write_labelled(folder, WORDS, labels, shape, scale=0.5)
    with (folder / "my-data.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for index, text in enumerate(texts(120, 0)):
            writer.writerow([text, labels[index % 2]])
    return folder


def distilled(place: pathlib.Path, out: str, *more: str) -> list[str]:
    command = ["distill", "--teacher", str(place / "teacher"), "--data", str(place / "my-data.csv")]
    command += ["--student", "pruned:layers=1", "--max-length", str(LENGTH), "--epochs", "1"]
    return [*command, "--min-steps", "4", "--baselines", "none", "--out", str(place / out), *more]


@pytest.fixture(scope="module")
def run(place):
    """The folder of a run with its export."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tfdistill.analysis.chance.MARGIN", -10.0)
        assert cli.main(distilled(place, "run", "--truncation", "middle")) == 0
        options = ["--quantize", "float32", "--lengths", str(LENGTH)]
        options += ["--android", str(place / "app")]
        assert cli.main(["export", str(place / "run"), *options]) == 0
    return place / "run"


def data_section(**values):
    usual = {"task": "own", "text_column": "text", "label_column": "label", **values}
    return config.parse_section(config.DataConfig, usual, source="a test", place="data")


def of_student(run, rows, truncation="middle"):
    """What the run's student answers to texts that a tokenizer cuts: logits."""
    loaded = weights.load_classifier(run / "student" / "hf")
    tokenizer = loaded.tokenizer.replace(truncation=truncation)
    encoded = tokenizer.encode_batch(rows, None, LENGTH)
    assert (encoded.lengths == LENGTH).all()
    ids = encoded.ids.reshape(-1, LENGTH)
    features = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    features["token_type_ids"] = np.zeros_like(ids)
    return np.asarray(loaded.model({name: features[name] for name in loaded.model.input_names}))


def test_file_and_predict_answer_as_the_student_does(run):
    rows = texts(12, 7)
    logits = of_student(run, rows)
    assert np.abs(logits - of_student(run, rows, "end")).max() > 0.01  # the cut matters
    shares = tf.nn.softmax(logits).numpy()
    labels = weights.load_classifier(run / "student" / "hf").labels
    with Predictor(run / "export") as predictor:
        for text, share in zip(rows, shares, strict=True):
            answer = predictor.predict(text)
            assert answer.label == labels[share.argmax()]
            np.testing.assert_allclose(answer.probability, share.max(), atol=1e-5)


def test_the_manifest_requires_readers_that_know_it(run):
    card = manifest.read_manifest(run / "export")
    assert card.tokenizer.truncation == "middle"
    assert card.requires == ("tokenizer.truncation",)
    (bundle,) = run.parent.glob("app/bundles/*/model.json")
    assert json.loads(bundle.read_text())["requires"] == ["tokenizer.truncation"]


def test_the_golden_texts_and_token_vectors_are_cut_so(run):
    golden = json.loads((run / "export" / "golden.json").read_text())["examples"]
    tokenizer = read_tokenizer(run / "export" / "vocab.txt", truncation="middle")
    assert all(example["text"] is not None for example in golden)
    for example in golden:
        assert tokenizer.encode(example["text"], max_length=LENGTH) == example["input_ids"]
    (tokens,) = run.parent.glob("app/bundles/*/tokens.jsonl")
    cases = [json.loads(line) for line in tokens.read_text().splitlines()[1:]]
    cut = [case for case in cases if len(case["text"].split()) > case["max_length"]]
    for case in cut:
        ids = tokenizer.encode(case["text"], case.get("pair"), case["max_length"])
        assert ids == case["input_ids"]
    assert len(cut) > 30


def test_evaluate_and_the_rows_of_a_benchmark_cut_as_the_student_was_trained(run):
    settings = config.saved_recipe(run).data
    assert settings.truncation == "middle"
    tokenizer = read_tokenizer(run / "export" / "vocab.txt", truncation="middle")
    source = inputs.open_source(str(run))
    exported = inputs.open_answerer(str(run / "export"))
    rows = labelled.labelled_rows(
        [run / "export"],
        {"task": "own", "dir": str(run / "data"), "text_column": "text", "label_column": "label"},
    )
    dev = [row.text for row in rows.examples]
    expected = tokenizer.encode_batch(dev, None, LENGTH).ids
    data = tfdistill.load_data(run.parent / "my-data.csv", run, max_length=LENGTH)
    unsaid = settings.model_copy(update={"truncation": None})
    for opened in (source, exported):
        encoded = opened.encode(data.dev_examples, unsaid)
        np.testing.assert_array_equal(encoded.ids, data.dev.encoded.ids)
    np.testing.assert_array_equal(rows.encoded.ids, expected)
    assert data.tokenizer.truncation == "middle"  # that of the model that the run holds
    # A teacher that is not told by its folder answers as the student will read.
    teacher = inputs.open_source(str(run.parent / "teacher"))
    assert teacher.tokenizer.truncation == "end"
    encoded = teacher.encode(data.dev_examples, settings)
    np.testing.assert_array_equal(encoded.ids, data.dev.encoded.ids)
    at_end = tfdistill.load_data(
        run.parent / "my-data.csv", run, max_length=LENGTH, truncation="end"
    )
    assert not np.array_equal(at_end.dev.encoded.ids, data.dev.encoded.ids)


def test_a_resumed_run_cuts_as_it_began(run, capsys):
    for more in ([], ["--truncation", "end"]):
        assert cli.main(distilled(run.parent, "run", "--resume", *more)) == 2
        assert "data.truncation" in capsys.readouterr().err
    assert cli.main(distilled(run.parent, "run", "--resume", "--truncation", "middle")) == 0


def test_stock_readers_are_refused(run, tmp_path, capsys):
    for option in ("hf", "mediapipe"):
        out = ["--out", str(tmp_path / "out"), f"--{option}", str(tmp_path / f"{option}.tflite")]
        assert cli.main(["export", str(run), *out, "--lengths", str(LENGTH)]) == 2
        message = capsys.readouterr().err
        assert "middle" in message or "cuts long texts at their end" in message
        assert not (tmp_path / "out").exists()
    loaded = weights.load_classifier(run / "student" / "hf")
    with pytest.raises(errors.WeightsError, match="loses its middle"):
        weights.save_hf(
            loaded.model,
            tmp_path / "hf",
            labels=loaded.labels,
            tokenizer=loaded.tokenizer,
            for_transformers=True,
        )


def test_a_student_of_that_student_inherits_it_unless_it_is_named(run):
    of_run = str(run / "student" / "hf")
    for named, expected in ((None, "middle"), ("end", "end"), ("middle", "middle")):
        settings = data_section(truncation=named)
        assert corpora.tokenizer_of(settings, of_run).truncation == expected
    settings = data_section(vocab=str(run / "export" / "vocab.txt"))
    assert corpora.tokenizer_of(settings, of_run).truncation == "end"


@pytest.mark.parametrize("kind", ["token", "span"])
def test_a_task_that_reads_long_texts_in_parts_is_refused(kind, place, capsys):
    command = distilled(place, "none", "--truncation", "middle", "--task", "own", "--kind", kind)
    command = [part for part in command if part not in ("--data", str(place / "my-data.csv"))]
    assert cli.main([*command, "--data-dir", str(place)]) == 2
    assert "data.truncation" in (message := capsys.readouterr().err), message
    assert "in several parts" in message


def test_truncation_without_a_task_is_refused():
    with pytest.raises(ValueError, match="none without a task"):
        data_section(task=None, truncation="middle")


@pytest.mark.thorough
def test_a_model_that_reads_more_plain_text_keeps_it(run, tmp_path):
    source = pretrain_run.PretrainSource(str(run / "student" / "hf"), new_head=True)
    (tmp_path / "corpus.txt").write_text("\n".join(texts(40, 1)) + "\n")
    options = config.PretrainConfig(steps=2, batch_size=4, held_out=0.2, evaluations=1)
    out = tmp_path / "out"
    pretrain_run.run_pretraining(source, [tmp_path / "corpus.txt"], out, options, max_length=16)
    assert weights.load_masked_lm(out / "model" / "hf").tokenizer.truncation == "middle"


def test_a_word_vector_student_keeps_it(tmp_path, place):
    shape: Any = models.preset("static").replace(
        vocab_size=5 + len(WORDS), embedding_size=8, dense_size=8
    )
    model = models.build_bilstm(shape, 2)
    for truncation in ("end", "middle"):
        folder = tmp_path / truncation
        folder.mkdir()
        tokenizer = read_tokenizer(place / "vocab.txt", True, truncation)
        weights.save_bilstm(model, folder, labels=("no", "yes"), tokenizer=tokenizer)
        assert weights.load_bilstm(folder).tokenizer.truncation == truncation
    described = json.loads((folder / "classifier.json").read_text())
    del described["checksum"]
    (folder / "classifier.json").write_text(json.dumps({**described, "truncation": "left"}))
    with pytest.raises(errors.WeightsError, match="truncation: expected 'end' or 'middle'"):
        weights.load_bilstm(folder)
