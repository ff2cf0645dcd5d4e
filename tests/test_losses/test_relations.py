"""MiniLM's relations: what is true of every objective, and what is true of them alone."""

import numpy as np
import pytest

import harness
from tfdistill.losses import relation_kl

random = np.random.default_rng(8)


def vectors(*shape):
    return random.standard_normal(shape).astype(np.float32)


MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 1, 0, 0, 0]], np.int32)
WEIGHTS = np.array([[0.5, 2, 1, 1, 0.3], [3, 3, 3, 0, 0], [0.25, 4, 0, 0, 0]], np.float32)
BATCH = (vectors(3, 5, 8), vectors(3, 5, 8))


def relations(example, mask, num_heads):
    """softmax over the real keys of x_i . x_j / sqrt(d_r), for every head: lists of floats."""
    head_width = example.shape[1] // num_heads
    of_heads = []
    for k in range(num_heads):
        head = example[:, k * head_width : (k + 1) * head_width].astype(np.float64)
        rows = []
        for i in range(len(mask)):
            scores = [
                float(head[i] @ head[j]) / head_width**0.5 if mask[j] else -np.inf
                for j in range(len(mask))
            ]
            exponentials = [np.exp(score - max(scores)) for score in scores]
            rows.append([e / sum(exponentials) for e in exponentials])
        of_heads.append(rows)
    return of_heads


def divergences(teacher, student, mask, num_heads):
    """Yields (example, its divergences over heads and real queries as (query, value))."""
    for b in range(len(mask)):
        p, q = (relations(side[b], mask[b], num_heads) for side in (teacher, student))
        values = []
        for k in range(num_heads):
            for i in range(mask.shape[1]):
                if mask[b, i]:
                    real = [j for j in range(mask.shape[1]) if mask[b, j]]
                    value = sum(p[k][i][j] * np.log(p[k][i][j] / q[k][i][j]) for j in real)
                    values.append((i, float(value)))
        yield b, values


def loop(teacher, student, mask, num_heads=2):
    total = sum(
        float(mask[b, i]) * value / num_heads
        for b, values in divergences(teacher, student, mask, num_heads)
        for i, value in values
    )
    return total / float(mask.sum())


def reference_loop(teacher, student, mask, num_heads=2):
    total = 0.0
    for b, values in divergences(teacher, student, mask, num_heads):
        total += float(max(mask[b])) * float(np.mean([value for _, value in values]))
    return total / len(mask)


def two_heads(teacher, student, mask):
    return relation_kl(teacher, student, mask, num_relation_heads=2)


def two_heads_reference(teacher, student, mask):
    return relation_kl(teacher, student, mask, num_relation_heads=2, reduction="reference")


CASES = [
    harness.ObjectiveCase(
        "tokens",
        two_heads,
        loop,
        (*BATCH, WEIGHTS),
        harness.more_tokens(1),
        lambda mask: mask.sum(axis=1),
    ),
    harness.ObjectiveCase(
        "reference",
        two_heads_reference,
        reference_loop,
        (*BATCH, MASK),
        harness.more_tokens(1),
        lambda mask: np.ones(len(mask)),
        size_is_divisor=True,
    ),
]


@harness.every_check(CASES)
def test_it_is_an_objective(case, check):
    check(case)


def test_the_reference_ignores_padding_too():
    """Its sentences count, not its size."""
    harness.check_ignores_padding(CASES[1])


@pytest.mark.parametrize("num_heads", [1, 2, 4])
def test_widths_may_differ(num_heads):
    teacher, student = vectors(3, 5, 16), vectors(3, 5, 8)
    expected = loop(teacher, student, MASK, num_heads)
    received = relation_kl(teacher, student, MASK, num_relation_heads=num_heads)
    np.testing.assert_allclose(float(received), expected, rtol=1e-5)
