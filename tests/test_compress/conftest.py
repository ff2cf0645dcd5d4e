"""A toy classifier and what a stage does to it, made once."""

import dataclasses
from typing import Any

import pytest
import tensorflow as tf
import toys

from tfdistill import distillers, training

CONFIG = toys.SHALLOW_STUDENT.replace(hidden_size=16, intermediate_size=32, num_heads=2)
BATCHES = [toys.features(lengths, seed=seed) for seed, lengths in enumerate(((7, 9, 4), (5, 8, 9)))]


def train(teacher: Any, student: Any, steps: int, *, rate: float = 1e-2) -> Any:
    """Trains on the teacher's logits, as a stage of a run does; returns the distiller."""
    distiller = distillers.LogitDistiller(teacher, student, objective="logit_mse")
    distiller.compile(training.adamw(rate, total_steps=steps, schedule="linear"))
    step = distiller.train_step
    if steps > 6:  # tracing costs as much as six steps
        step = tf.function(step, reduce_retracing=True)
    for index in range(steps):
        step((BATCHES[index % 2],))
    return distiller


@dataclasses.dataclass(frozen=True)
class Compressed:
    """A float model, the wrapped one after training, and its plain form."""

    plain: Any
    trained: Any
    stripped: Any


@pytest.fixture(scope="session")
def toy():
    return toys.classifier(CONFIG, seed=3)


@pytest.fixture(scope="session")
def pruned(toy):
    from tfdistill import compress

    trained = compress.prune(toy, sparsity=0.75, total_steps=6, end=0.5)
    train(toy, trained, 6)
    return Compressed(toy, trained, compress.strip(trained))


@pytest.fixture(scope="session")
def clustered(pruned):
    """Clustered after pruning."""
    from tfdistill import compress

    trained = compress.cluster(pruned.stripped, clusters=6)
    train(pruned.plain, trained, 4)
    return Compressed(pruned.stripped, trained, compress.strip(trained))


@pytest.fixture(scope="session")
def quantized(toy):
    from tfdistill import compress

    trained = compress.quantize_aware(toy)
    train(toy, trained, 4)
    return Compressed(toy, trained, compress.strip(trained))
