"""A BiLSTM in a folder: what is saved comes back, and nothing in a foreign folder is executed."""

import contextlib
import io
import json
import zipfile

import h5py
import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from tfdistill import errors, models, tasks, weights
from tfdistill.run import inputs, task_models
from tfdistill.tokenization.reading import read_tokenizer

TASK = tasks.TaskSpec("toy", "text", "label", labels=("no", "maybe", "yes"))
CONFIG = models.BiLstmConfig(
    embedding_size=4, hidden_size=3, dense_size=5, vocab_size=120, dropout=0.1
)
FEATURES = {
    "input_ids": tf.constant([[2, 5, 3], [2, 6, 3]]),
    "attention_mask": tf.constant([[1, 1, 1], [1, 1, 0]]),
    "token_type_ids": tf.constant([[0, 0, 1], [0, 1, 1]]),
}


def answers(model):
    return model({name: FEATURES[name] for name in model.input_names}).numpy()


@pytest.fixture
def save(tmp_path, toy_vocab_file):
    """Saves a fresh BiLSTM, as now or as earlier versions did; returns its answers, too."""

    def write(config=CONFIG, *, as_before=False):
        model = models.build_classifier(config, 3)
        weights.save_bilstm(
            model,
            tmp_path,
            labels=TASK.labels,
            tokenizer=read_tokenizer(toy_vocab_file, lower_case=True),
        )
        if as_before:
            (tmp_path / "model.safetensors").unlink()
            model.save(tmp_path / "model.keras")
        return tmp_path, answers(model)

    return write


@pytest.mark.slow
@pytest.mark.parametrize("as_before", [False, True])
@pytest.mark.parametrize(
    "changes", [{}, {"bidirectional": False}, {"pair_encoding": "siamese"}], ids=str
)
def test_what_was_saved_answers_as_before(save, changes, as_before):
    config = CONFIG.replace(**changes)
    folder, expected = save(config, as_before=as_before)

    opened = inputs.open_source(str(folder))

    assert models.config_of(opened.model) == config
    assert (opened.labels, opened.tokenizer.lower_case) == (TASK.labels, True)
    np.testing.assert_array_equal(answers(opened.model), expected)
    np.testing.assert_array_equal(answers(task_models.open_saved(folder, TASK)), expected)


@pytest.mark.parametrize("changes", [{}, {"dense_size": 5}, {"pair_encoding": "siamese"}], ids=str)
def test_a_static_student_that_was_saved_answers_as_before(save, changes):
    config = models.StaticConfig(embedding_size=4, vocab_size=120).replace(**changes)
    folder, expected = save(config)
    opened = inputs.open_source(str(folder))
    assert models.config_of(opened.model) == config
    np.testing.assert_array_equal(answers(opened.model), expected)


def rewrite(path, name, change):
    """Changes one member of a model.keras."""
    with zipfile.ZipFile(path) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    members[name] = change(members[name])
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in members.items():
            archive.writestr(member, content)


def writes_a_file(target):
    """A layer that calls tf.io.write_file as soon as it is rebuilt from its description."""

    def change(content):
        described = json.loads(content)
        constant = ["_CONSTANT_VALUE", -1, str(target), {"contents": "owned"}]
        described["config"]["layers"].append(
            {
                "module": "keras.layers",
                "class_name": "TFOpLambda",
                "config": {"name": "extra", "function": "io.write_file"},
                "registered_name": "TFOpLambda",
                "name": "extra",
                "inbound_nodes": [constant],
            }
        )
        return json.dumps(described).encode()

    return change


def test_a_model_file_whose_layer_writes_files_writes_none(save, tmp_path):
    folder, expected = save(as_before=True)
    target = tmp_path / "owned.txt"
    rewrite(folder / "model.keras", "config.json", writes_a_file(target))
    with contextlib.suppress(AttributeError):  # the attack is real: Keras runs it in safe mode
        keras.models.load_model(folder / "model.keras", compile=False)
    target.unlink()

    opened = inputs.open_source(str(folder))

    assert not target.exists()
    np.testing.assert_array_equal(answers(opened.model), expected)


def test_a_model_file_of_another_network_is_refused_unread(save, tmp_path):
    folder, _ = save(as_before=True)
    target = str(tmp_path / "owned.txt")
    entry = keras.Input((2,))
    out = keras.layers.Lambda(lambda x: (tf.io.write_file(target, "owned"), x)[1])(entry)
    keras.Model(entry, keras.layers.Dense(2)(out)).save(folder / "model.keras")

    with pytest.raises(errors.WeightsError, match=r"model\.keras: expected finite weights of word"):
        inputs.open_source(str(folder))
    with pytest.raises(errors.WeightsError):
        task_models.open_saved(folder, TASK)

    assert not (tmp_path / "owned.txt").exists()


def link_elsewhere(folder):
    with h5py.File(folder / "elsewhere.h5", "w") as file:
        file["secret"] = np.ones((120, 4), np.float32)

    def change(content):
        memory = io.BytesIO(content)
        with h5py.File(memory, "a") as file:
            group = file["layers/word_embedding/vars"]
            del group["0"]
            group["0"] = h5py.ExternalLink(str(folder / "elsewhere.h5"), "secret")
        return memory.getvalue()

    rewrite(folder / "model.keras", "model.weights.h5", change)


def compress_a_tensor(folder):
    def change(content):
        memory = io.BytesIO(content)
        with h5py.File(memory, "a") as file:
            group = file["layers/word_embedding/vars"]
            del group["0"]
            group.create_dataset("0", (10**6, 10**4), np.float32, chunks=(1000, 100))
        return memory.getvalue()

    rewrite(folder / "model.keras", "model.weights.h5", change)


@pytest.mark.parametrize("attack", [link_elsewhere, compress_a_tensor])
def test_arrays_of_an_old_file_lie_in_it_and_have_their_size(save, attack):
    folder, _ = save(as_before=True)
    attack(folder)
    with pytest.raises(errors.WeightsError, match=r"model\.keras: expected"):
        inputs.open_source(str(folder))


def test_damaged_files_are_refused_by_name(save):
    folder, _ = save()
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:-40])
    with pytest.raises(errors.WeightsError, match="a whole safetensors file"):
        weights.load_bilstm(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(errors.WeightsError, match=r"model\.keras.*No such file.*--resume"):
        weights.load_bilstm(folder)
    (folder / "classifier.json").write_text('{"labels": "yes", "lower_case": true}')
    with pytest.raises(errors.WeightsError, match="a list of labels"):
        weights.load_bilstm(folder)
