"""Reusable checks, one set for each kind of object.

`ObjectiveCase` describes an objective on a small batch; the `check_*` functions hold what is true
of every objective. A test parametrises over its cases and these checks (`every_check`).
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from tfdistill.losses import reduction

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]

# Sums of a few hundred float32 squares, against float64 loops: rounding stays below 1e-6.
RELATIVE = 1e-5


def run_program(*arguments: Any, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a program of the tests in a process of its own, to its end."""
    tests = pathlib.Path(__file__).parent
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": f"{tests}:{tests.parent}", **variables},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def divergences(expected: Any, temperature: float = 1.0) -> Any:
    """Approximates terms among which there is a KL divergence, times T^2 where that is given.

    It is a difference of log probabilities of a size of about 1. In float32 each is up to two
    roundings off, 2^-22, so that T^2 KL may be off by T^2 2^-21, however small KL itself is.
    """
    return pytest.approx(expected, rel=RELATIVE, abs=temperature**2 * 2**-21)


@dataclass(frozen=True)
class ObjectiveCase:
    """An objective, a batch for it and what must come out.

    Attributes:
      name: Name of the case in test reports.
      objective: ``(teacher, student, weights) -> scalar``; weights are the mask of an objective
        on tokens or the sample weights of an objective on logits.
      loop: The same in plain NumPy loops over Python floats.
      batch: Teacher, student and weights, examples on axis 0; some weights are 0.
      padded: Appends values of weight 0 (more tokens, or more examples) that hold anything.
      counts: How much an example weighs in the mean: weights (n, ...) -> (n,).
      minimum: The value at equality for a teacher and weights; 0 unless said otherwise.
      size_is_divisor: The reduction divides by the tensor's size, so that padding and splitting
        do move the value.
      step: Of the finite differences that the gradient is compared with.
    """

    name: str
    objective: Callable[..., tf.Tensor]
    loop: Callable[..., float]
    batch: Arrays
    padded: Callable[..., Arrays]
    counts: Callable[[np.ndarray], np.ndarray]
    minimum: Callable[[np.ndarray, np.ndarray], float] = lambda teacher, weights: 0.0
    size_is_divisor: bool = False
    step: float = 1e-2


def grown(array: np.ndarray, axes: tuple[int, ...], value: float) -> np.ndarray:
    """Two more positions along `axes`."""
    widths = [(0, 2 if axis in axes else 0) for axis in range(array.ndim)]
    return np.pad(array, widths, constant_values=value)


def more_tokens(*axes: int) -> Callable[..., Arrays]:
    """Padding for an objective on tokens: positions along `axes`, with mask 0."""

    def padded(teacher: np.ndarray, student: np.ndarray, mask: np.ndarray, filler: float) -> Arrays:
        return grown(teacher, axes, -filler), grown(student, axes, filler), grown(mask, (1,), 0)

    return padded


def more_examples(
    teacher: np.ndarray, student: np.ndarray, weights: np.ndarray, filler: float
) -> Arrays:
    """Padding for an objective on examples: examples of weight 0."""
    return grown(teacher, (0,), 1.0), grown(student, (0,), filler), grown(weights, (0,), 0)


def cross_entropy_term(p: float, q: float) -> float:
    return -p * float(np.log(q))


def kl_term(p: float, q: float) -> float:
    return p * float(np.log(p / q))


@lru_cache(maxsize=64)
def _traced(objective: Callable[..., tf.Tensor], specs: tuple[tf.TensorSpec, ...]) -> Callable:
    """One graph for an objective and its gradients."""

    @tf.function(input_signature=specs)
    def run(*inputs: tf.Tensor):
        with tf.GradientTape() as tape:
            tape.watch([x for x in inputs if x.dtype.is_floating])
            value = objective(*inputs)
        return value, tape.gradient(
            value, inputs, unconnected_gradients=tf.UnconnectedGradients.NONE
        )

    return run


def value_and_gradients(
    case: ObjectiveCase, *batch: np.ndarray | tf.Tensor
) -> tuple[float, list[np.ndarray | None]]:
    """Evaluates inside tf.function, with the gradients of teacher, student and weights.

    No size is known to the graph, as in training with batches bucketed by length.
    """
    tensors = [tf.convert_to_tensor(array) for array in batch]
    specs = tuple(tf.TensorSpec([None] * x.shape.rank, x.dtype) for x in tensors)
    value, gradients = _traced(case.objective, specs)(*tensors)
    assert value.dtype == tf.float32
    assert value.shape == ()
    return float(value), [None if g is None else g.numpy() for g in gradients]


def check_equals_loop(case: ObjectiveCase) -> None:
    """The value is the formula's, eagerly and inside a graph of unknown sizes."""
    expected = case.loop(*case.batch)
    assert abs(expected) > 1e-3, "the case must tell a right value from 0"
    np.testing.assert_allclose(float(case.objective(*case.batch)), expected, rtol=RELATIVE)
    value, _ = value_and_gradients(case, *case.batch)
    np.testing.assert_allclose(value, expected, rtol=RELATIVE)


