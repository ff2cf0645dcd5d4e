"""The shape of a teacher from its name, its folder or what is said of it."""

import json

import pytest

from tfdistill import errors
from tfdistill.search import teachers


@pytest.mark.parametrize(
    "source, sizes",
    [
        ("bert-base-uncased", (12, 12, 768)),
        ("google-bert/bert-large-cased", (24, 16, 1024)),
        ("preset:bert_mini", (4, 4, 256)),
        ("preset:ib_bert_large", (24, 4, 512)),
    ],
)
def test_names_tell_the_shape(source, sizes):
    found = teachers.find_teacher(source)
    assert (found.num_layers, found.num_heads, found.hidden_size) == sizes
    assert found.source == source


def test_a_folder_tells_the_shape(tmp_path):
    raw = {
        "model_type": "bert",
        "num_hidden_layers": 6,
        "hidden_size": 384,
        "num_attention_heads": 12,
        "intermediate_size": 1536,
        "vocab_size": 30522,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
        "hidden_act": "gelu",
    }
    (tmp_path / "config.json").write_text(json.dumps(raw))
    found = teachers.find_teacher(str(tmp_path))
    assert (found.num_layers, found.num_heads, found.hidden_size) == (6, 12, 384)
    assert found.config is not None and found.config.intermediate_size == 1536
    assert teachers.find_teacher(str(tmp_path), num_layers=3).config is None  # not its own depth


def test_what_is_said_of_it_counts_more():
    assert teachers.find_teacher("bert-base-uncased", num_layers=6).num_layers == 6
    found = teachers.find_teacher("anyone/anything", num_layers=6, num_heads=8, hidden_size=512)
    assert (found.num_layers, found.num_heads, found.hidden_size) == (6, 8, 512)


@pytest.mark.parametrize("source", ["anyone/anything", "all-MiniLM-L6-v2", "bert-base-large"])
def test_a_teacher_that_nobody_knows_asks_for_its_shape(source):
    with pytest.raises(errors.ConfigError, match="--teacher-layers"):
        teachers.find_teacher(source, num_layers=6)


def test_a_bilstm_is_no_teacher_of_shapes():
    with pytest.raises(errors.ConfigError, match="transformer"):
        teachers.find_teacher("preset:bilstm_1l_150d")


@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_broken_config_is_named(tmp_path, content):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(errors.ConfigError, match=r"config\.json"):
        teachers.find_teacher(str(tmp_path))
