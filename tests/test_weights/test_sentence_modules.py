import dataclasses
import json
import shutil

import numpy as np
import pytest
import safetensors.numpy
import toys
from test_weights.edits import edit_json

from tfdistill import errors, models, weights

CONFIG = toys.STUDENT.replace(num_layers=1, pooler=False)
DENSE = models.Head("embedding", 5, pooling="cls", projection="tanh")
PLAIN = models.Head("embedding", CONFIG.hidden_size, pooling="mean", normalize=False)
POOLING = "1_Pooling/config.json"


def answers(model):
    features = toys.features((4, 2), seed=3)
    return model({name: features[name] for name in model.input}).numpy()


@pytest.fixture(scope="module")  # no test changes it
def model():
    return toys.randomise(models.build_model(CONFIG, DENSE), 1)


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    return weights.save_hf(model, tmp_path_factory.mktemp("saved") / "saved")


@pytest.fixture
def folder(saved, tmp_path):
    """A copy of the saved model, to be changed."""
    return shutil.copytree(saved, tmp_path / "saved")


@pytest.mark.parametrize("head", [DENSE, PLAIN], ids=["dense", "plain"])
def test_a_saved_sentence_encoder_comes_back_whole(head, tmp_path):
    model = toys.randomise(models.build_model(CONFIG, head), 2)
    loaded = weights.load_embedder(weights.save_hf(model, tmp_path / "saved"))
    assert models.read_head(loaded.model) == head
    np.testing.assert_array_equal(answers(loaded.model), answers(model))
    assert not loaded.report.fresh
    assert not loaded.report.ignored


def test_the_folder_is_that_of_sentence_transformers(folder, model):
    modules = json.loads((folder / "modules.json").read_text())
    kinds = [module["type"].rpartition(".")[2] for module in modules]
    assert kinds == ["Transformer", "Pooling", "Dense", "Normalize"]
    assert [module["path"] for module in modules] == ["", "1_Pooling", "2_Dense", "3_Normalize"]
    pooling = json.loads((folder / POOLING).read_text())
    assert [key for key, value in pooling.items() if value is True] == ["pooling_mode_cls_token"]
    dense = safetensors.numpy.load_file(folder / "2_Dense/model.safetensors")
    assert {key: value.shape for key, value in dense.items()} == {
        "linear.weight": (5, CONFIG.hidden_size),
        "linear.bias": (5,),
    }
    transformers = pytest.importorskip("transformers")
    config = transformers.AutoConfig.from_pretrained(folder)
    assert config.architectures == ["BertModel"]
    held = safetensors.numpy.load_file(folder / "model.safetensors")
    assert not any("vector" in key or key.startswith("bert.") for key in held)


def test_pooling_settings_and_encoder_are_read_where_they_may_lie(model, folder, tmp_path):
    old = {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
    edit_json(folder / POOLING, pooling_mode="cls", **old)
    np.testing.assert_array_equal(answers(weights.load_embedder(folder).model), answers(model))
    (folder / "sentence_bert_config.json").write_text("{}")
    (folder / "sentence_distilbert_config.json").write_text('{"max_seq_length": 5}')
    (folder / "sentence_xlnet_config.json").write_text('{"max_seq_length": 9}')
    assert weights.load_embedder(folder).max_length == 5
    inner = folder / "0_Transformer"
    inner.mkdir()
    for name in ("config.json", "model.safetensors"):
        (folder / name).rename(inner / name)
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (folder / "modules.json").write_text(json.dumps(modules))
    np.testing.assert_array_equal(answers(weights.load_embedder(folder).model), answers(model))


def spoil_module(folder, kind):
    path = folder / "modules.json"
    modules = json.loads(path.read_text())
    modules[1]["type"] = kind
    path.write_text(json.dumps(modules))


SPOILT = {
    "no modules": (lambda folder: (folder / "modules.json").unlink(), "a sentence-transformers"),
    "other module": (
        lambda folder: spoil_module(folder, "sentence_transformers.models.CNN"),
        "received 'sentence_transformers.models.CNN'",
    ),
    "code of the folder's own": (
        lambda folder: spoil_module(folder, "my_layers.Pooling"),
        "received 'my_layers.Pooling'",
    ),
    "an activation that is no name": (
        lambda folder: edit_json(folder / "2_Dense/config.json", activation_function=[1]),
        "activation_function: expected one of",
    ),
    "two poolings": (
        lambda folder: edit_json(folder / POOLING, pooling_mode_mean_tokens=True),
        "received pooling_mode_cls_token, pooling_mode_mean_tokens|mean_tokens, pooling_mode_cls",
    ),
    "other pooling": (
        lambda folder: edit_json(
            folder / POOLING, pooling_mode_cls_token=False, pooling_mode_lasttoken=True
        ),
        "received pooling_mode_lasttoken",
    ),
    "other activation": (
        lambda folder: edit_json(folder / "2_Dense/config.json", activation_function="torch.ReLU"),
        "activation_function: expected one of",
    ),
    "no weights": (
        lambda folder: (folder / "2_Dense/model.safetensors").unlink(),
        "model.safetensors",
    ),
    "a prompt of no name": (
        lambda folder: (folder / "config_sentence_transformers.json").write_text(
            '{"prompts": {"query": "q"}, "default_prompt_name": ["query"]}'
        ),
        r"default_prompt_name: expected one of query, received \['query'\]",
    ),
    "a prompt": (
        lambda folder: (folder / "config_sentence_transformers.json").write_text(
            '{"default_prompt_name": "query"}'
        ),
        "default_prompt_name",
    ),
    "lower-casing that is text": (
        lambda folder: edit_json(folder / "sentence_bert_config.json", do_lower_case="true"),
        "do_lower_case: expected true or false, received 'true'",
    ),
    "a path outside": (
        lambda folder: (folder / "modules.json").write_text(
            '[{"idx": 0, "path": "../x", "type": "a.Transformer"}]'
        ),
        "a folder next to it",
    ),
}


@pytest.mark.parametrize("fault", SPOILT)
def test_what_would_give_other_vectors_is_refused(fault, folder):
    spoil, message = SPOILT[fault]
    spoil(folder)
    with pytest.raises(errors.WeightsError, match=message):
        weights.load_embedder(folder)


def test_a_plain_encoder_gets_the_head_that_is_named(tmp_path):
    encoder = toys.randomise(models.build_encoder(CONFIG), 4)
    folder = weights.save_hf(encoder, tmp_path / "encoder")
    loaded = weights.load_embedder(folder, head=models.Head("embedding", 3))
    assert models.read_head(loaded.model).num_labels == 3
    assert loaded.report.fresh == ("vector_dense.bias", "vector_dense.weight")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pooling": "mean"}, "expected pooling mean.*received pooling cls"),
        ({"num_labels": 4}, "expected pooling cls, width 4.*received pooling cls, width 5"),
        ({"normalize": False}, "not normalised, received"),
    ],
)
def test_a_folder_of_other_vectors_than_asked_for_is_refused(change, message, folder):
    assert weights.load_embedder(folder, head=dataclasses.replace(DENSE, projection=None))
    with pytest.raises(errors.WeightsError, match=message):
        weights.load_embedder(folder, head=dataclasses.replace(DENSE, **change))
