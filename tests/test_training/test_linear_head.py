"""A linear head over pooled states, of an encoder frozen or fine-tuned on pairs of rows."""

import gc
import json

import numpy as np
import pytest
import sklearn.linear_model
import tf_keras as keras
import toys

import export
import tfdistill
from tfdistill import analysis, config, errors, models, tasks, training, weights
from tfdistill.commands import export_targets
from tfdistill.data import from_config, task_data, vocab
from tfdistill.run import teachers
from tfdistill.tasks import splitting
from tfdistill.tflite import TfliteModel
from tfdistill.training import linear_head

pytestmark = pytest.mark.slow

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
    weights.save_hf(encoder, folder / "bert", tokenizer=folder / "vocab.txt")
    sentences = toys.randomise(models.build_embedder(SHAPE, pooling="max"), seed=2)
    weights.save_hf(sentences, folder / "sentences", tokenizer=folder / "vocab.txt")
    return folder


def load(folder, **settings):
    return tfdistill.load_data(
        folder, tokenizer=folder / "vocab.txt", task="t", text_column="text", label_column="label",
        cross_fitted=True, dev_split="train", max_length=16, **settings,
    )  # fmt: skip


def fitted(folder, out, source="sentences", **settings):
    data = load(folder)
    settings = config.FineTuneConfig(**{"method": "frozen", **settings})
    model = weights.load_model(
        folder / source, "sequence", num_labels=3, new_head=True, pooled=True
    ).model
    return model, data, training.fit_linear_head(model, data, settings, out)


def test_only_the_head_changes_and_it_sees_the_states_that_the_folder_pools(folder, tmp_path):
    model, data, result = fitted(folder, tmp_path)
    head = models.read_head(model)
    assert (head.kind, head.num_labels, head.pooled) == ("sequence", 3, True)
    assert (head.pooling, head.normalize) == ("max", True)
    assert result.steps == 0
    vectors = models.predict_logits(weights.load_embedder(folder / "sentences").model, data.dev)
    kernel, bias = model.get_layer("classifier").get_weights()
    logits = models.predict_logits(model, data.dev)
    np.testing.assert_allclose(logits, vectors @ kernel + bias, atol=1e-4)
    assert np.mean(logits.argmax(axis=1) == data.train_examples.labels) > 0.9
    assert models.read_head(fitted(folder, tmp_path, "bert")[0]).pooling == "mean"


def test_rows_left_out_are_answered_worse_than_rows_that_trained(folder, tmp_path):
    model, data, _ = fitted(folder, tmp_path)
    unseen = training.read_unseen(tmp_path)
    seen = models.predict_logits(model, data.dev)
    labels = data.train_examples.labels
    likelihood = [z[np.arange(len(z)), labels].mean() - z.mean() for z in (seen, unseen)]
    assert unseen.shape == seen.shape and likelihood[0] > likelihood[1]


STEPS = {"method": "contrastive", "epochs": 1, "min_steps": 30, "learning_rate": 1e-2}


