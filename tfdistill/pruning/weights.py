"""The cut itself: a teacher's weights and measurements -> a student's weights. NumPy alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from tfdistill import models
from tfdistill.pruning.importance import Measurements
from tfdistill.weights import factorised

Weights = Mapping[str, Sequence[np.ndarray]]  # layer name -> arrays, as Keras orders them

_TABLES = ("word_embeddings", "position_embeddings", "token_type_embeddings")
_PROJECTION = "embedding_projection"  # of a factorised word table
_BEFORE_CLASSIFIER = ("pooler", "pre_classifier")
_OVER_POOLED = ("classifier", "nsp_classifier")
_OVER_TOKENS = ("token_classifier", "span_classifier")


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


@dataclasses.dataclass(frozen=True)
class Selection:
    """The parts of a teacher that a student keeps, counted from 0.

    Attributes:
      layers: The teacher layer of each student layer.
      neurons: Of each student layer the neurons of its teacher layer, ascending.
      heads: Of each student layer the heads, ascending.
      pooled: The neurons of the dense layer in front of the classifier, ascending.
    """

    layers: tuple[int, ...]
    neurons: tuple[tuple[int, ...], ...]
    heads: tuple[tuple[int, ...], ...]
    pooled: tuple[int, ...]


def choose(
    measured: Measurements, student: models.EncoderConfig, layers: Sequence[int]
) -> Selection:
    """Keeps the most important neurons and heads of each layer.

    Args:
      measured: The teacher's measurements.
      student: The student's configuration.
      layers: The teacher layer of each student layer.

    Returns:
      What is kept. Of equal importances the first.
    """

    def best(importance: np.ndarray, count: int) -> tuple[int, ...]:
        return tuple(sorted(np.argsort(-importance, kind="stable")[:count].tolist()))

    return Selection(
        layers=tuple(layers),
        neurons=tuple(best(measured.neurons[i], student.intermediate_size) for i in layers),
        heads=tuple(best(measured.heads[i], student.num_heads) for i in layers),
        pooled=best(measured.pooled, student.hidden_size),
    )


def stream_basis(
    measured: Measurements, student: models.EncoderConfig, layers: Sequence[int]
) -> np.ndarray | None:
    """The directions that a student keeps of the embeddings and of its layers' hidden states.

    Each counts alike. None where student and teacher are equally wide: all are kept.
    """
    if student.hidden_size == measured.states.shape[-1]:
        return None
    moments = measured.states[[0, *(layer + 1 for layer in layers)]]
    return hidden_basis(moments.mean(axis=0), student.hidden_size)


def pruned_weights(
    teacher: Weights,
    measured: Measurements,
    student: models.EncoderConfig,
    selection: Selection,
    basis: np.ndarray | None,
) -> dict[str, list[np.ndarray]]:
    """Cuts a student's weights out of a teacher's.

    With C the basis (`hidden_basis`; the identity where the width stays), tables become
    ``E C``, matrices that read hidden states ``C^T W``, those that write them ``W C``. Of queries,
    keys, values, intermediate neurons and the pooler the columns of kept heads and neurons stay, of
    the matrices that read them the rows; heads of another size are mapped by
    `narrower_scores` and `narrower_values`. The word table of a student with an
    `embedding_size` is then factorised (`weights.factorised.split`). A LayerNorm with gamma g and
    beta b becomes ``diag(C^T diag(g) C) sqrt(d / w)`` and ``C^T b``, d and w being the widths: what
    keeps the scale of a state whose length lies in the kept directions. `refit` does better.

    Args:
      teacher: The teacher's weights by layer.
      measured: Its measurements.
      student: The student's configuration.
      selection: What stays, see `choose`.
      basis: C, (d, w), or None.

    Returns:
      Weights of the student's layers, float32, as far as the teacher has them.
    """
    cut = _Cut(teacher, basis)
    result = {}
    for name in _TABLES:
        if name in teacher:
            result[name] = [cut.write(teacher[name][0])]
    if _PROJECTION in teacher:
        table = np.asarray(teacher[_TABLES[0]][0], np.float64) @ teacher[_PROJECTION][0]
        result[_TABLES[0]] = [cut.write(table)]
    if student.embedding_size is not None:
        table = result[_TABLES[0]][0]
        words, projection = factorised.split(table, student.embedding_size, measured.words)
        result[_TABLES[0]], result[_PROJECTION] = [words], [projection]
    if not student.type_vocab_size and "token_type_embeddings" in result:
        # A single text has type 0 everywhere: its embeddings stay what they were.
        result["position_embeddings"][0] += result.pop("token_type_embeddings")[0][0]
    result["embeddings_layer_norm"] = cut.norm("embeddings_layer_norm")
    for index, source in enumerate(selection.layers):
        layer_name, source_name = f"layer_{index}", f"layer_{source}"
        heads = list(selection.heads[index])
        for name, arrays in _attention(cut, source_name, measured, source, heads, student).items():
            result[f"{layer_name}_{name}"] = arrays
        neurons = list(selection.neurons[index])
        kernel, bias = cut.reading(f"{source_name}_intermediate")
        result[f"{layer_name}_intermediate"] = [kernel[:, neurons], bias[neurons]]
        kernel, bias = cut.writing(f"{source_name}_output")
        result[f"{layer_name}_output"] = [kernel[neurons], bias]
        for norm in ("attention_layer_norm", "layer_norm"):
            result[f"{layer_name}_{norm}"] = cut.norm(f"{source_name}_{norm}")
    before = next((name for name in _BEFORE_CLASSIFIER if name in teacher), None)
    if before is not None:
        kernel, bias = cut.reading(before)
        pooled = list(selection.pooled)
        result |= {name: [kernel[:, pooled], bias[pooled]] for name in _BEFORE_CLASSIFIER}
        for name in filter(teacher.__contains__, _OVER_POOLED):
            result[name] = [teacher[name][0][pooled], teacher[name][1]]
    over_states = _OVER_TOKENS if before is not None else (*_OVER_TOKENS, *_OVER_POOLED)
    for name in filter(teacher.__contains__, over_states):  # or means of states
        result[name] = list(cut.reading(name))
    if "mlm_transform" in teacher:
        kernel, bias = cut.reading("mlm_transform")
        result["mlm_transform"] = [cut.write(kernel), cut.write(bias)]
        result["mlm_layer_norm"] = cut.norm("mlm_layer_norm")
        result["mlm_bias"] = list(teacher["mlm_bias"])
    return {
        name: [np.asarray(array, np.float32) for array in arrays] for name, arrays in result.items()
    }


class _Cut:
    """A teacher's matrices in the student's basis, float64."""

    def __init__(self, teacher: Weights, basis: np.ndarray | None) -> None:
        self._teacher, self._basis = teacher, basis

    def write(self, rows: np.ndarray) -> np.ndarray:
        """Rows of hidden width, or one, in the student's basis."""
        rows = np.asarray(rows, np.float64)
        return rows.copy() if self._basis is None else rows @ self._basis

    def reading(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Kernel and bias of a dense layer over hidden states."""
        kernel, bias = (np.asarray(array, np.float64) for array in self._teacher[name])
        return (kernel if self._basis is None else self._basis.T @ kernel), bias

    def writing(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Kernel and bias of a dense layer whose output is added to hidden states."""
        kernel, bias = self._teacher[name]
        return self.write(kernel), self.write(bias)

    def norm(self, name: str) -> list[np.ndarray]:
        """Gamma and beta of a LayerNorm over hidden states."""
        gamma, beta = (np.asarray(array, np.float64) for array in self._teacher[name])
        if self._basis is None:
            return [gamma, beta]
        wide, narrow = self._basis.shape
        shares = np.square(self._basis)  # (d, w); a column's sum is 1 but for what B takes
        scale = np.sqrt(wide / narrow) / np.maximum(shares.sum(axis=0), 1e-12)
        return [gamma @ shares * scale, beta @ self._basis]


def _attention(
    cut: _Cut,
    source_name: str,
    measured: Measurements,
    source: int,
    heads: list[int],
    student: models.EncoderConfig,
) -> dict[str, list[np.ndarray]]:
    """Query, key, value and output of one layer: kept heads at the student's head size."""
    projections = {name: cut.reading(f"{source_name}_{name}") for name in ("query", "key", "value")}
    output, output_bias = cut.writing(f"{source_name}_attention_output")
    size = measured.queries.shape[-1]
    new = student.head_width
    parts: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {name: [] for name in projections}
    rows = []
    for head in heads:
        columns = slice(head * size, (head + 1) * size)
        row = output[columns]
        maps = dict.fromkeys(projections, np.eye(size))
        if new != size:
            maps["query"], maps["key"] = narrower_scores(
                measured.queries[source, head], measured.keys[source, head], new
            )
            maps["value"], row = narrower_values(measured.contexts[source, head], row, new)
        for name, (kernel, bias) in projections.items():
            parts[name].append((kernel[:, columns] @ maps[name], bias[columns] @ maps[name]))
        rows.append(row)
    result = {
        name: [np.concatenate([pair[i] for pair in pairs], axis=-1) for i in (0, 1)]
        for name, pairs in parts.items()
    }
    return {**result, "attention_output": [np.concatenate(rows), output_bias]}
