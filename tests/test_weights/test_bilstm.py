"""A BiLSTM in a folder: what is saved comes back, and nothing in a foreign folder is executed."""

import json

import numpy as np
import pytest
import tensorflow as tf
import unigrams

from tfdistill import errors, models, tasks, weights
from tfdistill.io import files
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
    """Saves a fresh BiLSTM; returns its answers, too."""

    def write(config=CONFIG):
        model = models.build_classifier(config, 3)
        weights.save_bilstm(
            model,
            tmp_path,
            labels=TASK.labels,
            tokenizer=read_tokenizer(toy_vocab_file, lower_case=True),
        )
        return tmp_path, answers(model)

    return write


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes", [{}, {"bidirectional": False}, {"pair_encoding": "siamese"}], ids=str
)
def test_what_was_saved_answers_as_before(save, changes):
    config = CONFIG.replace(**changes)
    folder, expected = save(config)

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


def test_a_static_student_of_pieces_keeps_them_and_its_prompt(tmp_path):
    tokenizer = unigrams.unigram(prompt="the ")
    config = models.StaticConfig(embedding_size=4, vocab_size=tokenizer.vocab_size, pad_token_id=1)
    model = models.build_classifier(config, 3)
    weights.save_bilstm(model, tmp_path, labels=TASK.labels, tokenizer=tokenizer)
    opened = inputs.open_source(str(tmp_path))
    assert opened.tokenizer.encode("film", "gut") == tokenizer.encode("film", "gut")
    np.testing.assert_array_equal(answers(opened.model), answers(model))
    described = json.loads((tmp_path / "classifier.json").read_text())
    files.atomic_write_json(tmp_path / "classifier.json", {**described, "prompt": 7})
    with pytest.raises(errors.WeightsError, match=r"classifier\.json, prompt: expected a text"):
        weights.load_bilstm(tmp_path)


def test_a_model_file_beside_the_weights_is_never_read(save):
    """A model.keras can name any code to run."""
    folder, expected = save()
    (folder / "model.keras").write_bytes(b"anything")
    np.testing.assert_array_equal(answers(inputs.open_source(str(folder)).model), expected)
    (folder / "model.safetensors").unlink()
    with pytest.raises(errors.WeightsError, match=r"model\.safetensors in"):
        task_models.open_saved(folder, TASK)


def test_damaged_files_are_refused_by_name(save):
    folder, _ = save()
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:-40])
    with pytest.raises(errors.WeightsError, match="a whole safetensors file"):
        weights.load_bilstm(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(errors.WeightsError, match=r"model\.safetensors in .*"):
        weights.load_bilstm(folder)
    (folder / "classifier.json").write_text('{"labels": "yes", "lower_case": true}')
    with pytest.raises(errors.WeightsError, match="a list of labels"):
        weights.load_bilstm(folder)
