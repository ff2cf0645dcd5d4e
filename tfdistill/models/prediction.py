"""A model's answers over a set."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfdistill import errors
from tfdistill.data import batches as data_batches
from tfdistill.io import processes
from tfdistill.models.heads import read_head
from tfdistill.tasks.encoded import spans


def predict_logits(model: keras.Model, batches: data_batches.Batches) -> np.ndarray:
    """Runs a model in inference mode over every example.

    Args:
      model: A model of `tfdistill.models` with a head over sequences, tokens or spans.
      batches: The examples, in any order of batches.

    Returns:
      Logits, float32 (examples, classes), in the order of the examples; of a head over tokens or
      spans (tokens, classes), in the order of ``batches.encoded.ids``.

    Raises:
      DataError: If the batches leave examples out.
    """
    return predictor(model)(batches)


def predictor(
    model: keras.Model, *, over_tokens: bool | None = None
) -> Callable[[data_batches.Batches], np.ndarray]:
    """Builds a function that can be called after every epoch without tracing again.

    Args:
      model: See `predict_logits`.
      over_tokens: Whether its outputs are (B, L, d); None: as its head has them.
    """
    names = model.input_names
    for_tokens = read_head(model).over_tokens if over_tokens is None else over_tokens
    specs = {name: tf.TensorSpec((None, None), tf.int32) for name in names}

    @tf.function(input_signature=[specs])
    def forward(features: dict[str, tf.Tensor]) -> tf.Tensor:
        return tf.cast(model(features, training=False), tf.float32)

    def predict(batches: data_batches.Batches) -> np.ndarray:
        if batches.num_examples != len(batches.encoded):
            raise errors.DataError(
                "batches to predict",
                f"all {len(batches.encoded)} examples",
                batches.num_examples,
                "Make them without drop_remainder.",
            )
        rows: list[np.ndarray] = []
        plan = batches.plan(0)
        for indices in plan:
            batch = batches.batch(indices)
            features = batch[0] if isinstance(batch, tuple) else batch
            with processes.without_log("triggered tf.function retracing"):  # a graph a model
                logits = forward({name: tf.constant(features[name]) for name in names}).numpy()
            rows.append(logits[features["attention_mask"] > 0] if for_tokens else logits)
        logits = np.concatenate(rows)
        order = np.concatenate(plan)
        if for_tokens:
            encoded = batches.encoded
            order = spans(encoded.offsets[order], encoded.lengths[order])
        answers = np.empty_like(logits)
        answers[order] = logits
        return answers

    return predict
