"""What can be cut out of a teacher."""

import pytest

from tfdistill import config, errors, models, pruning
from tfdistill.budget import shapes

SMALL = models.preset("minilm_6l_384d").replace(vocab_size=900)


def test_students_are_parts_of_the_teacher_that_a_folder_can_hold():
    candidates = shapes.ladder(SMALL, "float32")
    configs = [candidate.config for candidate in candidates]
    assert {c.num_layers for c in configs} == {3, 4, 5, 6}
    assert {c.hidden_size for c in configs} == {96, 192, 288, 384}
    assert {c.intermediate_size for c in configs} == set(range(192, 1537, 192))
    assert {(c.head_width, c.vocab_size, c.hidden_act) for c in configs} == {(32, 900, "gelu")}
    assert configs[0] == SMALL and configs.count(SMALL) == 1
    assert len({candidate.name for candidate in candidates}) == len(candidates)
    worths = [candidate.worth for candidate in candidates]
    assert worths == sorted(worths, reverse=True)
    for shape in configs:
        pruning.check_prunable(SMALL, shape)
        assert shape.attention_width == shape.hidden_size
        assert 1 <= shape.intermediate_size / shape.hidden_size <= 4


def test_layers_are_worth_more_than_neurons():
    # Parts of a fine-tuned multilingual-e5-small, by the divergence of their first answers.
    teacher = SMALL.replace(num_layers=12, vocab_size=9700)
    order = [(12, 1152), (12, 768), (9, 1152), (9, 768), (5, 768)]
    worth_of = {
        (c.config.num_layers, c.config.intermediate_size): c.worth
        for c in shapes.ladder(teacher, "float32")
        if c.config.hidden_size == 384
    }
    worths = [worth_of[shape] for shape in order]
    assert worths == sorted(worths, reverse=True)
    assert worth_of[11, 576] > worth_of[8, 1152]  # of about as many parameters


def test_the_short_form_of_a_student_is_its_shape():
    for candidate in shapes.ladder(SMALL, "float32")[::5]:
        part = config.parse_pruned(str(candidate.part))
        assert pruning.pruned_config(SMALL, part) == candidate.config


def test_no_part_is_more_than_the_teacher_whatever_its_sizes():
    odd = SMALL.replace(intermediate_size=1501)
    assert {c.config.intermediate_size for c in shapes.ladder(odd, "float32")} >= {1501, 1128}
    assert max(c.config.intermediate_size for c in shapes.ladder(odd, "float32")) == 1501


def test_blockwise_quantization_wants_widths_of_whole_blocks():
    candidates = shapes.ladder(models.preset("bert_base"), "x_block32")
    assert candidates
    for candidate in candidates:
        assert candidate.config.hidden_size % 32 == 0
        assert candidate.config.attention_width % 32 == 0
        assert candidate.config.intermediate_size % 32 == 0
    with pytest.raises(errors.ConfigError, match="--quantize"):
        shapes.ladder(SMALL.replace(intermediate_size=1500), "x_block1024")