def test_an_encoder_learns_pairs_of_rows_and_rows_left_out_were_not_seen(folder, tmp_path, capsys):
    before, _, _ = fitted(folder, tmp_path / "frozen", "bert")
    capsys.readouterr()
    gc.disable()  # which would end what was left open
    try:
        model, data, result = fitted(folder, tmp_path / "pairs", "bert", **STEPS)
    finally:
        gc.enable()
    assert result.steps == 30
    bars = capsys.readouterr().err.rstrip().split("\n")  # each ends before the next begins
    assert len(bars) == 6
    for part, bar in zip(
        ("all rows", *(f"without fold {i}" for i in range(1, 6))), bars, strict=True
    ):
        assert bar.count("model, ") == bar.count(f"model, {part}:") and "100%" in bar
    labels = data.train_examples.labels
    states = [
        models.predict_logits(keras.Model(m.inputs, m.get_layer("classifier").input), data.dev)
        for m in (before, model)
    ]

    for one in (before, model):  # the encoder learns, the vectors of words stay
        same = np.array_equal(
            one.get_layer("layer_0_query").get_weights()[0],
            before.get_layer("layer_0_query").get_weights()[0],
        )
        assert same is (one is before)
    words = [m.get_layer("word_embeddings").get_weights()[0] for m in (before, model)]
    np.testing.assert_array_equal(*words)

    def apart(vectors):
        cosines = (v := vectors / np.linalg.norm(vectors, axis=1, keepdims=True)) @ v.T
        same = labels[:, None] == labels
        return cosines[same].mean() - cosines[~same].mean()

    assert apart(states[1]) > apart(states[0]) + 0.3
    # Each fold again, by a model that starts anew: what was trained before leaves no trace.
    folds = splitting.folds_of(labels)
    fold = folds == 0
    again = weights.load_model(
        folder / "bert", "sequence", num_labels=3, new_head=True, pooled=True
    )
    trainer = linear_head._ContrastiveTrainer(again.model, data, config.FineTuneConfig(**STEPS), 0)
    assert not trainer._distiller.drops
    trainer.fit(np.flatnonzero(~fold), "")
    vectors = linear_head._States(again.model, data.train.encoded)()
    penalty = analysis.fit_head(states[1], labels, 3).penalty
    kernel, bias = analysis.fit_regression(vectors[~fold], labels[~fold], 3, penalty)
    unseen = training.read_unseen(tmp_path / "pairs")[fold]
    ratio = (vectors[fold] @ kernel + bias) / unseen
    temperature = np.median(ratio)
    np.testing.assert_allclose(ratio, temperature, rtol=1e-2)
    whole, _ = analysis.fit_regression(states[1], labels, 3, penalty)
    received = model.get_layer("classifier").get_weights()[0]
    np.testing.assert_allclose(received, whole / temperature, rtol=2e-2, atol=1e-3)


def test_the_folder_is_the_model_and_still_a_sentence_encoder(folder, tmp_path):
    model, data, _ = fitted(folder, tmp_path / "fit")
    labels = data.task.labels
    saved = weights.save_hf(model, tmp_path / "hf", labels=labels, tokenizer=data.tokenizer)
    loaded = weights.load_model(saved, "sequence")
    assert loaded.labels == labels and models.read_head(loaded.model) == models.read_head(model)
    toys.check_equal(model.get_weights(), loaded.model.get_weights())
    written = json.loads((saved / "config.json").read_text())
    assert written["architectures"] == ["BertModel"]
    assert "pooled states" in written["tfdistill"]["only_for_tfdistill"]
    with pytest.raises(errors.ConfigError, match="quickstart --finetune always"):
        export_targets._check_hf(model, "end")  # not "the family bert", which it has
    vectors = [
        models.predict_logits(weights.load_embedder(path).model, data.dev)
        for path in (saved, folder / "sentences")
    ]
    np.testing.assert_array_equal(*vectors)


def test_the_file_answers_like_the_model_and_has_no_figure_on_rows_that_it_learnt(folder, tmp_path):
    model, data, _ = fitted(folder, tmp_path / "fit")
    path = tmp_path / "out" / "model.tflite"
    card = export.to_tflite(model, path, data=data, quantize="float32", lengths=(16,))
    assert card.parity is not None and not card.parity.file_metrics
    assert card.confidence is None and card.task.labels == data.task.labels
    logits = models.predict_logits(model, data.dev)
    with TfliteModel(path) as file:
        answers = np.stack([file.predict(data.dev.encoded.row(row)) for row in range(20)])
    np.testing.assert_allclose(answers, logits, atol=1e-3)


