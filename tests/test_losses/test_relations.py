"""MiniLM's relations: what is true of every objective, and what is true of them alone."""

import numpy as np
import pytest

import harness
from tfdistill.errors import ConfigError, ShapeError
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


def more_tokens(teacher, student, mask, filler):
    """Two more positions with mask 0."""

    def grow(array, value):
        widths = [(0, 2 if axis == 1 else 0) for axis in range(array.ndim)]
        return np.pad(array, widths, constant_values=value)

    return grow(teacher, 1.0), grow(student, filler), grow(mask, 0)


def two_heads(teacher, student, mask):
    return relation_kl(teacher, student, mask, num_relation_heads=2)


def two_heads_reference(teacher, student, mask):
    return relation_kl(teacher, student, mask, num_relation_heads=2, reduction="reference")


CASES = [
    harness.ObjectiveCase(
        f"{name}-{mask_name}",
        objective,
        expected,
        (*BATCH, mask),
        more_tokens,
        counts,
        size_is_divisor=name == "reference",
    )
    for mask_name, mask in (("mask", MASK), ("weights", WEIGHTS))
    for name, objective, expected, counts in (
        ("tokens", two_heads, loop, lambda mask: mask.sum(axis=1)),
        (
            "reference",
            two_heads_reference,
            reference_loop,
            lambda mask: np.ones(len(mask)),
        ),
    )
]


@harness.every_check(CASES)
def test_it_is_an_objective(case, check):
    check(case)


@pytest.mark.parametrize("case", CASES[1::2], ids=lambda case: case.name)
def test_the_reference_ignores_padding_too(case):
    """Its sentences count, not its size."""
    harness.check_ignores_padding(case)


@pytest.mark.parametrize("num_heads", [1, 2, 4])
def test_widths_may_differ(num_heads):
    teacher, student = vectors(3, 5, 16), vectors(3, 5, 8)
    expected = loop(teacher, student, MASK, num_heads)
    received = relation_kl(teacher, student, MASK, num_relation_heads=num_heads)
    np.testing.assert_allclose(float(received), expected, rtol=1e-5)


def test_a_bert_large_teaches_a_student_of_twelve_heads():
    """1024 wide with 16 heads, and 384 wide with 12: cut into 64 relation heads on both sides."""
    teacher, student = vectors(1, 3, 1024), vectors(1, 3, 384)
    mask = np.array([[1, 1, 1]])
    received = relation_kl(teacher, student, mask, num_relation_heads=64)
    expected = loop(teacher, student, mask, 64)
    np.testing.assert_allclose(float(received), expected, rtol=1e-5)


def test_the_number_of_relation_heads_matters():
    teacher, student = BATCH
    values = [
        float(relation_kl(teacher, student, MASK, num_relation_heads=heads)) for heads in (1, 2, 4)
    ]
    assert np.ptp(values) > 0.05


def test_a_rotation_of_a_relation_head_is_not_seen():
    """Relations are dot products: a student of another basis may be as right as its teacher."""
    teacher = vectors(3, 5, 8)
    rotation, _ = np.linalg.qr(random.standard_normal((4, 4)))
    both = np.kron(np.eye(2), rotation).astype(np.float32)
    assert float(two_heads(teacher, teacher @ both, MASK)) == pytest.approx(0.0, abs=1e-6)
    # A rotation across relation heads is another matter.
    across, _ = np.linalg.qr(random.standard_normal((8, 8)))
    assert float(two_heads(teacher, teacher @ across.astype(np.float32), MASK)) > 0.05


def test_a_short_sentence_counts_as_much_as_a_long_one_in_the_reference_only():
    teacher, student = BATCH
    parts = [
        float(two_heads(teacher[b : b + 1], student[b : b + 1], MASK[b : b + 1])) for b in range(3)
    ]
    np.testing.assert_allclose(
        float(two_heads_reference(teacher, student, MASK)), np.mean(parts), rtol=1e-5
    )
    np.testing.assert_allclose(
        float(two_heads(teacher, student, MASK)), np.average(parts, weights=[5, 3, 2]), rtol=1e-5
    )
    assert np.ptp(parts) > 0.05


@pytest.mark.parametrize("heads", [0, -1, 2.0, True, None])
def test_relation_heads_are_a_count(heads):
    with pytest.raises(ConfigError, match="num_relation_heads: expected an integer of at least 1"):
        relation_kl(*BATCH, MASK, num_relation_heads=heads)


@pytest.mark.parametrize(
    ("teacher", "student", "mask", "message"),
    [
        ((3, 5, 8), (3, 4, 8), (3, 5), r"batch and tokens \(3, 5\), received \(3, 4\)"),
        ((3, 5, 8), (1, 5, 8), (3, 5), "same batch"),
        ((3, 8), (3, 8), (3, 5), r"expected shape \(batch, tokens, width\)"),
        ((3, 5, 8), (3, 5, 8), (3, 5, 1), "mask: expected one weight"),
    ],
)
def test_shapes_that_would_broadcast_are_refused(teacher, student, mask, message):
    with pytest.raises(ShapeError, match=message):
        two_heads(vectors(*teacher), vectors(*student), np.ones(mask))
