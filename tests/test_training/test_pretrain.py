"""Pre-training: figures against loops, resuming bit by bit, folders that others load."""

import csv
import json
import math
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
import toys

from tfdistill import config, errors, models, weights
from tfdistill.data import masking, shard_files, shards, streaming, synthetic, vocab
from tfdistill.io import files, ledger, locks, reading
from tfdistill.tokenization.reading import read_tokenizer, read_vocab
from tfdistill.tokenization.wordpiece import WordPiece
from tfdistill.training import (
    MaskedLmEvaluation,
    PretrainConfig,
    callbacks,
    checkpoints,
    pretrain_run,
)

pytestmark = pytest.mark.slow

SMALL = {
    "num_layers": 1,
    "hidden_size": 16,
    "num_heads": 2,
    "intermediate_size": 24,
    "max_positions": 32,
}
CONFIG = PretrainConfig(
    steps=24,
    batch_size=8,
    learning_rate=0.01,
    warmup=0.2,
    next_sentence=True,
    held_out=0.1,
    evaluations=3,
)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A synthetic corpus and a vocabulary that was learnt from it."""
    folder = tmp_path_factory.mktemp("text")
    written = synthetic.generate_corpus(120, seed=1)
    (folder / "corpus.txt").write_text(written, encoding="utf-8")
    vocab.write_vocab(vocab.train_vocab([written], 160), folder / "vocab.txt")
    return folder


@pytest.fixture(scope="module")
def run(text):
    def start(out, *, name="bert_tiny", config=CONFIG, **options):
        source = pretrain_run.PretrainSource(
            name,
            vocab_file=str(text / "vocab.txt"),
            overrides=options.pop("overrides", SMALL),
            new_head=options.pop("new_head", False),
        )
        corpus = options.pop("corpus", [text / "corpus.txt"])
        options = {"max_length": 24, **options}
        return pretrain_run.run_pretraining(source, corpus, out, config, **options)

    return start


@pytest.fixture(scope="module")
def whole(run, tmp_path_factory):
    """A pre-training from text to folder, uninterrupted, and its metrics."""
    out = tmp_path_factory.mktemp("whole") / "out"
    return out, run(out)


def history(out):
    with open(out / "history.csv", newline="") as file:
        return [
            {name: value for name, value in row.items() if "second" not in name}
            for row in csv.DictReader(file)
        ]


def test_the_losses_fall_and_every_figure_is_there(whole):
    out, metrics = whole
    rows = history(out)
    assert [int(row["step"]) for row in rows] == [8, 16, 24]
    assert float(rows[-1]["mlm"]) < float(rows[0]["mlm"]) - 0.15
    assert float(rows[-1]["val_mlm_loss"]) < float(rows[0]["val_mlm_loss"]) - 0.1
    assert set(metrics["held_out"]) == {
        *("mlm_loss", "mlm_accuracy", "perplexity", "predictions", "nsp_loss", "nsp_accuracy")
    }
    for name, value in metrics["held_out"].items():
        assert float(rows[-1][f"val_{name}"]) == value
    assert metrics["held_out"]["mlm_loss"] < math.log(160)
    assert metrics["steps"] == 24
    assert reading.read_json(out / "metrics.json") == metrics
    settings = json.loads((out / "pretraining.json").read_text())
    assert settings["config"]["learning_rate"] == 0.01 and settings["format_version"] == 1


def test_a_changed_file_of_the_model_is_found_before_it_is_used(whole, tmp_path):
    folder = shutil.copytree(whole[0] / "model", tmp_path / "model") / "hf"
    weights.open_checkpoint(folder)
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-3] ^= 1
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(errors.WeightsError, match="the file that was saved"):
        weights.open_checkpoint(folder)


@pytest.mark.thorough
def test_a_run_that_was_killed_goes_on_to_the_same_weights_and_history(
    run, whole, tmp_path, monkeypatch
):
    save = checkpoints.Checkpoints.save_last

    def killed(store, step):
        save(store, step)
        if step == 10:  # in the middle of the second round
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints.Checkpoints, "save_last", killed)
        patch.setattr(callbacks, "_USUAL_SECONDS", 0.0)
        patch.setattr(callbacks, "_MOST_OF_THE_TIME", math.inf)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "out")
    assert not (tmp_path / "out" / "metrics.json").exists()
    with pytest.raises(errors.OutputExistsError):
        run(tmp_path / "out")
    metrics = run(tmp_path / "out", resume=True)
    expected_out, expected = whole
    assert metrics["held_out"] == expected["held_out"]
    assert history(tmp_path / "out") == history(expected_out)
    file = "model/hf/model.safetensors"
    assert (tmp_path / "out" / file).read_bytes() == (expected_out / file).read_bytes()

    written = tmp_path / "out" / "metrics.json"
    damaged = json.loads(written.read_text())
    damaged["held_out"]["nsp_loss"] = "low"
    files.atomic_write_json(written, damaged)
    measured = run(tmp_path / "out", resume=True)
    assert measured["held_out"] == expected["held_out"]
    assert reading.read_json(written) == measured
    assert (tmp_path / "out" / file).read_bytes() == (expected_out / file).read_bytes()


def outputs(model, features):
    inputs = {name: features[name] for name in model.input_names}
    return {name: value.numpy() for name, value in model(inputs, training=False).items()}


@pytest.fixture(scope="module")
def masked_batch():
    features = toys.features((9, 5, 7))
    mask = tf.constant([[0, 1, 1] + [0] * 6] * 3, tf.int32)
    return {**features, "prediction_mask": mask}


def test_both_saved_models_answer_alike_with_both_heads(whole, masked_batch):
    out, _ = whole
    loaded = weights.load_masked_lm(out / "model" / "hf", next_sentence=True)
    assert loaded.report.fresh == ()
    ours = outputs(loaded.model, masked_batch)
    saved = outputs(keras.models.load_model(out / "model" / "model.keras"), masked_batch)
    assert set(ours) == {"mlm_logits", "nsp_logits"}
    for name, value in ours.items():
        np.testing.assert_array_equal(value, saved[name])
    config = json.loads((out / "model" / "hf" / "config.json").read_text())
    assert config["architectures"] == ["BertForPreTraining"]
    assert loaded.tokenizer.vocab_size == loaded.config.vocab_size


def test_a_finished_run_is_not_done_again_and_another_one_is_refused(run, whole):
    out, metrics = whole
    before = (out / "model" / "hf" / "model.safetensors").stat().st_mtime_ns
    assert run(out, resume=True) == metrics
    assert (out / "model" / "hf" / "model.safetensors").stat().st_mtime_ns == before
    other = CONFIG.model_copy(update={"smoothing": 0.7})
    with pytest.raises(errors.ConfigError, match=r"others: config\.smoothing .*, config\.seed"):
        run(out, resume=True, config=other, seed=9)


def test_shards_that_were_prepared_again_of_other_text_are_refused(run, whole, text, tmp_path):
    shutil.copytree(whole[0] / "corpus", tmp_path / "shards")
    shutil.copytree(whole[0], tmp_path / "out")
    options = {"corpus": [tmp_path / "shards"], "resume": True}
    with pytest.raises(errors.ConfigError, match=r"--resume: .* others: corpus .*, shards"):
        run(tmp_path / "out", **options)  # began with text
    settings = tmp_path / "out" / "pretraining.json"
    began = reading.read_json_object(settings)
    began["corpus"] = ["shards"]
    began["shards"] = ledger.digest_of(tmp_path / "shards", (".json", ".txt"))
    settings.write_text(json.dumps(began))
    run(tmp_path / "out", **options)
    manifest = tmp_path / "shards" / "corpus.json"
    manifest.write_text(manifest.read_text() + " ")
    with pytest.raises(errors.ConfigError, match=r"--resume: .* others: shards"):
        run(tmp_path / "out", **options)


@pytest.mark.thorough
def test_a_checkpoint_without_a_head_is_continued_with_a_new_one(run, whole, tmp_path):
    out, _ = whole
    first = weights.load_model(out / "model" / "hf", "none")
    weights.save_hf(first.model, tmp_path / "encoder", tokenizer=first.tokenizer)
    config = PretrainConfig(steps=1, batch_size=4, learning_rate=1e-9, warmup=0, held_out=0.1)
    options = {"name": str(tmp_path / "encoder"), "overrides": {}, "config": config}
    with pytest.raises(errors.WeightsError):
        run(tmp_path / "out", **options)
    corpus = [out / "corpus"]  # prepared before: taken as it is
    run(tmp_path / "out", new_head=True, corpus=corpus, **options)
    assert not (tmp_path / "out" / "corpus").exists()
    second = weights.load_model(tmp_path / "out" / "model" / "hf", "none")
    before = {variable.name: variable.numpy() for variable in first.model.weights}
    after = {variable.name: variable.numpy() for variable in second.model.weights}
    assert {name for name in before if "pooler" not in name} == set(after)
    for name, value in after.items():
        np.testing.assert_allclose(value, before[name], atol=1e-7, err_msg=name)
    head = weights.load_masked_lm(tmp_path / "out" / "model" / "hf")
    assert models.head_of(head.model) == "masked_lm"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "overrides", "optimizer", "learning_rate"),
    [
        ("distilbert_6l_768d", SMALL, "adamw", 0.01),
        ("tinybert_4l_312d", SMALL, "lamb", 0.01),
        ("mobilebert_6l_128d", {"num_layers": 1, "max_positions": 32}, "lamb", 0.01),
        ("ib_bert_6l_128d", {"num_layers": 1, "max_positions": 32}, "adamw", 0.001),
    ],
)
def test_any_preset_can_be_pretrained(
    run, whole, tmp_path, name, overrides, optimizer, learning_rate
):
    config = PretrainConfig(
        steps=16,
        batch_size=8,
        gradient_accumulation=2,
        optimizer=optimizer,
        learning_rate=learning_rate,
        held_out=0.1,
        evaluations=2,
        smoothing=0.7,
    )
    out = tmp_path / "out"
    metrics = run(out, name=name, overrides=overrides, config=config, corpus=[whole[0] / "corpus"])
    rows = history(out)
    assert float(rows[1]["mlm"]) < float(rows[0]["mlm"])
    reloaded = weights.load_masked_lm(out / "model" / "hf")
    assert reloaded.config.vocab_size <= 160
    assert reloaded.report.fresh == ()
    assert "nsp_loss" not in metrics["held_out"]


@pytest.fixture(scope="module")
def toy_model():
    return toys.randomise(models.build_masked_lm(toys.SHALLOW_STUDENT, next_sentence=True), seed=4)


class FixedBatches:
    """Two batches of unequal size with masks."""

    steps_per_epoch, num_examples = 2, 4

    def __init__(self):
        self.batches = []
        for number, lengths in enumerate(((9, 4, 7), (5,))):
            features = toys.features(lengths, seed=number)
            ids = features["input_ids"].numpy()
            chosen = np.zeros_like(ids)
            chosen[:, : 2 + number] = 1
            labels = np.where(chosen == 1, np.roll(ids, 1, axis=1), -100)
            labels[0, 1] = -100  # an answer without a label counts nowhere
            self.batches.append(
                {
                    **features,
                    "prediction_mask": tf.constant(chosen),
                    "mlm_labels": tf.constant(labels),
                    "nsp_labels": tf.constant([1, 0, 1][: len(lengths)]),
                }
            )

    def dataset(self, *, epochs=1, start_step=0):
        return self.batches


def test_the_figures_are_means_over_positions_and_examples(toy_model):
    losses, hits, nsp_losses, nsp_hits = [], [], [], []
    for features in FixedBatches().batches:
        answers = outputs(toy_model, features)
        labels = features["mlm_labels"].numpy()[features["prediction_mask"].numpy() == 1]
        for logits, label in zip(answers["mlm_logits"].astype(float), labels, strict=True):
            if label >= 0:
                losses.append(math.log(np.exp(logits).sum()) - logits[label])
                hits.append(logits.argmax() == label)
        nsp = zip(answers["nsp_logits"].astype(float), features["nsp_labels"].numpy(), strict=True)
        for logits, label in nsp:
            nsp_losses.append(math.log(np.exp(logits).sum()) - logits[label])
            nsp_hits.append(logits.argmax() == label)
    assert (len(losses), len(nsp_losses)) == (7, 4)
    figures = MaskedLmEvaluation(toy_model, FixedBatches())()
    expected = {
        "mlm_loss": np.mean(losses),
        "mlm_accuracy": np.mean(hits),
        "perplexity": math.exp(np.mean(losses)),
        "predictions": 7,
        "nsp_loss": np.mean(nsp_losses),
        "nsp_accuracy": np.mean(nsp_hits),
    }
    assert list(figures) == list(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(figures[name], value, rtol=1e-5, err_msg=name)


def test_measuring_twice_gives_the_same_and_nothing_masked_is_an_error(toy_model, text, tmp_path):
    tokenizer = read_tokenizer(text / "vocab.txt")
    shape = toys.SHALLOW_STUDENT.replace(vocab_size=tokenizer.vocab_size, dropout=0.5)
    model = models.build_masked_lm(shape)
    shards.prepare_corpus(text / "corpus.txt", tokenizer, tmp_path, max_length=12)
    held_out = shards.ShardedBatches(tmp_path, 32, shuffle=False, limit=40)
    batches = streaming.MappedBatches(held_out, masking.Masker(tokenizer))
    evaluation = MaskedLmEvaluation(model, batches)
    assert evaluation() == evaluation()
    batches = FixedBatches()
    for features in batches.batches:
        features["prediction_mask"] = tf.zeros_like(features["prediction_mask"])
    with pytest.raises(errors.DataError, match="masked positions, received none"):
        MaskedLmEvaluation(toy_model, batches)()


def test_what_does_not_go_together_is_refused_before_training(run, whole, text, tmp_path):
    prepared = whole[0] / "corpus"
    tokenizer = read_tokenizer(text / "vocab.txt")
    alone = CONFIG.model_copy(update={"next_sentence": False})
    shards.prepare_corpus(text / "corpus.txt", tokenizer, tmp_path / "plain", max_length=24)
    with pytest.raises(errors.ConfigError, match="Prepare it with --next-sentence"):
        run(tmp_path / "a", corpus=[tmp_path / "plain"])
    short = {**SMALL, "max_positions": 20}
    with pytest.raises(errors.ConfigError, match=r"at most 20 tokens.*received 24"):
        run(tmp_path / "b", corpus=[prepared], overrides=short, config=alone)
    with pytest.raises(
        errors.ConfigError, match=r"a field of bert_tiny.*Did you mean 'num_layers'"
    ):
        run(tmp_path / "c", corpus=[prepared], overrides={"num_layer": 1})
    with pytest.raises(errors.ConfigError, match="one prepared folder, or text files"):
        run(tmp_path / "d", corpus=[prepared, text / "corpus.txt"])
    with pytest.raises(errors.ConfigError, match="a preset to change"):
        run(tmp_path / "e", name=str(whole[0] / "model" / "hf"), corpus=[prepared])
    changed = [*tokenizer.vocab[:-1], "zzz"]
    vocab.write_vocab(changed, tmp_path / "vocab.txt")
    source = pretrain_run.PretrainSource(
        "bert_tiny", vocab_file=str(tmp_path / "vocab.txt"), overrides=SMALL
    )
    with pytest.raises(errors.VocabularyError, match="received 'zzz'"):
        pretrain_run.run_pretraining(source, [prepared], tmp_path / "f", CONFIG)
    source = pretrain_run.PretrainSource("bert_tiny")
    with pytest.raises(errors.ConfigError, match="tfdistill data vocab"):
        pretrain_run.run_pretraining(source, [text / "corpus.txt"], tmp_path / "g", CONFIG)
    assert not list(tmp_path.rglob("checkpoints"))


def test_a_cased_vocabulary_of_a_preset_stays_one(text, tmp_path):
    tokens = read_vocab(text / "vocab.txt")
    path = tmp_path / "tokenizer.json"
    WordPiece(tokens, lower_case=False).save_json(str(path))
    source = pretrain_run.PretrainSource("bert_tiny", vocab_file=str(path), overrides=SMALL)
    _, tokenizer = pretrain_run._open_model(source, None, CONFIG, tmp_path)
    assert tokenizer.lower_case is False


def test_a_damaged_shard_is_found_before_the_first_step(run, text, tmp_path):
    tokenizer = read_tokenizer(text / "vocab.txt")
    shards.prepare_corpus(
        text / "corpus.txt", tokenizer, tmp_path / "c", max_length=24, next_sentence=True
    )
    (shard,) = shard_files.read_manifest(tmp_path / "c").shards.values()
    path = tmp_path / "c" / shard.file
    damaged = bytearray(path.read_bytes())
    damaged[100] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(errors.DataError):
        run(tmp_path / "out", corpus=[tmp_path / "c"])
    assert not (tmp_path / "out" / "history.csv").exists()


def test_a_folder_of_something_else_is_never_touched(run, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    for options in ({}, {"overwrite": True}, {"resume": True}):
        with pytest.raises(errors.OutputExistsError):
            run(tmp_path, **options)
    assert (tmp_path / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize("option", ["overwrite", "resume"])
def test_a_folder_that_another_pre_training_works_in_is_left_alone(run, option, tmp_path):
    settings = tmp_path / pretrain_run.SETTINGS
    settings.write_text("{}")
    with (
        locks.exclusive_lock(tmp_path),
        pytest.raises(errors.OutputExistsError),
    ):
        run(tmp_path, **{option: True})
    assert settings.is_file()


def test_every_fault_of_a_configuration_is_reported():
    wrong = {"steps": 0, "batch_size": 0, "optimizer": "sgd", "learning_rate": -1.0}
    wrong |= {"held_out": 0.0, "precision": "x"}
    with pytest.raises(errors.ConfigError) as caught:
        config.parse_section(PretrainConfig, wrong, source="command line")
    for name in wrong:
        assert f"{name}: expected" in str(caught.value)