@pytest.mark.parametrize(
    ("part", "agreement"),
    [
        ("layers=2,ffn=32", 1.0),
        pytest.param("layers=2,ffn=24", 0.8, marks=pytest.mark.thorough),
    ],
)
def test_a_part_of_it_answers_by_pooled_states_too(folder, tmp_path, part, agreement):
    data = load(folder)
    shape = SHAPE.replace(vocab_size=data.tokenizer.vocab_size)
    head = models.Head("sequence", 3, pooled=True, pooling="max")
    model = toys.randomise(models.build_model(shape, head), seed=2)
    training.fit_linear_head(model, data, config.FineTuneConfig(method="frozen"), tmp_path)
    student = tfdistill.build_student(f"pruned:{part}", model, data)
    assert models.read_head(student) == models.read_head(model)
    logits = [models.predict_logits(one, data.dev) for one in (model, student)]
    assert np.mean(logits[0].argmax(axis=1) == logits[1].argmax(axis=1)) >= agreement
    if agreement == 1:
        np.testing.assert_allclose(*logits, atol=1e-5)


def test_rows_that_were_learnt_score_nothing_and_numbers_have_no_such_head(folder, tmp_path):
    settings = load(folder).settings
    _, examples = from_config.labelled(settings, "dev", may_hide_labels=True)
    assert len(examples) == 20 and examples.labels is None
    with pytest.raises(errors.DataError, match="the run was cross-validated"):
        from_config.labelled(settings, "dev")
    data = load(folder)
    numbers = tasks.TaskSpec("n", "text", "label", kind="regression")
    model = toys.randomise(models.build_classifier(SHAPE, 1))
    with pytest.raises(errors.ConfigError, match="classes that exclude each other"):
        training.fit_linear_head(
            model,
            type(data)(**{**vars(data), "task": numbers}),
            config.FineTuneConfig(method="frozen"),
            tmp_path,
        )


def recipe(**changes):
    values = {
        "name": "few",
        "data": {"task": "t", "dir": ".", "text_column": "text", "label_column": "label",
                 "cross_fitted": True, "dev_split": "train"},
        "teacher": {"source": "./bert", "finetune": {"method": "frozen"}},
        "student": "teacher",
        "stages": {},
        "variants": {},
    }  # fmt: skip
    for place, value in changes.items():
        section, _, key = place.partition("__")
        values[section] = {**values[section], key: value} if key else value
    return values


@pytest.mark.parametrize(
    ("place", "value", "fault"),
    [
        ("teacher__finetune", {}, "data.cross_fitted"),
        ("data__dev_split", "dev", "data.dev_split"),
        ("student", "tinybert_4l_312d", "data.cross_fitted"),
        ("teacher__source", "preset:bert_base", "teacher.source"),
        ("teacher__finetune", {"method": "frozen", "min_steps": 9}, "teacher.finetune.min_steps"),
        ("teacher__finetune", {"method": "contrastive", "patience": 1}, "finetune.patience"),
        ("baselines", "all", "baselines"),
        ("data__class_weights", "balanced", "data.class_weights"),
    ],
)
def test_what_cannot_be_cross_fitted_is_refused(place, value, fault):
    assert config.parse_recipe(recipe(), source="test").data.cross_fitted
    with pytest.raises(errors.ConfigError, match=fault):
        config.parse_recipe(recipe(**{place: value}), source="test")


TAGGED = ["rain O\nin O\nOslo B-LOC\n", "sun O\nin O\nNew B-LOC\nYork I-LOC\n", "we O\nwake O\n"]


def states_and_head(folder, shape=SHAPE, **data):
    """The data, an encoder's outputs for each text in order, and a loader of new heads."""
    toys.save_encoder(folder, ["rain sun we wake then in Oslo New York"], shape)
    data = tfdistill.load_data(folder, tokenizer=folder / "bert", task="t", **data)
    encoder, rows, states = weights.load_encoder(folder / "bert"), data.train.encoded, []
    for row in range(len(rows)):
        ids, types = rows.row(row)[None], rows.row_types(row)[None].astype(np.int32)
        features = {"input_ids": ids, "token_type_ids": types, "attention_mask": np.ones_like(ids)}
        states.append(encoder({name: features[name] for name in encoder.input_names}))
    return (
        data,
        states,
        lambda: teachers.load_classifier(str(folder / "bert"), data, fresh_head=True),
    )


