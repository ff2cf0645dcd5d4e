"""Toy models and examples: small enough to train in a test, and with weights that count."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfdistill import models
from tfdistill.data import batches

STUDENT = models.EncoderConfig(
    num_layers=2,
    hidden_size=8,
    num_heads=2,
    intermediate_size=12,
    vocab_size=30,
    max_positions=12,
    dropout=0.0,
    attention_dropout=0.0,
)
TEACHER = STUDENT.replace(num_layers=4, hidden_size=12)
SHALLOW_STUDENT = STUDENT.replace(num_layers=1)
SHALLOW_TEACHER = TEACHER.replace(num_layers=2)
NUM_LABELS = 3


def randomise(model: keras.Model, seed: int = 0, *, scale: float = 0.3) -> keras.Model:
    """Gives every weight a value that counts: a fresh model answers almost the same to anything."""
    random = np.random.default_rng(seed)
    for variable in model.weights:
        centre = 1.0 if "gamma" in variable.name else 0.0
        variable.assign(random.normal(centre, scale, variable.shape))
    return model


def classifier(
    config: models.EncoderConfig, num_labels: int = NUM_LABELS, *, seed: int = 0
) -> keras.Model:
    return randomise(models.build_classifier(config, num_labels), seed)


def features(lengths: tuple[int, ...], *, seed: int = 0) -> dict[str, tf.Tensor]:
    """A batch padded to the longest; padding holds the id 0."""
    random = np.random.default_rng(seed)
    mask = (np.arange(max(lengths)) < np.array(lengths)[:, None]).astype(np.int32)
    ids = random.integers(1, STUDENT.vocab_size, mask.shape).astype(np.int32) * mask
    types = random.integers(0, 2, mask.shape).astype(np.int32) * mask
    arrays = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
    return {name: tf.constant(array) for name, array in arrays.items()}


def labels(count: int, *, seed: int = 0) -> tf.Tensor:
    return tf.constant(np.random.default_rng(seed).integers(0, NUM_LABELS, count), tf.int32)


def encoded(
    count: int, *, seed: int = 0, num_labels: int = NUM_LABELS, weights: bool = False
) -> batches.EncodedExamples:
    """Random examples of 3 to 9 tokens with random labels."""
    random = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(random.integers(3, 10, count))])
    total = int(offsets[-1])
    return batches.EncodedExamples(
        ids=random.integers(1, STUDENT.vocab_size, total).astype(np.int32),
        offsets=offsets.astype(np.int64),
        types=random.integers(0, 2, total).astype(np.uint8),
        labels=random.integers(0, num_labels, count).astype(np.int32),
        weights=np.ones(count, np.float32) if weights else None,
    )


def stopping(predictor: Any, call: int) -> tuple[Any, list[int]]:
    """A predictor that is interrupted at one of its calls, and the sizes that were asked for."""
    positions: list[int] = []

    def stopped(model: keras.Model) -> Any:
        predict = predictor(model)

        def ask(data: Any) -> Any:
            positions.append(len(data.encoded))
            if len(positions) == call:
                raise KeyboardInterrupt
            return predict(data)

        return ask

    return stopped, positions


def write_documents(path):
    """Writes 20 documents of 3 sentences, whose words are in the toy vocabulary."""
    random = np.random.default_rng(5)
    words = ["good", "bad", "film", "story", "seven", "playing"]
    documents = [
        "\n".join(" ".join(random.choice(words, size=8)) + "." for _ in range(3)) for _ in range(20)
    ]
    path.write_text("\n\n".join(documents), encoding="utf-8")
    return path
