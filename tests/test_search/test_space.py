"""Candidates: only what the models build and the method can teach."""

import pytest

from tfdistill import errors, models, structured
from tfdistill.search import space

BASE = space.Teacher("bert-base-uncased", config=models.preset("bert_base"))


def test_tinybert_students_have_the_teachers_heads_and_a_depth_that_divides_its():
    found = space.candidates("tinybert", BASE)
    assert {c.config.num_heads for c in found} == {12}
    assert {c.config.num_layers for c in found} == {2, 3, 4, 6, 12}
    assert all(c.config.hidden_size <= 768 for c in found)
    assert {c.kind for c in found} == {"gelu", "relu"}
    assert all(c.config.hidden_act == c.kind for c in found)


def test_tinybert_students_of_a_large_teacher_have_its_16_heads():
    found = space.candidates("tinybert", space.Teacher("bert-large", 24, 16, 1024))
    assert {c.config.num_heads for c in found} == {16}
    assert {c.config.num_layers for c in found} == {2, 3, 4, 6, 8, 12, 24}


@pytest.mark.parametrize("method", ["minilm", "logits"])
def test_other_methods_are_free_in_their_heads(method):
    heads = {c.config.num_heads for c in space.candidates(method, BASE, kinds=("gelu",))}
    assert len(heads) > 5


def test_mobilebert_blocks_keep_the_options_of_their_preset():
    found = {c.kind: c.config for c in space.candidates("mobilebert", BASE)}
    assert isinstance(found["no_norm"], models.MobileBertConfig)
    assert found["no_norm"].num_feed_forward == 4 and found["no_norm"].shared_key_query
    assert found["no_norm_2ffn"].num_feed_forward == 2
    assert found["no_norm_2ffn"].bottleneck_attention
    assert {c.normalization for c in found.values()} == {"no_norm"}


@pytest.mark.parametrize("method", space.METHODS)
def test_names_are_unique(method):
    found = space.candidates(method, BASE)
    assert len({c.name for c in found}) == len(found) > 50


def test_blockwise_quantization_wants_widths_of_whole_blocks():
    found = space.candidates("tinybert", BASE, quantize="dynamic_wi4_afp32_block32")
    assert found
    for candidate in found:
        assert candidate.config.hidden_size % 32 == 0
        assert candidate.config.intermediate_size % 32 == 0


def test_the_vocabulary_and_the_length_are_those_asked_for():
    found = space.candidates("tinybert", BASE, vocab_size=900, max_length=512)
    assert {(c.config.vocab_size, c.config.max_positions) for c in found} == {(900, 512)}


def test_a_misspelt_method_is_suggested():
    with pytest.raises(errors.ConfigError, match="Did you mean 'tinybert'"):
        space.candidates("tinybret", BASE)


def test_kinds_that_a_method_cannot_teach_are_refused():
    with pytest.raises(errors.ConfigError, match=r"expected some of \('gelu', 'relu'\)"):
        space.candidates("tinybert", BASE, kinds=("no_norm",))


def test_a_teacher_whose_heads_divide_no_width_is_explained():
    with pytest.raises(errors.ConfigError, match="--distiller logits"):
        space.candidates("tinybert", space.Teacher("odd", 12, 13, 64))


def test_pruned_students_are_parts_of_the_teacher_that_a_folder_can_hold():
    shape = models.preset("minilm_6l_384d").replace(vocab_size=900)
    teacher = space.Teacher("minilm", 6, 12, 384, config=shape)
    found = [candidate.config for candidate in space.candidates("pruned", teacher)]
    assert {c.num_layers for c in found} == {1, 2, 3, 4, 5, 6}
    assert {c.hidden_size for c in found} == {96, 192, 288, 384}
    assert {c.intermediate_size for c in found} == {192, 384, 768, 1152, 1536}
    assert {(c.head_width, c.vocab_size, c.hidden_act) for c in found} == {(32, 900, "gelu")}
    assert shape in found
    for config in found:
        structured.check_prunable(shape, config)
        assert config.attention_width <= config.hidden_size


def test_pruned_students_want_a_teacher_whose_whole_shape_is_known():
    with pytest.raises(errors.ConfigError, match="Give the folder of the fine-tuned teacher"):
        space.candidates("pruned", space.Teacher("bert-base-uncased"))
    electra = models.preset("minilm_6l_384d").replace(family="electra", pooler=False)
    for shape in (models.preset("mobilebert"), electra):
        teacher = space.Teacher("m", 24, 4, 512, config=shape)
        with pytest.raises(errors.ConfigError, match="a BERT, TinyBERT or DistilBERT"):
            space.candidates("pruned", teacher)
    with pytest.raises(errors.ConfigError, match="blocks of its activation"):
        space.candidates("pruned", BASE, kinds=("relu",))


def test_a_teacher_without_layers_is_refused():
    with pytest.raises(errors.ConfigError, match="num_layers"):
        space.Teacher("x", num_layers=0)
