"""A head over pooled states of a frozen encoder: fitted, saved, loaded and exported."""

import json

import numpy as np
import pytest
import toys

import export
import tfdistill
from tfdistill import config, errors, models, tasks, training, weights
from tfdistill.commands import export_targets
from tfdistill.data import from_config, vocab
from tfdistill.tflite import TfliteModel

WORDS = {"play": "music", "song": "music", "rain": "weather", "sun": "weather", "wake": "alarm"}
SHAPE = models.EncoderConfig(
    num_layers=2, hidden_size=32, num_heads=2, intermediate_size=32, vocab_size=60,
    max_positions=24,
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An encoder in `bert`, a sentence encoder in `sentences`, rows in train.csv."""
    folder = tmp_path_factory.mktemp("frozen")
    random = np.random.default_rng(0)
    fill = ["please", "now", "the", "it", "then", "we"]
    rows = [f"{random.choice(fill)} {w} {random.choice(fill)},{WORDS[w]}" for w in [*WORDS] * 4]
    (folder / "train.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    vocab.write_vocab(vocab.train_vocab([*rows, *fill], 60), folder / "vocab.txt")
    encoder = toys.randomise(models.build_encoder(SHAPE), seed=1)
    weights.save_hf(encoder, folder / "bert", vocab_file=folder / "vocab.txt")
    sentences = toys.randomise(models.build_embedder(SHAPE, pooling="max"), seed=2)
    weights.save_hf(sentences, folder / "sentences", vocab_file=folder / "vocab.txt")
    return folder


def load(folder, **settings):
    return tfdistill.load_data(
        folder, tokenizer=folder / "vocab.txt", task="t", text_column="text", label_column="label",
        cross_fitted=True, dev_split="train", max_length=16, **settings,
    )  # fmt: skip


def fitted(folder, source="sentences"):
    data = load(folder)
    model = weights.load_model(
        folder / source, "sequence", num_labels=3, new_head=True, pooled=True
    ).model
    return model, data, training.fit_frozen(model, data)


def test_only_the_head_changes_and_it_sees_the_states_that_the_folder_pools(folder):
    model, data, result = fitted(folder)
    head = models.read_head(model)
    assert (head.kind, head.num_labels, head.pooled) == ("sequence", 3, True)
    assert (head.pooling, head.normalize) == ("max", True)
    assert result.steps == 0
    vectors = models.predict_logits(weights.load_embedder(folder / "sentences").model, data.dev)
    kernel, bias = model.get_layer("classifier").get_weights()
    logits = models.predict_logits(model, data.dev)
    np.testing.assert_allclose(logits, vectors @ kernel + bias, atol=1e-4)
    assert np.mean(logits.argmax(axis=1) == data.train_examples.labels) > 0.9
    assert models.read_head(fitted(folder, "bert")[0]).pooling == "mean"


def test_rows_left_out_are_answered_worse_than_rows_that_trained(folder):
    model, data, _ = fitted(folder)
    unseen = training.unseen_logits(model, data)
    seen = models.predict_logits(model, data.dev)
    labels = data.train_examples.labels
    likelihood = [z[np.arange(len(z)), labels].mean() - z.mean() for z in (seen, unseen)]
    assert unseen.shape == seen.shape and likelihood[0] > likelihood[1]


def test_the_folder_is_the_model_and_still_a_sentence_encoder(folder, tmp_path):
    model, data, _ = fitted(folder)
    labels = data.task.labels
    saved = weights.save_hf(model, tmp_path / "hf", labels=labels, vocab_file=data.vocab_file)
    loaded = weights.load_model(saved, "sequence")
    assert loaded.labels == labels and models.read_head(loaded.model) == models.read_head(model)
    for expected, received in zip(model.get_weights(), loaded.model.get_weights(), strict=True):
        np.testing.assert_array_equal(received, expected)
    written = json.loads((saved / "config.json").read_text())
    assert written["architectures"] == ["BertModel"]
    assert "pooled states" in written["tfdistill"]["only_for_tfdistill"]
    with pytest.raises(errors.ConfigError, match="quickstart --finetune always"):
        export_targets._check_hf(model)  # not "the family bert", which it has
    vectors = [
        models.predict_logits(weights.load_embedder(path).model, data.dev)
        for path in (saved, folder / "sentences")
    ]
    np.testing.assert_array_equal(*vectors)


def test_the_file_answers_like_the_model_and_has_no_figure_on_rows_that_it_learnt(folder, tmp_path):
    model, data, _ = fitted(folder)
    path = tmp_path / "out" / "model.tflite"
    card = export.to_tflite(model, path, data=data, quantize="float32", lengths=(16,))
    assert card.parity is not None and not card.parity.file_metrics
    assert card.confidence is None and card.task.labels == data.task.labels
    logits = models.predict_logits(model, data.dev)
    with TfliteModel(path) as file:
        answers = np.stack([file.predict(data.dev.encoded.row(row)) for row in range(20)])
    np.testing.assert_allclose(answers, logits, atol=1e-3)


@pytest.mark.parametrize(
    ("part", "agreement"), [("layers=2,ffn=32", 1.0), ("layers=2,ffn=24", 0.8)]
)
def test_a_part_of_it_answers_by_pooled_states_too(folder, part, agreement):
    data = load(folder)
    shape = SHAPE.replace(vocab_size=data.tokenizer.vocab_size)
    head = models.Head("sequence", 3, pooled=True, pooling="max")
    model = toys.randomise(models.build_model(shape, head), seed=2)
    training.fit_frozen(model, data)
    student = tfdistill.build_student(f"pruned:{part}", model, data)
    assert models.read_head(student) == models.read_head(model)
    logits = [models.predict_logits(one, data.dev) for one in (model, student)]
    assert np.mean(logits[0].argmax(axis=1) == logits[1].argmax(axis=1)) >= agreement
    if agreement == 1:
        np.testing.assert_allclose(*logits, atol=1e-5)


def test_rows_that_a_finished_model_has_learnt_have_no_labels_to_score_it(folder):
    settings = load(folder).settings
    _, examples = from_config.labelled(settings, "dev", may_hide_labels=True)
    assert len(examples) == 20 and examples.labels is None
    with pytest.raises(errors.DataError, match="the run was cross-validated"):
        from_config.labelled(settings, "dev")


def test_numbers_have_no_such_head(folder):
    data = load(folder)
    numbers = tasks.TaskSpec("n", "text", "label", kind="regression")
    model = toys.randomise(models.build_classifier(SHAPE, 1))
    with pytest.raises(errors.ConfigError, match="classes that exclude each other"):
        training.fit_frozen(model, type(data)(**{**vars(data), "task": numbers}))


def recipe(**changes):
    values = {
        "name": "few",
        "data": {"task": "t", "dir": ".", "text_column": "text", "label_column": "label",
                 "cross_fitted": True, "dev_split": "train"},
        "teacher": {"source": "./bert", "finetune": {"frozen": True}},
        "student": "teacher",
        "stages": {},
        "variants": {},
    }  # fmt: skip
    for place, value in changes.items():
        section, _, key = place.partition("__")
        values[section] = {**values[section], key: value} if key else value
    return values


def test_no_toy_stands_for_a_frozen_encoder():
    with pytest.raises(errors.ConfigError, match="received a frozen encoder"):
        config.scaled_down(config.parse_recipe(recipe(), source="test"))


@pytest.mark.parametrize(
    ("place", "value", "fault"),
    [
        ("teacher__finetune", {}, "data.cross_fitted"),
        ("data__dev_split", "dev", "data.dev_split"),
        ("student", "tinybert_4l_312d", "data.cross_fitted"),
        ("teacher__source", "preset:bert_base", "teacher.finetune.frozen"),
        ("baselines", "all", "baselines"),
        ("data__class_weights", "balanced", "data.class_weights"),
    ],
)
def test_what_cannot_be_cross_fitted_is_refused(place, value, fault):
    assert config.parse_recipe(recipe(), source="test").data.cross_fitted
    with pytest.raises(errors.ConfigError, match=fault):
        config.parse_recipe(recipe(**{place: value}), source="test")
