"""What an exported file stores, counted from a shape. Pure.

How many bytes each takes depends on the quantization; `fit.fit_size` finds out from files.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from tfdistill import models
from tfdistill.search import work


@dataclasses.dataclass(frozen=True)
class Contents:
    """Counts of one file.

    Attributes:
      constant: 1: the frame of a file, the same for all.
      products: Matrix products in all signatures: what describes the operators is in proportion.
      weights: Entries of all matrices.
      tables: Entries of word and type tables.
      positions: Entries of the positions that the file keeps.
      channels: Outputs of all matrices: each has a bias, and where it is quantized a scale.
      norms: Entries of scales and shifts of the norms.
    """

    constant: float
    products: float
    weights: float
    tables: float
    positions: float
    channels: float
    norms: float


FEATURES = tuple(field.name for field in dataclasses.fields(Contents))


def contents(config: models.EncoderConfig, lengths: tuple[int, ...]) -> Contents:
    """Counts what the file of a classifier with this shape stores.

    Args:
      config: The shape.
      lengths: Sequence lengths of the file; positions beyond the longest are not kept.

    Returns:
      The counts, without the few of the classifier itself.
    """
    width = config.hidden_size
    words = config.embedding_size if isinstance(config, models.MobileBertConfig) else width
    tables = config.vocab_size * words + config.type_vocab_size * width
    products = work.products(config, 1)  # one token: every weight once
    weights = sum(n_in * n_out for _, n_in, n_out in products)
    channels = sum(n_out for _, _, n_out in products)
    counted = models.count_parameters(config, 2) - tables - config.max_positions * width
    return Contents(
        constant=1.0,
        products=float(len(products) * len(lengths)),
        weights=float(weights),
        tables=float(tables),
        positions=float(max(lengths) * width),
        channels=float(channels),
        norms=float(counted - weights - channels),
    )


def matrix(shapes: list[models.EncoderConfig], lengths: tuple[int, ...]) -> np.ndarray:
    """The contents of several shapes as an array (shapes, features), in order of `FEATURES`."""
    return np.array([dataclasses.astuple(contents(shape, lengths)) for shape in shapes])
