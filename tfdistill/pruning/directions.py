"""Fewer directions: of the hidden states, and inside an attention head. NumPy alone."""

from __future__ import annotations

import numpy as np


def hidden_basis(moments: np.ndarray, width: int) -> np.ndarray:
    """The directions of the hidden states that a narrower student keeps.

    With the leading eigenvectors V (d, w - 1) of the second moments, the basis is ``C = V B^T``
    for an orthonormal B (w, w - 1) whose columns sum to 0. A teacher state x becomes ``C^T x``,
    and ``C C^T x = V V^T x`` is what of x is left. Every ``C^T x`` sums to 0, so the mean that the
    student's LayerNorm subtracts is 0: it scales the kept directions and nothing else. With V
    alone it would remove one of them, the mean of whatever coordinates V happens to have.

    Reference: Ashkboos et al. 2024, SliceGPT, section 3.3, for the directions; LayerNorm there
    becomes RMSNorm, which here is what C does.

    Shapes: `moments` (d, d); returns (d, w).
    """
    _, vectors = np.linalg.eigh(moments)  # ascending
    leading = vectors[:, ::-1][:, : width - 1]
    signs = np.sign(leading[np.abs(leading).argmax(axis=0), np.arange(leading.shape[1])])
    return leading * signs @ zero_sum_basis(width).T


def zero_sum_basis(width: int) -> np.ndarray:
    """An orthonormal basis (w, w - 1) of the vectors that sum to 0, as near to unit vectors.

    The first w - 1 columns of the reflection that maps the constant direction to the last axis.
    """
    mirror = np.full(width, 1.0 / np.sqrt(width))
    mirror[-1] -= 1.0
    length = mirror @ mirror
    scale = 2.0 / length if length else 0.0  # a width of 1: nothing is left
    return (np.eye(width) - scale * np.outer(mirror, mirror))[:, : width - 1]


def narrower_scores(
    queries: np.ndarray, keys: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Maps the queries and keys of a head to fewer dimensions with the least change of scores.

    Among all P, R (k, size) these have the least ``E (q^T k - (P^T q)^T (R^T k))^2`` for queries
    and keys that are drawn independently with the given second moments: with
    ``U S V^T = svd(Q^{1/2} K^{1/2})`` cut to `size`, ``P = Q^{-1/2} U S^{1/2}`` and
    ``R = K^{-1/2} V S^{1/2}``. The queries also take up the scale ``sqrt(size / k)`` by which a
    narrower head divides less.

    Shapes: `queries` (k, k), `keys` (k, k).
    """
    root_q, inverse_q = _roots(queries)
    root_k, inverse_k = _roots(keys)
    left, values, right = np.linalg.svd(root_q @ root_k)
    scale = np.sqrt(values[:size])
    reading = inverse_q @ (left[:, :size] * scale)
    return reading * np.sqrt(size / len(queries)), inverse_k @ (right[:size].T * scale)


def narrower_values(
    contexts: np.ndarray, output: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Maps the values of a head to fewer dimensions with the least change of its output.

    Among all T (k, size), W' (size, d) these have the least ``E |c W - c T W'|^2`` for contexts
    c with the given second moments: with ``U S V^T = svd(C^{1/2} W)`` cut to `size`,
    ``T = C^{-1/2} U`` and ``W' = S V^T``.

    Shapes: `contexts` (k, k), `output` (k, d).
    """
    root, inverse = _roots(contexts)
    product = root @ output
    _, vectors = np.linalg.eigh(product @ product.T)  # ascending
    left = vectors[:, ::-1][:, :size]
    return inverse @ left, left.T @ product


def _roots(moments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The square root of a positive matrix and its inverse, 0 where there is nothing."""
    values, vectors = np.linalg.eigh(moments)
    roots = np.sqrt(np.maximum(values, 0.0))
    real = roots > 1e-4 * max(roots[-1], 1e-30)  # below: rounding of float32 sums
    inverse = np.where(real, 1.0 / np.where(real, roots, 1.0), 0.0)
    return vectors * roots @ vectors.T, vectors * inverse @ vectors.T