def check_minimum_at_equality(case: ObjectiveCase, seed: int = 0) -> None:
    """At equality the value is the stated minimum, and no step away from it goes lower."""
    teacher, _, weights = case.batch
    at_equality, (_, gradient, _) = value_and_gradients(case, teacher, teacher, weights)
    lowest = case.minimum(teacher, weights)
    # Cosines and entropies round to a few units of 6e-8.
    np.testing.assert_allclose(at_equality, lowest, rtol=1e-6, atol=5e-7)
    assert gradient is not None
    np.testing.assert_allclose(gradient, 0.0, atol=1e-6)
    random = np.random.default_rng(seed)
    for size in (0.1, 1.0, 10.0):
        step = size * random.standard_normal(teacher.shape).astype(np.float32)
        assert float(case.objective(teacher, teacher + step, weights)) > at_equality + 1e-5 * size


def check_ignores_padding(case: ObjectiveCase) -> None:
    """Padding that holds noise, huge numbers, infinity or NaN moves neither value nor gradient."""
    before, (_, gradient, _) = value_and_gradients(case, *case.batch)
    assert gradient is not None
    inside = tuple(slice(size) for size in gradient.shape)
    for filler in (0.0, 7.0, -1e9, np.inf, np.nan):
        after, (_, moved, _) = value_and_gradients(case, *case.padded(*case.batch, filler))
        np.testing.assert_allclose(after, before, rtol=RELATIVE, err_msg=f"padding {filler}")
        assert moved is not None
        assert moved.shape != gradient.shape
        np.testing.assert_allclose(moved[inside], gradient, rtol=1e-4, atol=1e-7)
        moved[inside] = 0.0
        np.testing.assert_array_equal(moved, 0.0, err_msg=f"gradient into padding {filler}")


def check_ignores_batch_order(case: ObjectiveCase) -> None:
    """Reversing the examples moves nothing."""
    backwards = [array[::-1].copy() for array in case.batch]
    np.testing.assert_allclose(
        float(case.objective(*backwards)),
        float(case.objective(*case.batch)),
        rtol=RELATIVE,
    )


def check_splits(case: ObjectiveCase) -> None:
    """Parts of a batch, averaged by what they weigh, give the whole."""
    whole = float(case.objective(*case.batch))
    counts = case.counts(case.batch[2])
    for cut in range(1, len(counts)):
        parts = [[array[part] for array in case.batch] for part in (slice(cut), slice(cut, None))]
        values = [float(case.objective(*part)) for part in parts]
        weights = [counts[:cut].sum(), counts[cut:].sum()]
        np.testing.assert_allclose(np.average(values, weights=weights), whole, rtol=RELATIVE)


