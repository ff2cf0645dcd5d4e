"""What an exported student does in one inference and stores, counted from its shape. Pure.

A latency is a sum over operators, so it is linear in these counts: products of many rows run at
the speed of arithmetic, products of one row at that of memory, attention is float, and the rest is
per element and per operator. L tokens, width d, inner width f, h heads of k.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from tfdistill import models

HEADS = ("sequence", "token", "span")
# An int8 weight is a byte: about what one core's own cache holds, and what the shared ones hold.
_LARGE_PRODUCT = 1_000_000
_NEAR, _FAR = 4_000_000, 8_000_000


@dataclasses.dataclass(frozen=True)
class WorkCounts:
    """Counts for one example at one length.

    Attributes:
      constant: 1: what every inference costs.
      products: Matrix products with weights, of many rows or of one.
      dense_macs: Multiply-adds of products of L rows.
      large_macs: Those of them whose weights no near cache holds: they are read again for each
        group of rows.
      row_weights: Weights of products of one row: the last layer of a classifier of texts is
        computed for [CLS] alone.
      dense_elements: Inputs and outputs of the products of L rows: to quantize, to add, to store.
      attention_macs: Multiply-adds of scores and context.
      softmax_elements: h L^2 a layer: mask, softmax, transposes.
      layer_norm_elements: Elements that a LayerNorm sees.
      no_norm_elements: Elements that a NoNorm sees.
      gelu_elements: Elements that a GELU sees; a ReLU is part of its product.
      far_weights: Weights of the other products that are not in a near cache any more when the
        next inference comes: the share of them in all weights beyond the first four million.
      farther_weights: The same beyond the first eight million: caches differ from device to device.
    """

    constant: float
    products: float
    dense_macs: float
    large_macs: float
    row_weights: float
    dense_elements: float
    attention_macs: float
    softmax_elements: float
    layer_norm_elements: float
    no_norm_elements: float
    gelu_elements: float
    far_weights: float
    farther_weights: float


FEATURES = tuple(field.name for field in dataclasses.fields(WorkCounts))


def work(config: models.EncoderConfig, length: int, *, head: str = "sequence") -> WorkCounts:
    """Counts the work of one inference of the exported file.

    Args:
      config: The shape.
      length: Tokens L, padding included.
      head: "sequence" (the last layer for [CLS] alone), "token" or "span".

    Returns:
      The counts.
    """
    networks = config.num_feed_forward if isinstance(config, models.MobileBertConfig) else 1
    inside = config.attention_width
    rows = products(config, length, head=head)
    norms, gelu = length * config.hidden_size, 0  # behind the embeddings
    attention = softmax = 0
    for layer in range(config.num_layers):
        asking = _asking(config, layer, length, head)
        norms += sum(
            seen * n_out for seen, _, n_out, normed in _layer(config, asking, length) if normed
        )
        if config.hidden_act != "relu":
            gelu += networks * asking * config.intermediate_size
        attention += 2 * asking * length * inside
        softmax += config.num_heads * asking * length
    weights = sum(n_in * n_out for _, n_in, n_out in rows)
    small = sum(n_in * n_out for _, n_in, n_out in rows if n_in * n_out <= _LARGE_PRODUCT)
    many = [(seen, n_in, n_out) for seen, n_in, n_out in rows if seen > 1]
    no_norm = isinstance(config, models.MobileBertConfig) and config.normalization == "no_norm"
    return WorkCounts(
        constant=1.0,
        products=float(len(rows)),
        dense_macs=float(sum(seen * n_in * n_out for seen, n_in, n_out in many)),
        large_macs=float(
            sum(seen * n_in * n_out for seen, n_in, n_out in many if n_in * n_out > _LARGE_PRODUCT)
        ),
        row_weights=float(sum(n_in * n_out for seen, n_in, n_out in rows if seen == 1)),
        dense_elements=float(sum(seen * (n_in + n_out) for seen, n_in, n_out in many)),
        attention_macs=float(attention),
        softmax_elements=float(softmax),
        layer_norm_elements=0.0 if no_norm else float(norms),
        no_norm_elements=float(norms) if no_norm else 0.0,
        gelu_elements=float(gelu),
        far_weights=max(0, weights - _NEAR) * small / weights,
        farther_weights=max(0, weights - _FAR) * small / weights,
    )


def products(
    config: models.EncoderConfig, length: int, *, head: str = "sequence"
) -> list[tuple[int, int, int]]:
    """Lists the products with weights of one inference: rows, inputs, units."""
    found: list[tuple[int, int, int]] = []
    if isinstance(config, models.MobileBertConfig):
        inputs = (3 if config.trigram else 1) * config.embedding_size
        found.append((length, inputs, config.hidden_size))
    elif config.embedding_size is not None:
        found.append((length, config.embedding_size, config.hidden_size))
    for layer in range(config.num_layers):
        asking = _asking(config, layer, length, head)
        found += [row[:3] for row in _layer(config, asking, length)]
    if head != "sequence":
        return [*found, (length, config.hidden_size, 2)]
    if config.pooler:
        found.append((1, config.hidden_size, config.hidden_size))
    return [*found, (1, config.hidden_size, 2)]


def matrix(shapes: list[models.EncoderConfig], length: int, *, head: str) -> np.ndarray:
    """The work of several shapes as an array (shapes, features), in the order of `FEATURES`."""
    return np.array([dataclasses.astuple(work(shape, length, head=head)) for shape in shapes])


@dataclasses.dataclass(frozen=True)
class Contents:
    """Counts of one file; `fit.fit_size` learns from files how many bytes each takes.

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


