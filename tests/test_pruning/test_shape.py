"""The short form of a pruned shape, and what fits into which teacher."""

import numpy as np
import pytest
import tensorflow as tf
import toys

from tfdistill import errors, models, pruning
from tfdistill.config import short_forms
from tfdistill.models import layers

MINILM = models.preset("minilm_6l_384d")


def test_the_short_form_is_read_and_written():
    text = "pruned:layers=3,ffn=384,heads=6,width=384"
    shape = short_forms.parse_pruned(text)
    assert shape == short_forms.PrunedShape(layers=3, ffn=384, heads=6, width=384)
    assert str(shape) == text
    assert short_forms.parse_pruned(" pruned:ffn = 8 ,".strip()) == short_forms.PrunedShape(ffn=8)
    last = "pruned:layers=3,choose=top"
    assert short_forms.parse_pruned(last) == short_forms.PrunedShape(layers=3, choose="top")
    assert str(short_forms.parse_pruned(last)) == last
    assert short_forms.is_pruned(text)
    assert not short_forms.is_pruned("tinybert_4l_312d")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pruned:", "a shape such as pruned:layers=3"),
        ("layers=3", "a shape such as pruned:layers=3"),
        ("pruned:layer=3", "Did you mean 'layers'"),
        ("pruned:ffn=1,ffn=2", "ffn once"),
        ("pruned:ffn", "whole number"),
        ("pruned:ffn=-1", "whole number"),
        ("pruned:ffn=1.5", "whole number"),
        ("pruned:ffn=²", "whole number"),
        ("pruned:layers=3,choose=bottm", "Did you mean 'bottom'"),
        ("pruned:choose=top", "a shape such as pruned:layers=3"),
        ("pruned:depth=3,ffn=0", "(?s)'depth'.*ffn"),  # all faults
    ],
)
def test_a_faulty_short_form_is_refused(text, message):
    with pytest.raises(errors.ConfigError, match=message):
        short_forms.parse_pruned(text)


def config(text):
    return pruning.pruned_config(MINILM, short_forms.parse_pruned(f"pruned:{text}"))


def test_what_is_left_out_is_as_in_the_teacher_and_so_is_the_size_of_heads():
    assert config("layers=3,ffn=384") == MINILM.replace(num_layers=3, intermediate_size=384)
    student = config("heads=6")
    assert (student.hidden_size, student.attention_width, student.head_size) == (384, 192, 32)
    assert config("heads=6,width=192") == config("width=192")
    assert config("width=192").head_size is None  # 6 heads of 32 fill it
    assert config("width=312,heads=12,head_size=26").attention_width == 312
    sizes = [config(text).embedding_size for text in ("layers=3,embedding=128", "layers=3")]
    assert sizes == [128, None]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("width=200", "teacher's heads of 32 divide.*head_size=16"),
        ("width=16", "teacher's heads of 32 divide"),
        ("layers=7", "num_layers.*at most the teacher's 6"),
        ("ffn=1537", "intermediate_size.*at most the teacher's 1536"),
        ("heads=13", "num_heads.*at most the teacher's 12"),
        ("width=416", "hidden_size.*at most the teacher's 384"),
        ("head_size=33", "head size.*at most the teacher's 32"),
        ("width=96,embedding=128", r"embedding_size: expected .* below hidden_size"),
    ],
)
def test_a_student_that_does_not_fit_into_its_teacher_is_refused(text, message):
    with pytest.raises(errors.ConfigError, match=message):
        config(text)


@pytest.mark.parametrize("preset", ["mobilebert_25m", "bilstm_1l_150d"])
def test_other_families_say_how_they_start_instead(preset):
    with pytest.raises(errors.ShapeError, match=r"(?s)initialise=teacher .* or random"):
        pruning.check_prunable(MINILM, models.preset(preset))
    with pytest.raises(errors.ShapeError, match="teacher to prune"):
        pruning.check_prunable(models.preset(preset), toys.STUDENT)


def test_a_student_may_approximate_the_gelu_of_its_teacher_by_tanh_but_has_its_vocabulary():
    pruning.check_prunable(MINILM, MINILM.replace(hidden_act="gelu_tanh"))
    with pytest.raises(errors.ConfigError, match="hidden_act of a pruned student"):
        pruning.check_prunable(MINILM, MINILM.replace(hidden_act="relu"))
    with pytest.raises(errors.ConfigError, match=r"(?s)vocab_size.*initialise=teacher"):
        pruning.check_prunable(MINILM, MINILM.replace(vocab_size=100))
    # The error of the approximation, over where it can differ.
    x = tf.constant(np.linspace(-6, 6, 100_001, dtype=np.float32))
    apart = float(tf.reduce_max(tf.abs(layers.gelu(x) - layers.gelu_tanh(x))))
    assert 4e-4 < apart < 5e-4