def check_replicas(case: ObjectiveCase) -> None:
    """Replicas with shares of any size: their mean is the whole's value, and so is its gradient.

    What the replicas tell each other, the mean of their divisors, is passed on by hand.
    """
    whole, gradient = _eagerly(case, *case.batch)
    for cut in range(len(case.batch[2]) // 2 + 1):  # from a replica with nothing to equal shares
        shares = [[array[part] for array in case.batch] for part in (slice(cut), slice(cut, None))]
        told: list[list[tf.Tensor]] = []
        for share in shares:
            seen: list[tf.Tensor] = []
            with mock.patch.object(reduction, "replica_mean", lambda x, to=seen: to.append(x) or x):
                case.objective(*share)
            told.append(seen)
        means = [tf.add_n(pair) / 2.0 for pair in zip(*told, strict=True)]
        assert means
        values, gradients = [], []
        for share in shares:
            left = iter(means)
            with mock.patch.object(reduction, "replica_mean", lambda _, rest=left: next(rest)):
                value, slope = _eagerly(case, *share)
            values.append(value)
            gradients.append(slope / 2.0)
        np.testing.assert_allclose(np.mean(values), whole, rtol=RELATIVE)
        np.testing.assert_allclose(np.concatenate(gradients), gradient, rtol=1e-4, atol=1e-7)


def _eagerly(case: ObjectiveCase, *batch: np.ndarray) -> tuple[float, np.ndarray]:
    """The value and the student's gradient, without a graph that remembers an earlier call."""
    student = tf.constant(batch[1])
    with tf.GradientTape() as tape:
        tape.watch(student)
        value = case.objective(batch[0], student, batch[2])
    return float(value), tape.gradient(value, student).numpy()


def check_weight_counts_examples(case: ObjectiveCase) -> None:
    """Weight 3 is the example three times; scaling all weights moves nothing."""
    teacher, student, weights = case.batch
    thrice = weights.astype(np.float32).copy()
    thrice[0] *= 3.0
    repeated = [np.concatenate([x[:1], x[:1], x]) for x in case.batch]
    heavy = float(case.objective(teacher, student, thrice))
    copies = float(case.objective(*repeated))
    if case.size_is_divisor:  # the divisor counts examples, whatever they weigh
        copies *= (len(weights) + 2) / len(weights)
    np.testing.assert_allclose(heavy, copies, rtol=RELATIVE)
    if not case.size_is_divisor:
        np.testing.assert_allclose(
            float(case.objective(teacher, student, weights * np.float32(0.37))),
            float(case.objective(*case.batch)),
            rtol=RELATIVE,
        )


def check_gradients(case: ObjectiveCase) -> None:
    """The student's gradient is the loop's slope; teacher and weights get none."""
    step = case.step
    batch = [*case.batch[:2], case.batch[2].astype(np.float32)]
    _, (teacher, gradient, weights) = value_and_gradients(case, *batch)
    assert teacher is None
    assert weights is None
    assert gradient is not None
    assert np.abs(gradient).max() > 1e-4
    random = np.random.default_rng(1)
    for _ in range(3):
        direction = random.standard_normal(batch[1].shape)
        up = case.loop(batch[0], batch[1] + step * direction, batch[2])
        down = case.loop(batch[0], batch[1] - step * direction, batch[2])
        # Central differences of a smooth function: the error is of order step^2 = 1e-4.
        np.testing.assert_allclose(
            np.sum(gradient * direction), (up - down) / (2 * step), rtol=3e-3, atol=1e-5
        )


def check_finite_at_extremes(case: ObjectiveCase) -> None:
    """Huge, opposite and vanishing inputs give finite values and gradients."""
    teacher, student, weights = case.batch
    for scale in (1e-30, 1e4, 6.5e4, 1e9, 1e15):
        for sign in (1.0, -1.0):
            value, (_, gradient, _) = value_and_gradients(
                case,
                (scale * teacher).astype(np.float32),
                (sign * scale * student).astype(np.float32),
                weights,
            )
            assert np.isfinite(value), (scale, sign, value)
            assert gradient is not None
            assert np.isfinite(gradient).all(), (scale, sign)


def check_low_precision(case: ObjectiveCase, dtype: tf.DType) -> None:
    """float16 or bfloat16 inputs are computed in float32: only their own rounding remains."""
    rounded = [tf.cast(array, dtype) for array in case.batch[:2]]
    exact = case.loop(*(tf.cast(x, tf.float32).numpy() for x in rounded), case.batch[2])
    weights = case.batch[2]
    value, (_, gradient, _) = value_and_gradients(case, *rounded, weights)
    np.testing.assert_allclose(value, exact, rtol=RELATIVE)
    assert gradient is not None
    assert np.isfinite(gradient.astype(np.float32)).all()
    assert np.abs(gradient.astype(np.float32)).max() > 0.0
    # The largest finite float16: squares and exponentials would overflow in float16.
    huge = [tf.cast(np.sign(array) * 6.5e4, dtype) for array in case.batch[:2]]
    value, (_, gradient, _) = value_and_gradients(case, *huge, weights)
    assert np.isfinite(value)
    assert gradient is not None


def check_nothing_real_is_zero(case: ObjectiveCase) -> None:
    """Without any real token or example the value and the gradient are 0, never NaN."""
    teacher, student, weights = case.batch
    value, (_, gradient, _) = value_and_gradients(case, teacher, student, np.zeros_like(weights))
    assert value == 0.0
    assert gradient is not None
    np.testing.assert_array_equal(gradient, 0.0)


CHECKS = {
    "equals_loop": check_equals_loop,
    "minimum_at_equality": check_minimum_at_equality,
    "ignores_padding": check_ignores_padding,
    "ignores_batch_order": check_ignores_batch_order,
    "splits": check_splits,
    "replicas": check_replicas,
    "weight_counts_examples": check_weight_counts_examples,
    "gradients": check_gradients,
    "finite_at_extremes": check_finite_at_extremes,
    "float16": partial(check_low_precision, dtype=tf.float16),
    "bfloat16": partial(check_low_precision, dtype=tf.bfloat16),
    "nothing_real_is_zero": check_nothing_real_is_zero,
}


def every_check(cases: Sequence[ObjectiveCase]) -> pytest.MarkDecorator:
    """Parametrises ``test(case, check)``; a reduction that divides by the size sees padding.

    float16 overflows and rounds: bfloat16 is only another rounding of the same float32 sums.
    """
    return pytest.mark.parametrize(
        ("case", "check"),
        [
            pytest.param(
                case,
                check,
                id=f"{case.name}-{name}",
                marks=pytest.mark.thorough if name == "bfloat16" else (),
            )
            for name, check in CHECKS.items()
            for case in cases
            if not (check is check_ignores_padding and case.size_is_divisor)
        ],
    )
