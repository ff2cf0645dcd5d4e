"""What a file of a shape costs: from a few measured files to all others. Pure.

Latency and size are linear in what a shape does and stores. L tokens, width d, attention width a,
inner width f, h heads; the last layer of a classifier of texts is computed for [CLS] alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import scipy.optimize

from tfdistill import errors, models
from tfdistill.models.heads import KINDS as HEAD_KINDS

_HUBER = 1.345  # standard deviations from where an error counts linearly: 95% efficient if normal
_ROUNDS = 10  # of reweighting
_LEAST = 4  # files that a fit needs


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


def file_bytes(config: models.EncoderConfig, length: int, num_lengths: int, quantize: str) -> float:
    """Estimates the bytes of a file with the counts of `stored`, from files of two shapes.

    A weight takes a byte in all formats of integers: those of four bits keep the table in eight.
    """
    weight = {"float32": 4, "float16": 2}.get(quantize, 1)
    size = stored(config, length) @ np.array([7000, 21000, weight, weight, 4])
    return float(size) + 14600 * config.num_layers * (num_lengths - 1)


def small_bytes(
    config: models.EncoderConfig, length: int, num_lengths: int, quantize: str
) -> float:
    """Estimates the bytes that `export.size_mb` reaches at little loss, from the shape.

    The word table of V words and width w is then two factors of rank r, about w / 2, the larger in
    four bits with a scale of two bytes for each 32 numbers: V r (1/2 + 2/32) + r w. A table no
    wider than 32 stays one, in four bits.
    """
    width = config.embedding_size or config.hidden_size
    rank = min(width, 32 * math.ceil(width / 64))
    whole = file_bytes(config, length, num_lengths, quantize)
    second = rank * width if rank < width else 0
    table = config.vocab_size * width * {"float32": 4, "float16": 2}.get(quantize, 1)
    return min(whole, whole - table + config.vocab_size * rank * (1 / 2 + 2 / 32) + second)


def capacity(config: models.EncoderConfig) -> int:
    """Parameters of the layers, without tables, pooler and classifier: the proxy of accuracy."""
    two, one = (models.count_parameters(config.replace(num_layers=n)) for n in (2, 1))
    return config.num_layers * (two - one)


def fit_latency(counts: np.ndarray, latency_ms: Sequence[float]) -> np.ndarray:
    """Fits milliseconds a unit of `work` by non-negative least squares on relative errors.

    Minimises sum_i rho(w_i c / y_i - 1) over c >= 0 with Huber's rho, by reweighting: a file that
    something disturbed does not bend the others.

    `counts` are `work`, (n, 7), `latency_ms` medians, (n,); the coefficients are (7,).
    """
    measured = np.asarray(latency_ms, float)
    if len(measured) < _LEAST:
        raise errors.BenchmarkError("measured files", f"at least {_LEAST}", len(measured))
    if not (np.isfinite(measured).all() and (measured > 0).all()):
        raise errors.BenchmarkError("measured latencies", "positive numbers", measured.tolist())
    rows = counts / measured[:, None]
    scale = np.linalg.norm(rows, axis=0)
    scale[scale == 0] = 1.0  # nothing measured has any of it
    rows = rows / scale
    weights, coefficients = np.ones(len(rows)), np.zeros(rows.shape[1])
    for _ in range(_ROUNDS):
        coefficients, _ = scipy.optimize.nnls(rows * weights[:, None], weights)
        deviations = np.abs(rows @ coefficients - 1)
        usual = 1.4826 * np.median(deviations)  # the standard deviation, were they normal
        if usual < 1e-9:
            break
        weights = np.sqrt(np.minimum(1, _HUBER * usual / np.maximum(deviations, 1e-12)))
    return coefficients / scale


def fit_size(contents: np.ndarray, size_bytes: Sequence[int]) -> np.ndarray:
    """Fits bytes a unit of `stored` (n, 5) by least squares on relative errors."""
    sizes = np.asarray(size_bytes, float)
    scale = np.maximum(np.abs(contents).max(axis=0), 1.0)
    rows = contents / scale / sizes[:, None]
    return np.linalg.lstsq(rows, np.ones(len(sizes)), rcond=None)[0] / scale


def far_apart(counts: np.ndarray, count: int, start: int) -> list[int]:
    """Chooses files that differ: each next one is farthest from all chosen, in factors of work."""
    points = np.log1p(counts / np.maximum(np.median(counts, axis=0), 1))
    chosen, following, distance = [], start, np.full(len(points), np.inf)
    while len(chosen) < min(count, len(points)):
        chosen.append(following)
        distance = np.minimum(distance, np.linalg.norm(points - points[following], axis=1))
        distance[chosen] = -1.0
        following = int(np.argmax(distance))
    return chosen