def regression_over(states, labels):
    """The logits of a penalised regression over centred states of variance 1, for any states."""
    mean, scale = states.mean(axis=0), np.sqrt(states.var(axis=0).mean())
    fitted = sklearn.linear_model.LogisticRegression(C=0.01, max_iter=1000)
    fitted.fit((states - mean) / scale, labels)
    return lambda states: fitted.decision_function((states - mean) / scale)


def test_the_head_of_tags_starts_as_a_regression_where_states_share_a_direction(
    tmp_path, monkeypatch
):
    (tmp_path / "train.conll").write_text("\n".join([*TAGGED * 5, "then O\n", "York B-ORG\n"]))
    (tmp_path / "dev.conll").write_text("\n".join(TAGGED))
    data, outputs, new = states_and_head(tmp_path, kind="token")
    states = np.concatenate([each["sequence_output"][0] for each in outputs])
    rows, labelled = data.train.encoded, data.train.encoded.labels >= 0
    mean = states[labelled].mean(axis=0)
    shared = mean @ mean / np.mean([state @ state for state in states[labelled]])
    monkeypatch.setattr(linear_head, "_SHARED", shared + 1e-3)
    assert np.abs(new().get_layer("token_classifier").kernel.numpy()).max() < 0.1
    monkeypatch.setattr(linear_head, "_SHARED", shared - 1e-3)
    model = new()
    seen = np.append(states[labelled], np.tile(mean, (5, 1)), axis=0)
    expected = regression_over(seen, np.append(rows.labels[labelled], np.arange(5)))(states)
    logits = models.predict_logits(model, task_data.to_evaluate(rows))
    np.testing.assert_allclose(logits, expected, atol=1e-2)
    # I-ORG, which the rows do not have, is the least likely, and not impossible
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert shares.mean(axis=0).argmin() == data.task.labels.index("I-ORG")
    assert shares.min() > 0.005
    # a row is enough where there are more words than are read
    monkeypatch.setattr(linear_head, "_PROBED", 1)
    training.start_head(model, data)
    assert np.isfinite(models.predict_logits(model, data.dev)).all()


@pytest.mark.parametrize("family", ["bert", "distilbert"])
def test_the_head_of_several_labels_starts_as_a_regression_of_each(tmp_path, family):
    rows = ["rain in Oslo\tweather,place", "sun\tweather", "we wake\t", "then in York\tplace"]
    for name, first in (("train", ""), ("dev", "then ")):
        texts = "".join(f"{first}{row}\n" for row in rows * 3)
        (tmp_path / f"{name}.tsv").write_text(f"text\tlabel\n{texts}")
    columns = {"text_column": "text", "label_column": "label"}
    traits = {} if family == "bert" else {"type_vocab_size": 0, "pooler": False}
    shape = SHAPE.replace(family=family, **traits)
    data, outputs, new = states_and_head(tmp_path, shape, kind="multi_label", **columns)
    model = new()
    if family == "bert":
        states = np.concatenate([each["pooled_output"] for each in outputs])
    else:  # a new layer of the head is between
        kernel, bias = model.get_layer("pre_classifier").get_weights()
        first = np.concatenate([each["sequence_output"][:, 0] for each in outputs])
        states = np.maximum(first @ kernel + bias, 0)
    logits = models.predict_logits(model, task_data.to_evaluate(data.train.encoded))
    mean = states.mean(axis=0)
    for number, column in enumerate(data.train.encoded.labels.T):
        seen = regression_over(np.append(states, [mean, mean], axis=0), [*column, 0, 1])
        np.testing.assert_allclose(logits[:, number], seen(states), atol=1e-2)
