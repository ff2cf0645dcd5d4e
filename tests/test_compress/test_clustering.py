"""Weight clustering: few numbers a matrix, learnt, and zeros kept."""

import compressed_layers
import numpy as np
import pytest
import toys

from tfdistill import compress, errors, models

BATCH = toys.features((9, 6, 4), seed=5)


def test_every_matrix_of_the_layers_consists_of_few_numbers_and_zeros_stay(clustered):
    counts = compressed_layers.clusters_of(clustered.stripped)
    assert len(counts) == 6
    # A number that no weight is next to any more is not there.
    assert all(3 <= count <= 6 for count in counts.values()), counts
    assert max(compressed_layers.clusters_of(clustered.plain).values()) > 30
    for name in counts:
        before, after = (
            model.get_layer(name).kernel.numpy() for model in (clustered.plain, clustered.stripped)
        )
        assert (after[before == 0] == 0).all()


@pytest.mark.parametrize("kind", ["pruned", "clustered"])
def test_stripped_it_answers_as_trained(kind, request):
    model = request.getfixturevalue(kind)
    np.testing.assert_array_equal(model.stripped(BATCH).numpy(), model.trained(BATCH).numpy())
    assert [w.name for w in model.stripped.weights] == [w.name for w in model.plain.weights]


def test_before_training_each_weight_is_the_nearest_number(toy):
    wrapped = compress.cluster(toy, clusters=4, layers=["layer_0_query"])
    kernel = toy.get_layer("layer_0_query").kernel.numpy()
    numbers = np.linspace(kernel.min(), kernel.max(), 4, dtype=np.float32)
    nearest = numbers[np.abs(kernel[..., None] - numbers).argmin(axis=-1)]

    clustered = compress.strip(wrapped).get_layer("layer_0_query").kernel.numpy()

    np.testing.assert_allclose(clustered, nearest, rtol=1e-6)


def test_the_numbers_and_the_weights_are_both_learnt(clustered):
    fresh = compress.cluster(clustered.plain, clusters=6).get_layer("layer_0_query")
    trained = clustered.trained.get_layer("layer_0_query")
    for kind in ("cluster_centroids_kernel", "/kernel"):
        (before,) = [w.numpy() for w in fresh.trainable_weights if kind in w.name]
        (after,) = [w.numpy() for w in trained.trainable_weights if kind in w.name]
        assert not np.array_equal(before, after), kind


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"clusters": 1}, "clusters"),
        ({"clusters": 2}, r"pruned layers.*: expected 3 to 256"),  # zero is one of them
        ({"clusters": 257}, "clusters"),
        ({"start": "kmeans"}, "kmeans"),
        ({"layers": ["word_embeddings"]}, "layers"),
    ],
)
def test_what_cannot_be_clustered_says_why(pruned, options, told):
    with pytest.raises(errors.ConfigError, match=told):
        compress.cluster(pruned.stripped, **options)


@pytest.mark.parametrize(
    "compressed", [compress.cluster, lambda model: compress.prune(model, total_steps=100)]
)
def test_neither_a_bilstm_nor_a_wrapped_model_is_clustered_or_pruned(pruned, compressed):
    with pytest.raises(errors.ConfigError, match="being compressed already"):
        compressed(pruned.trained)
    with pytest.raises(errors.ConfigError, match="BiLSTM"):
        compressed(models.build_classifier(toys.BILSTM, 3))
