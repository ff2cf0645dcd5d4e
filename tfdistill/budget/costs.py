"""What a file of a shape does in an inference and stores. Pure.

Latency and size are linear in these counts. L tokens, width d, attention width a,
inner width f, h heads; the last layer of a classifier of texts is computed for [CLS] alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from tfdistill import models
from tfdistill.models.heads import KINDS as HEAD_KINDS


def work(config: models.EncoderConfig, length: int, head: str) -> np.ndarray:
    """Counts what an inference does, (7,).

    The constant, layers, multiply-adds of products of L rows, weights of products of one row,
    multiply-adds of attention, elements of the scores (h L^2 a layer), elements between products.
    The head "sequence" has its last layer for one token, others for all.
    """
    width, inside, inner = config.hidden_size, config.attention_width, config.intermediate_size
    asking, counts = 2 * width * inside + 2 * width * inner, np.zeros(5)
    for layer in range(config.num_layers):
        one = not HEAD_KINDS[head].over_tokens and layer == config.num_layers - 1
        rows = 1 if one else length
        counts += (
            length * 2 * width * inside + (0 if one else length * asking),
            asking if one else 0,
            2 * rows * length * inside,
            config.num_heads * rows * length,
            rows * (6 * width + 3 * inside + 2 * inner) + length * 2 * inside,
        )
    return np.array([1, config.num_layers, *counts], float)


def stored(config: models.EncoderConfig, length: int) -> np.ndarray:
    """Counts what a file stores, (5,): the constant, layers, weights, tables, vectors.

    Vectors are what is no matrix: biases, scales, norms, and the positions up to `length`.
    """
    width, inside, inner = config.hidden_size, config.attention_width, config.intermediate_size
    words = config.embedding_size or width
    weights = config.num_layers * (4 * width * inside + 2 * width * inner)
    weights += (words * width if words != width else 0) + (width * width if config.pooler else 0)
    vectors = length * width + config.num_layers * (6 * width + 3 * inside + inner)
    tables = config.vocab_size * words + config.type_vocab_size * width
    return np.array([1, config.num_layers, weights, tables, vectors], float)


def file_bytes(config: models.EncoderConfig, lengths: Sequence[int], quantize: str) -> float:
    """Estimates the bytes of a file with the counts of `stored`, from files of several shapes.

    Each length has positions of its own. The scales of blocks count with the weights, those of
    channels with the layers.
    """
    weight = bytes_of_weight(quantize)
    fixed, layer = (13300, 8500) if "_block" in quantize else (7000, 21000)
    size = stored(config, sum(lengths)) @ np.array([fixed, layer, weight, weight, 4])
    return float(size) + 6150 * config.num_layers * (len(lengths) - 1)


def table_bytes(config: models.EncoderConfig, quantize: str) -> float:
    """The bytes of a word table as it is, of both factors where it has two."""
    width = config.embedding_size or config.hidden_size
    second = width * config.hidden_size if width < config.hidden_size else 0
    return (config.vocab_size * width + second) * bytes_of_weight(quantize)


def table_of_most_words(config: models.EncoderConfig, quantize: str) -> float:
    """The bytes of a word table with 85% of the words.

    The others are rare, and can be spelt with these: see decision 0018.
    """
    return table_bytes(config.replace(vocab_size=math.ceil(0.85 * config.vocab_size)), quantize)


def small_table_bytes(config: models.EncoderConfig, quantize: str) -> float:
    """Estimates the bytes of the word table that `export.size_mb` reaches at little loss.

    That of V words and width w is two factors of rank r, about w / 2, the larger in four bits with
    a scale of two bytes for each 32 numbers: V r (1/2 + 2/32) + r w. A table no wider than 32 stays
    one, in four bits.
    """
    width = config.embedding_size or config.hidden_size
    rank = min(width, 32 * math.ceil(width / 64))
    second = rank * width if rank < width else 0
    smaller = config.vocab_size * word_bytes_in_4_bits(rank) + second
    return min(smaller, table_bytes(config, quantize))


def word_bytes_in_4_bits(width: int) -> float:
    """The bytes of a word of so many numbers in four bits, scales included."""
    return width * (1 / 2 + 2 / 32)


def bytes_of_weight(quantize: str) -> float:
    """The bytes of a weight of a matrix or a table, with its part of a block's scale."""
    in_4_bits = re.search(r"_wi4_[a-z0-9]+(?:_block(\d+))?$", quantize)
    if in_4_bits is None:
        return {"float32": 4, "float16": 2}.get(quantize, 1)
    return 1 / 2 + (2 / int(in_4_bits[1]) if in_4_bits[1] else 0)
