"""Magnitude pruning: the share of zeros rises as said, and they are the smallest weights."""

import compressed_layers
import numpy as np
import pytest
import tensorflow as tf
import toys

from tfdistill import compress, distillers, errors, training
from tfdistill.compress import pruning

BATCH = toys.features((9, 6, 4), seed=5)


def test_every_matrix_of_the_layers_ends_at_the_share_and_no_other_has_zeros(pruned):
    shares = compressed_layers.sparsity_of(pruned.stripped)
    parts = ("query", "key", "value", "attention_output", "intermediate", "output")
    assert shares == {f"layer_0_{name}": 0.75 for name in parts}
    others = ("pooler", "classifier", "word_embeddings")
    assert set(compressed_layers.sparsity_of(pruned.stripped, others).values()) == {0.0}


def pruned_query(toy, rate, **options):
    """The query's kernel after one step that prunes half of it."""
    options = {"sparsity": 0.5, "total_steps": 1, "end": 1.0, **options}
    student = compress.prune(toy, layers=["layer_0_query"], **options)
    distiller = distillers.LogitDistiller(toy, student, objective="logit_mse")
    distiller.compile(training.adamw(rate, weight_decay=0.0))
    distiller.train_step((BATCH,))
    return compress.strip(student).get_layer("layer_0_query").kernel.numpy()


@pytest.mark.slow
def test_what_is_pruned_is_what_is_small_and_blocks_are_pruned_together(toy):
    before = np.abs(toy.get_layer("layer_0_query").kernel.numpy())
    after = pruned_query(toy, 0.0)
    assert np.mean(after == 0) == 0.5
    assert before[after == 0].max() <= before[after != 0].min()
    after = pruned_query(toy, 1e-3, block_size=(4, 1))
    zeros = (after == 0).reshape(4, 4, 16).sum(axis=1)  # of each block of 4 rows
    assert set(np.unique(zeros)) == {0, 4}


@pytest.mark.slow
def test_the_share_follows_the_formula_and_then_stays(toy):
    student = compress.prune(
        toy, sparsity=0.5, total_steps=10, begin=0.2, end=0.6, layers=["layer_0_intermediate"]
    )
    wrapper = student.get_layer("layer_0_intermediate")
    distiller = distillers.LogitDistiller(toy, student, objective="logit_mse")
    distiller.compile(training.adamw(1e-3))
    step = tf.function(distiller.train_step)
    seen = []
    for _ in range(8):
        step((BATCH,))
        ((_, mask, _),) = wrapper.pruning_vars
        seen.append(1 - float(tf.reduce_mean(mask)))

    def expected(batch):
        progress = min(max((batch - 2) / 4, 0), 1)
        return 0.5 * (1 - (1 - progress) ** 3)

    # The 512 weights are cut to whole ones.
    np.testing.assert_allclose(seen, [expected(batch) for batch in range(1, 9)], atol=1 / 512)


def test_the_table_of_words_can_be_pruned(toy):
    student = compress.prune(toy, total_steps=10, layers=["word_embeddings"])
    assert isinstance(student.get_layer("word_embeddings"), pruning.Pruned)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"sparsity": 1.0}, "sparsity"),
        ({"begin": 0.7, "end": 0.7}, "begin < end"),
        ({"total_steps": 1, "end": 0.2}, "training steps"),
        ({"layers": ["layer_0_*", "layer_7_*"]}, r"received layer_7_\*"),
        ({"layers": ["layer_0_layer_norm"]}, "with a matrix"),
    ],
)
def test_what_cannot_be_pruned_says_why(toy, options, told):
    with pytest.raises(errors.ConfigError, match=told):
        compress.prune(toy, **{"total_steps": 100, **options})
