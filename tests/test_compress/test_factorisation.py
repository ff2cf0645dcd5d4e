"""Two factors of a word table: the nearest product, nearer for words that texts use."""

import numpy as np
import pytest
import toys

from tfdistill import compress, errors, models

IDS = np.array([[3, 9, 27, 40]], np.int32)
FEATURES = {"input_ids": IDS, "attention_mask": IDS * 0 + 1, "token_type_ids": IDS * 0}


@pytest.fixture
def model():
    config = toys.SHALLOW_STUDENT.replace(family="tinybert", vocab_size=50)
    return toys.classifier(config, seed=3)


def table(model):
    return model.get_layer("word_embeddings").get_weights()[0]


def product(model):
    return table(model) @ model.get_layer("embedding_projection").get_weights()[0]


def test_a_table_of_that_rank_gives_the_same_answers(model):
    rows = table(model)
    rows[:, 5:] = rows[:, :3]
    model.get_layer("word_embeddings").set_weights([rows])
    smaller = compress.factorise(model, 5)

    assert models.config_of(smaller) == models.config_of(model).replace(embedding_size=5)
    assert smaller.count_params() == model.count_params() - 50 * 8 + 50 * 5 + 5 * 8
    # Two roundings to float32 and another basis of the same directions.
    np.testing.assert_allclose(smaller(FEATURES), model(FEATURES), rtol=0, atol=1e-5)


def test_words_that_texts_use_stay_nearest(model):
    counts = np.zeros(50)
    counts[:4] = 100
    errors_of = [
        np.square(product(compress.factorise(model, 4, each)) - table(model)).sum(axis=1)
        for each in (None, counts)
    ]

    assert errors_of[1][:4].sum() < 0.05 * errors_of[0][:4].sum()  # 4 rows, 4 directions
    assert errors_of[1].sum() > errors_of[0].sum()  # the least over all rows is the plain one


def test_neither_a_table_in_two_factors_is_split_nor_one_at_another_rank(model):
    before = [*model.get_weights()]
    smaller = compress.factorise(model, 4)

    assert all(np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True))
    assert compress.can_factorise(model) and not compress.can_factorise(smaller)
    with pytest.raises(errors.ShapeError, match="a word table in one piece"):
        compress.factorise(smaller, 2)
    for rank in (0, 8):
        with pytest.raises(errors.ConfigError, match="rank: expected from 1 to below 8"):
            compress.factorise(model, rank)
