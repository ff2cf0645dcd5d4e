import os
import subprocess
import sys

import keras as keras3
import numpy as np
import planted_outputs
import pytest
import toys

import export
from export.model import graph
from export.targets import keras3 as bridge
from tfdistill import errors, models
from tfdistill.tflite import agreement

pytestmark = pytest.mark.slow

SHAPE = {"num_layers": 2, "hidden_size": 32, "num_heads": 4, "intermediate_size": 48}
BERT = models.EncoderConfig(**SHAPE, vocab_size=200, max_positions=24)
MOBILE = models.MobileBertConfig(
    **SHAPE,
    vocab_size=200,
    max_positions=24,
    embedding_size=8,
    bottleneck_size=16,
    num_feed_forward=2,
)
# Summed in another order; 24 times the float32 rounding of outputs around 1.
TOLERANCE = 1e-5

MODELS = {
    "tinybert": lambda: models.build_classifier(BERT.replace(family="tinybert"), 3),
    "regression": lambda: models.build_classifier(
        BERT.replace(hidden_act="gelu_tanh", type_vocab_size=0, layer_norm_eps=1e-5), 1
    ),
    "distilbert": lambda: models.build_classifier(
        BERT.replace(family="distilbert", pooler=False, type_vocab_size=0, hidden_act="relu"), 3
    ),
    "token": lambda: models.build_token_classifier(BERT, 4),
    "span": lambda: models.build_span_classifier(BERT),
    "mobilebert": lambda: models.build_classifier(MOBILE, 3),
    "ib_bert": lambda: models.build_classifier(
        MOBILE.replace(normalization="layer_norm", trigram=False, pooler=True), 2
    ),
}


def features_of(model, length=20, count=6):
    lengths = np.random.default_rng(0).integers(3, length, count)
    features = toys.features((length, *lengths))
    return {name: features[name].numpy() for name in model.input_names}


@pytest.mark.parametrize("name", MODELS)
def test_a_keras_3_model_answers_like_the_model(name, lively):
    model = lively(MODELS[name]())
    other = bridge.translate(model)
    assert type(other).__module__.startswith("keras.")
    assert other.count_params() == model.count_params()
    for length in (20, 7):
        features = features_of(model, length)
        expected = model(features).numpy()
        received = np.asarray(other(features, training=False))
        error = np.abs(expected - received).max() / expected.std()
        assert received.shape == expected.shape and error < TOLERANCE, error


def test_a_program_with_keras_3_alone_runs_the_file(lively, tmp_path):
    model = lively(MODELS["mobilebert"]())
    path = export.to_keras(model, tmp_path / "student.keras")
    features = features_of(model)
    np.savez(tmp_path / "features.npz", **features)
    program = f"""
import sys, numpy, keras
model = keras.saving.load_model({str(path)!r})
features = dict(numpy.load({str(tmp_path / "features.npz")!r}))
numpy.save({str(tmp_path / "answer.npy")!r}, model.predict(features, verbose=0))
assert not {{"tf_keras", "tfdistill", "export"}} & set(sys.modules)
"""
    # Importing transformers sets this variable, by which tensorflow then imports tf_keras.
    environment = {key: value for key, value in os.environ.items() if key != "TF_USE_LEGACY_KERAS"}
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path, env=environment)
    answer = np.load(tmp_path / "answer.npy")
    expected = model(features).numpy()
    assert np.abs(answer - expected).max() / expected.std() < TOLERANCE


def test_a_model_whose_layers_are_shared_is_translated_alone(lively):
    model = lively(MODELS["distilbert"]())
    graph.forward(model)  # builds models of some of its layers
    other = bridge.translate(model)
    features = features_of(model)
    np.testing.assert_allclose(other(features), model(features), atol=TOLERANCE)


def test_training_goes_on_in_keras_3_and_its_weights_come_back(lively, tmp_path):
    """What `docs/guides/export.md` shows: plain `fit`, and `set_weights` into our model."""
    student = lively(MODELS["tinybert"]())
    path = export.to_keras(student, tmp_path / "student.keras")
    in_keras3 = keras3.saving.load_model(path, compile=False)
    dropouts = [each for each in in_keras3.layers if isinstance(each, keras3.layers.Dropout)]
    assert [layer.rate for layer in dropouts] == [0.1] * 7
    assert len(in_keras3.trainable_weights) == len(student.trainable_weights)
    features = features_of(student)
    labels = np.arange(7) % 3
    in_keras3.compile(
        keras3.optimizers.Adam(1e-3),
        loss=keras3.losses.SparseCategoricalCrossentropy(from_logits=True),
        run_eagerly=True,
    )
    before = in_keras3.evaluate(features, labels, verbose=0)
    in_keras3.fit(features, labels, epochs=4, batch_size=7, verbose=0)
    assert in_keras3.evaluate(features, labels, verbose=0) < before - 0.1
    in_keras3.save(tmp_path / "trained.keras")

    trained = keras3.saving.load_model(tmp_path / "trained.keras")
    answers = np.asarray(trained(features, training=False))
    assert np.abs(student(features).numpy() - answers).max() > 0.1
    student.set_weights(trained.get_weights())
    np.testing.assert_allclose(student(features), answers, atol=TOLERANCE)


VARIATIONS = (  # of others of the same kind
    "matrix zeroed", "token types exchanged", "no mask", "GELU approximated",
    "second token for the first",
)  # fmt: skip


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(name, marks=pytest.mark.thorough if name in VARIATIONS else [])
        for name in planted_outputs.KERAS
    ],
)
def test_a_planted_fault_is_named_and_the_file_not_written(fault, lively, tmp_path):
    model, planted = lively(models.build_classifier(BERT, 3)), planted_outputs.KERAS[fault]
    with planted.planted(), pytest.raises(errors.ParityError, match=planted.message):
        export.to_keras(model, tmp_path / "student.keras")
    assert list(tmp_path.iterdir()) == []


def test_real_examples_are_compared_too(toy, tmp_path, monkeypatch):
    compared = []
    compare = agreement.compare

    def count(model, file, **options):
        compared.append(len(model))
        return compare(model, file, **options)

    monkeypatch.setattr(agreement, "compare", count)
    export.to_keras(toy.model, tmp_path / "student.keras", check_on=toy.encoded)
    assert compared == [40, 64]


def recurrent():
    sizes = {"vocab_size": 200, "embedding_size": 4, "hidden_size": 4, "dense_size": 4}
    return models.build_classifier(models.BiLstmConfig(**sizes), 2)


@pytest.mark.parametrize(
    ("build", "name", "error", "message"),
    [
        (MODELS["tinybert"], "mine.keras", errors.OutputExistsError, "Use --overwrite"),
        (MODELS["tinybert"], "m.h5", errors.ConfigError, r"ends in .keras"),
        (lambda: models.build_masked_lm(BERT), "m.keras", errors.ConfigError, "head 'masked_lm'"),
        (recurrent, "m.keras", errors.ConfigError, r"layers of the kinds \[.*Lstm"),
    ],
)
def test_neither_an_existing_file_nor_a_model_without_a_counterpart_is_written(
    build, name, error, message, tmp_path
):
    (tmp_path / "mine.keras").write_text("mine")
    with pytest.raises(error, match=message):
        export.to_keras(build(), tmp_path / name)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]
