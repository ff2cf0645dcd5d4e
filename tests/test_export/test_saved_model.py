import numpy as np
import planted_outputs
import pytest
import tensorflow as tf

import export
from export.checking.outputs import model_logits, softmax_of
from export.targets import saved_model, text_graph
from tfdistill import errors, models
from tfdistill.tasks import encoded
from tfdistill.tokenization import edge_cases
from tfdistill.tokenization.reading import read_tokenizer

pytestmark = pytest.mark.slow

MAX_LENGTH = 16


@pytest.fixture(scope="module")
def folder(toy, tmp_path_factory):
    place = tmp_path_factory.mktemp("saved") / "model"
    return export.to_saved_model(
        toy.model,
        place,
        tokenizer=toy.vocab_file,
        task=toy.task,
        max_length=MAX_LENGTH,
        check_on=toy.texts,
    )


@pytest.fixture(scope="module")
def loaded(folder):
    return tf.saved_model.load(str(folder))


def test_it_takes_text_and_gives_the_labels_and_scores_of_tokenizer_and_model(loaded, toy):
    texts, pairs = toy.texts.texts, toy.texts.pairs
    answer = loaded.signatures["serving_text_pair"](
        text=tf.constant(texts), pair=tf.constant(pairs)
    )
    logits = model_logits(toy.model, toy.encoded)
    scores = softmax_of(logits)
    assert {name: value.dtype for name, value in answer.items()} == {
        "label": tf.string,
        "score": tf.float32,
        "scores": tf.float32,
    }
    np.testing.assert_allclose(answer["scores"], scores, atol=1e-5)
    np.testing.assert_allclose(answer["score"], scores.max(axis=1), atol=1e-5)
    names = [toy.task.labels[index] for index in logits.argmax(axis=1)]
    assert [label.decode() for label in answer["label"].numpy()] == names
    assert len(set(names)) == 3


def test_a_text_alone_is_no_pair_with_an_empty_text(loaded, toy):
    texts = tf.constant(toy.texts.texts)
    alone = loaded.signatures["serving_text"](text=texts)
    default = loaded.signatures["serving_default"](text=texts)
    paired = loaded.signatures["serving_text_pair"](text=texts, pair=tf.zeros_like(texts))
    tokenizer = read_tokenizer(toy.vocab_file)
    for answer, pairs in ((alone, None), (paired, [""] * len(toy.texts.texts))):
        rows = tokenizer.encode_batch(toy.texts.texts, pairs)
        scores = softmax_of(model_logits(toy.model, rows))
        np.testing.assert_allclose(answer["scores"], scores, atol=1e-5)  # of float32, as above
    assert np.abs(alone["scores"] - paired["scores"]).max() > 1e-4
    for name in alone:
        np.testing.assert_array_equal(alone[name], default[name])
    nothing = loaded.signatures["serving_text"](text=tf.constant([], tf.string))
    assert nothing["label"].shape == (0,) and nothing["scores"].shape == (0, 3)
    other = loaded.signatures["serving_text_pair"](text=texts, pair=texts)
    assert np.abs(alone["scores"] - other["scores"]).max() > 0.01


@pytest.mark.parametrize("max_length", [3, 4, 9, 16, 128])
def test_the_graph_encodes_and_cuts_as_the_tokenizer_does(max_length, toy_vocab_file, rng):
    prompt = "a film: " if max_length in (9, 128) else ""
    tokenizer = read_tokenizer(toy_vocab_file, prompt=prompt)
    texts_of_edges = [
        text
        for text in edge_cases.tokenizer_edge_cases()[::13]
        if text.isascii() or "\ud83d" not in text
    ]
    texts = [*texts_of_edges, "good film " * 40, "", "a", "it is not good ."]
    pairs = [str(text) for text in rng.permutation(texts)]
    for paired in (True, False):
        features = text_graph.encode(
            tokenizer, tf.constant(texts), tf.constant(pairs), max_length, tf.constant(paired)
        )
        rows = tokenizer.encode_batch(texts, pairs if paired else None, max_length)
        mask = features["attention_mask"].numpy() > 0
        np.testing.assert_array_equal(mask.sum(axis=1), np.diff(rows.offsets))
        np.testing.assert_array_equal(features["input_ids"].numpy()[mask], rows.ids)
        np.testing.assert_array_equal(features["token_type_ids"].numpy()[mask], rows.types)
        assert (features["input_ids"].numpy()[~mask] == tokenizer.pad_id).all()
        assert features["token_type_ids"].numpy()[~mask].sum() == 0