STORED = tuple(field.name for field in dataclasses.fields(Contents))


def contents(config: models.EncoderConfig, lengths: tuple[int, ...]) -> Contents:
    """Counts what the file of a classifier with this shape stores.

    Args:
      config: The shape.
      lengths: Sequence lengths of the file; positions beyond the longest are not kept.

    Returns:
      The counts, without the few of the classifier itself.
    """
    width = config.hidden_size
    words = config.embedding_size or width
    tables = config.vocab_size * words + config.type_vocab_size * width
    once = products(config, 1)  # one token: every weight once
    weights = sum(n_in * n_out for _, n_in, n_out in once)
    channels = sum(n_out for _, _, n_out in once)
    counted = models.count_parameters(config, 2) - tables - config.max_positions * width
    return Contents(
        constant=1.0,
        products=float(len(once) * len(lengths)),
        weights=float(weights),
        tables=float(tables),
        positions=float(max(lengths) * width),
        channels=float(channels),
        norms=float(counted - weights - channels),
    )


def contents_matrix(shapes: list[models.EncoderConfig], lengths: tuple[int, ...]) -> np.ndarray:
    """The contents of several shapes as an array (shapes, features), in order of `STORED`."""
    return np.array([dataclasses.astuple(contents(shape, lengths)) for shape in shapes])


def encoder_parameters(config: models.EncoderConfig) -> int:
    """Parameters of the layers, without tables, pooler and classifier: what learns from context."""
    two, one = (models.count_parameters(config.replace(num_layers=n)) for n in (2, 1))
    return config.num_layers * (two - one)


def _asking(config: models.EncoderConfig, layer: int, length: int, head: str) -> int:
    """Rows that ask in a layer: [CLS] alone in the last one of a classifier of texts."""
    return 1 if head == "sequence" and layer == config.num_layers - 1 else length


def _layer(
    config: models.EncoderConfig, asking: int, length: int
) -> Iterator[tuple[int, int, int, bool]]:
    """Yields rows, inputs, units of a layer's products, and whether a norm follows.

    `asking` rows ask; keys and values are always those of all `length` tokens.
    """
    width, inner = config.hidden_size, config.intermediate_size
    if not isinstance(config, models.MobileBertConfig):
        inside = config.attention_width
        yield asking, width, inside, False  # query
        yield length, width, inside, False  # key
        yield length, width, inside, False  # value
        yield asking, inside, width, True  # attention output
        yield asking, width, inner, False
        yield asking, inner, width, True
        return
    inside = config.bottleneck_size
    narrow = config.bottleneck_attention
    source = inside if narrow or config.shared_key_query else width
    yield (length if narrow else asking), width, inside, True  # bottleneck
    if config.shared_key_query:
        yield length, width, inside, True
    yield asking, source, inside, False  # query
    yield length, source, inside, False  # key
    yield length, inside if narrow else width, inside, False  # value
    yield asking, inside, inside, True  # attention output
    for _ in range(config.num_feed_forward):
        yield asking, inside, inner, False
        yield asking, inner, inside, True
    yield asking, inside, width, True
