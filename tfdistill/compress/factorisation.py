"""Word tables in two factors: narrower vectors for every word, and a matrix that widens them."""

from __future__ import annotations

import numpy as np
import tf_keras as keras

from tfdistill import errors, models
from tfdistill.weights import factorised

_TABLE = "word_embeddings"
_PROJECTION = "embedding_projection"
_BLOCK = 32  # numbers in four bits that share a scale


def can_factorise(model: keras.Model) -> bool:
    """Checks whether a model has a word table in one piece that `factorise` can split."""
    config = models.config_of(model)
    single = type(config) is models.EncoderConfig and config.embedding_size is None
    return single and config.family != "electra"  # which widens after the positions


def ranks(width: int) -> list[int]:
    """The ranks of two factors that a smaller file may have, descending: multiples of a block.

    Lower ones than a third of the width cost more than fewer words.
    """
    highest = _BLOCK * ((width - 1) // _BLOCK)
    return [rank for rank in range(highest, 0, -_BLOCK) if 3 * rank >= width]


def factorise(model: keras.Model, rank: int, counts: np.ndarray | None = None) -> keras.Model:
    """Makes a model whose word table has two factors, the nearest product of a rank.

    See `weights.factorised.split`. Nothing else changes and nothing is trained.

    Args:
      model: A classifier of the families bert, distilbert, roberta or tinybert; not changed.
      rank: Width of the word vectors, below the width of the model.
      counts: (vocab_size,), occurrences of each token in the training texts (see
        `compress.vocabulary.count_pieces`); None: all alike.

    Returns:
      The new model, with a layer "embedding_projection".

    Raises:
      ShapeError: If the model has no word table in one piece.
      ConfigError: If `rank` is not from 1 to below the width.

    Reference: Eckart and Young 1936; the shape is that of ALBERT (Lan et al. 2020).
    """
    config = models.config_of(model)
    if not can_factorise(model):
        raise errors.ShapeError(
            f"model {model.name!r} to factorise",
            "a BERT with a word table in one piece",
            f"{config.family} with word vectors of {config.embedding_size or config.hidden_size}",
        )
    if not 1 <= rank < config.hidden_size:
        raise errors.ConfigError("rank", f"from 1 to below {config.hidden_size}", rank)
    (table,) = model.get_layer(_TABLE).get_weights()
    if counts is not None:  # tables may be padded
        counts = np.pad(counts, (0, len(table) - len(counts)))
    words, projection = factorised.split(table, rank, counts)
    smaller = models.build_model(
        config.replace(embedding_size=rank), models.read_head(model), name=model.name
    )
    new = {_TABLE: [words], _PROJECTION: [projection]}
    for layer in smaller.layers:
        if layer.weights:
            layer.set_weights(new.get(layer.name) or model.get_layer(layer.name).get_weights())
    return smaller