@pytest.mark.parametrize("max_length", [3, 4, 5, 10])
def test_pairs_of_any_two_lengths_are_cut_as_the_tokenizer_cuts_them(max_length):
    first, second = (grid.ravel() for grid in np.meshgrid(np.arange(13), np.arange(13)))
    for has_pair in (True, False):
        has = np.full(len(first), has_pair)
        other = second if has_pair else np.zeros_like(second)
        expected = encoded.truncated_lengths(first, other, has, max_length)
        received = text_graph._kept(
            tf.constant(first), tf.constant(other), tf.constant(has.astype(np.int64)), max_length
        )
        np.testing.assert_array_equal(received[0], expected.first)
        np.testing.assert_array_equal(received[1], expected.second)


def small(toy, lively):
    config = toy.config.replace(family="distilbert", num_layers=1, pooler=False, type_vocab_size=0)
    return lively(models.build_classifier(config, 2), seed=3)


def test_a_regression_gives_its_value_and_several_labels_have_a_sigmoid_each():
    value = saved_model._answer((), independent=False)(tf.constant([[0.5], [-3.0]]))
    assert list(value) == ["score"] and value["score"].numpy().tolist() == [0.5, -3.0]
    logits = tf.constant([[0.0, 2.0, 1.0], [-1.0, -2.0, -3.0]])
    outputs = saved_model._answer(("a", "b", "c"), independent=True)(logits)
    np.testing.assert_allclose(outputs["scores"], 1 / (1 + np.exp(-logits.numpy())), rtol=1e-6)
    assert outputs["label"].numpy().tolist() == [b"b", b"a"]
    np.testing.assert_allclose(outputs["score"], [0.880797, 0.268941], rtol=1e-5)


def test_labels_without_names_are_numbers(toy, lively, tmp_path):
    model = small(toy, lively)
    assert saved_model._names(model, None, None) == ("0", "1")
    with pytest.raises(errors.ConfigError):
        export.to_saved_model(
            model, tmp_path / "s", tokenizer=toy.vocab_file, labels=["one", "one"]
        )


VARIATIONS = (  # other ids, cuts and scores are among the rest
    *("ids", "padding attended to", "max_length one longer"),
    *("outputs exchanged", "score of the least label"),
    *("max_length one shorter", "lines of the vocabulary exchanged"),
)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(name, marks=pytest.mark.thorough if name in VARIATIONS else [])
        for name in planted_outputs.SAVED_MODEL
    ],
)
def test_a_planted_fault_is_not_written(fault, toy, lively, tmp_path):
    model, planted = small(toy, lively), planted_outputs.SAVED_MODEL[fault]
    with planted.planted(), pytest.raises(errors.ParityError, match=planted.message):
        export.to_saved_model(
            model,
            tmp_path / "s",
            tokenizer=toy.vocab_file,
            labels=("left", "right"),
            max_length=12,
        )
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_replaced_only_when_told_and_never_one_of_another_kind(folder, toy, tmp_path):
    with pytest.raises(errors.OutputExistsError, match="Use --overwrite"):
        export.to_saved_model(toy.model, folder, tokenizer=toy.vocab_file)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(errors.OutputExistsError, match="neither replaces nor removes"):
        export.to_saved_model(toy.model, tmp_path, tokenizer=toy.vocab_file, overwrite=True)
    assert (tmp_path / "file").read_text() == "mine"


def test_what_cannot_be_served_from_text_is_refused(toy, toy_vocab_file, tmp_path):
    arguments = {"tokenizer": toy.vocab_file}
    tokens = models.build_token_classifier(toy.config, 3)
    with pytest.raises(
        errors.ConfigError, match=r"whole texts, received one with the head 'token'"
    ):
        export.to_saved_model(tokens, tmp_path / "s", **arguments)
    with pytest.raises(errors.ConfigError, match=r"max_length: expected at most 40"):
        export.to_saved_model(toy.model, tmp_path / "s", max_length=41, **arguments)
    with pytest.raises(errors.DataError):
        export.to_saved_model(toy.model, tmp_path / "s", max_length=2, **arguments)
    many = tmp_path / "vocab.txt"
    many.write_text(toy.vocab_file.read_text() + "one\nmore\n")
    with pytest.raises(errors.VocabularyError):
        export.to_saved_model(toy.model, tmp_path / "s", tokenizer=many)
