"""What is true of every distiller: terms that are switched off, seeds, and losses that go down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from tfdistill import distillers, models

Make = Callable[..., distillers.Distiller]


def compiled(distiller: distillers.Distiller, **options: Any) -> distillers.Distiller:
    """Compiles for single eager steps."""
    options.setdefault("optimizer", keras.optimizers.SGD(0.1))
    distiller.compile(**options, run_eagerly=True)
    return distiller


def logged(step: Callable, *data: Any) -> dict[str, float]:
    """One step from fresh running means."""
    step.__self__.reset_metrics()
    return {name: float(value) for name, value in step(data).items()}


def evaluated(distiller: distillers.Distiller, *data: Any, **options: Any) -> dict[str, float]:
    """One step without an update."""
    return logged(compiled(distiller, **options).test_step, *data)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def tapped(model: keras.Model, features: dict[str, tf.Tensor]) -> dict[str, Any]:
    """The inner states of a model, in float64."""
    view = models.taps(model)
    outputs = view({name: features[name] for name in view.input_names}, training=False)
    return tf.nest.map_structure(lambda tensor: tensor.numpy().astype(np.float64), outputs)


def check_ablation(make: Make, data: tuple, weights: dict[str, float]) -> None:
    """A weight of 0 removes its term, the others stay, and the loss is the rest's weighted sum.

    Args:
      make: Makes the distiller.
      data: A batch.
      weights: The weights that the terms should have by default, each term above 0.
    """
    distiller = make()
    whole = logged(compiled(distiller).test_step, *data)
    assert set(weights) < set(whole)
    total = sum(weight * whole[term] for term, weight in weights.items())
    assert whole["loss"] == pytest.approx(total, rel=1e-5)
    for off, weight in weights.items():
        # Each term matters: without it the loss differs.
        assert weight * whole[off] > 1e-3 * whole["loss"], off
        compiled(distiller, loss_weights={off: 0})
        assert off not in distiller.active_terms
        rest = logged(distiller.test_step, *data)
        others = {name: value for name, value in whole.items() if name not in (off, "loss")}
        assert rest["loss"] == pytest.approx(total - weight * whole[off], rel=1e-4)
        assert {k: v for k, v in rest.items() if k != "loss"} == pytest.approx(others, rel=1e-6)


def check_seeds(make: Make, data: tuple) -> None:
    """One seed repeats bit for bit, another one does not.

    Args:
      make: Makes the distiller for a seed, with a student that has dropout.
      data: A batch.
    """
    results = []
    for seed in (0, 0, 1):
        distiller = compiled(make(seed=seed))
        for _ in range(2):
            distiller.train_step(data)
        results.append([variable.numpy() for variable in distiller.trainable_variables])
    first, again, other = results
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert any((a != b).any() for a, b in zip(first, other, strict=True))


def check_teacher_stays(make: Make, data: tuple) -> None:
    """The teacher's weights are bit-equal after steps that do move the student's."""
    distiller = compiled(make(), optimizer=keras.optimizers.Adam(0.05))
    assert distiller.teacher is not None
    before = distiller.teacher.get_weights()
    student = distiller.student.get_weights()
    for _ in range(2):
        distiller.train_step(data)
    assert all((a == b).all() for a, b in zip(before, distiller.teacher.get_weights(), strict=True))
    assert any(
        (a != b).any() for a, b in zip(student, distiller.student.get_weights(), strict=True)
    )


def first_and_last(
    distiller: distillers.Distiller,
    batches: list[tuple],
    *,
    epochs: int,
    rate: float = 0.02,
    **options: Any,
) -> dict[str, tuple[float, float]]:
    """Trains over the same batches; the means of each term in the first and the last epoch."""
    shapes = tf.nest.map_structure(
        lambda tensor: tf.TensorSpec([None] * tensor.shape.rank, tensor.dtype), batches[0]
    )
    data = tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=shapes)
    distiller.compile(keras.optimizers.Adam(rate), **options)
    history = distiller.fit(data.repeat(), steps_per_epoch=len(batches), epochs=epochs, verbose=0)
    return {name: (float(values[0]), float(values[-1])) for name, values in history.history.items()}
