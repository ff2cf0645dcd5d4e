"""Sentence encoders as files: the vector itself, checked by direction and by neighbours."""

import dataclasses
import json
import zipfile

import numpy as np
import pytest
import tensorflow as tf

import export
from export.checking.outputs import file_outputs, model_logits
from export.targets import token_vectors
from tfdistill import errors, manifest, models
from tfdistill.data.batches import encode_examples
from tfdistill.tasks import Examples, TaskSpec
from tfdistill.tflite import TfliteModel, agreement, inspection
from tfdistill.tokenization.reading import read_tokenizer

LENGTHS = (8, 16)
TASK = TaskSpec("near", "a", "score", "b", kind="embedding")


@pytest.fixture(scope="module")
def embedder(toy, lively):
    """A toy with texts in pairs; gold is what the model itself finds similar."""
    config = toy.config.replace(pooler=False, num_layers=1)
    model = lively(models.build_embedder(config, 24), seed=5)
    random = np.random.default_rng(3)
    texts = [
        " ".join(f"w{random.integers(190)}" for _ in range(random.integers(2, 12)))
        for _ in range(40)
    ]
    examples = Examples(TASK, texts, None, None, paired=True)
    encoded = encode_examples(examples, read_tokenizer(toy.vocab_file), max(LENGTHS))
    vectors = model_logits(model, encoded)
    gold = np.repeat((vectors[0::2] * vectors[1::2]).sum(axis=1), 2).astype(np.float32)
    examples, encoded = (dataclasses.replace(each, labels=gold) for each in (examples, encoded))
    other = {"model": model, "task": TASK, "texts": examples, "encoded": encoded}
    return dataclasses.replace(toy, **other)


@pytest.fixture(scope="module")  # the float32 file is made and checked on the way
def exported(embedder, tmp_path_factory):
    path = tmp_path_factory.mktemp("vectors") / "model.tflite"
    return path, embedder.export(path, quantize="dynamic_wi8_afp32")


@pytest.mark.slow
def test_the_file_gives_the_vectors_of_the_model(embedder, exported):
    path, card = exported
    assert (card.task.kind, card.task.pair) == ("embedding", False)
    file, few = TfliteModel(path), embedder.encoded.select([0, 7])
    assert list(file.outputs) == ["embedding"]
    expected, received = model_logits(embedder.model, few), file_outputs(file, few)
    assert received.shape == (2, 24)
    # Weights and inputs of each product are rounded to 8 bits.
    assert (received * expected).sum(axis=1).min() > 0.97
    np.testing.assert_allclose(np.linalg.norm(received, axis=1), 1, atol=1e-5)


@pytest.mark.slow
def test_the_manifest_says_how_near_the_vectors_are_and_golden_ones_have_each_text(
    embedder, exported
):
    path, card = exported
    record = json.loads((path.parent / "model.json").read_text())["parity"]
    assert 0.97 < record["min_cosine"] < 0.99999
    assert 0.75 < record["neighbour_agreement"] <= 1
    assert record["model_metrics"]["spearman"] == pytest.approx(1, abs=1e-6)
    assert record["file_metrics"]["spearman"] > 0.97
    assert 2 * record["num_scored"] == record["num_examples"]  # pairs of texts
    assert manifest.read_manifest(path) == card
    golden = json.loads((path.parent / "golden.json").read_text())["examples"]
    assert {entry["pair"] for entry in golden} == {None}
    assert {entry["text"] for entry in golden} <= set(embedder.texts.texts)
    assert {len(entry["outputs"]) for entry in golden} == {24}


def test_neighbours_equal_a_loop():
    vectors = np.random.default_rng(1).standard_normal((9, 3))
    received = agreement.neighbours(vectors, 3)
    for index, row in enumerate(vectors):
        cosines = {
            other: row @ x / (np.linalg.norm(row) * np.linalg.norm(x))
            for other, x in enumerate(vectors)
            if other != index
        }
        assert received[index].tolist() == sorted(cosines, key=cosines.get, reverse=True)[:3]
    vectors[4] = np.nan
    assert (agreement.neighbours(vectors, 1) == -1).all()


def test_vectors_are_compared_by_direction_and_by_their_ten_nearest():
    random = np.random.default_rng(2)
    model = random.standard_normal((30, 5))
    same = agreement.compare_vectors(model, 2 * model)
    assert same == {"min_cosine": pytest.approx(1), "neighbour_agreement": 1.0}
    other = model.copy()
    other[7] = -other[7]
    received = agreement.compare_vectors(model, other)
    assert received["min_cosine"] == pytest.approx(-1)
    assert 0.5 < received["neighbour_agreement"] < 1
    strange = agreement.compare_vectors(model, random.standard_normal((30, 5)))
    assert strange["neighbour_agreement"] < 0.6  # of 29 others by chance 10 / 29
    assert agreement.compare_vectors(model[:1], model[:1]) == {"min_cosine": pytest.approx(1)}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"softmax": True}, "softmax: expected classes that exclude each other"),
        ({"labels": ("a", "b")}, "labels: expected 0 different names"),
        ({"metadata": True}, "MediaPipe runs files of one length"),
        ({"task": TaskSpec("t", "a", "b", labels=("x", "y"))}, "a model for classification"),
    ],
)
def test_what_vectors_do_not_have_is_refused(embedder, tmp_path, changes, expected):
    with pytest.raises(errors.ConfigError, match=expected):
        embedder.export(tmp_path / "m.tflite", **changes)


@pytest.mark.slow
def test_a_bundle_and_a_copy_for_mediapipe_have_the_same_vectors_and_each_text(
    embedder, exported, tmp_path, monkeypatch
):
    monkeypatch.setattr(token_vectors, "tokenizer_edge_cases", lambda: ["w1 w2"])
    folder = export.to_android(exported[0], tmp_path / "assets", texts=embedder.texts)
    assert manifest.read_manifest(folder) == exported[1]
    lines = [json.loads(line) for line in (folder / "tokens.jsonl").read_text().splitlines()]
    assert {line["text"] for line in lines[1:] if "pair" not in line} >= set(embedder.texts.texts)

    copy = export.to_mediapipe(exported[0], tmp_path / "copy.tflite", length=16)
    received = inspection.inspect(copy)
    assert received.signatures.keys() == {"len16"} and "TFLITE_METADATA" in received.metadata
    ids = embedder.encoded.row(3)
    expected = TfliteModel(exported[0]).predict(ids, length=16)
    np.testing.assert_array_equal(TfliteModel(copy).predict(ids), expected)
    with zipfile.ZipFile(copy) as archive:
        assert archive.namelist() == ["vocab.txt"]


@pytest.mark.slow
def test_a_saved_model_gives_vectors_from_text(embedder, tmp_path):
    model, texts = embedder.model, embedder.texts
    options = {"tokenizer": embedder.vocab_file, "max_length": 16, "check_on": texts}
    folder = export.to_saved_model(model, tmp_path / "saved", **options)
    loaded = tf.saved_model.load(str(folder))
    assert set(loaded.signatures) == {"serving_text", "serving_default"}
    received = loaded.signatures["serving_text"](text=tf.constant(texts.texts))
    # The same products in batches of another size.
    np.testing.assert_allclose(
        received["embedding"], model_logits(model, embedder.encoded), atol=1e-5
    )
