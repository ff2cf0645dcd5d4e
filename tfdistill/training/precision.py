"""The arithmetic of a training: float32, or bfloat16 where the processor is faster with it."""

from __future__ import annotations

import contextlib
import functools
import logging
import pathlib
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfdistill import models
from tfdistill.benchmark import environment
from tfdistill.io import files, reading
from tfdistill.training import multi_worker

_log = logging.getLogger(__name__)

FLOAT32, MIXED = "float32", "mixed_bfloat16"
DECISION = "precision.json"
INSTRUCTIONS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
"""Processor flags that say that there is arithmetic in bfloat16."""
_STEPS = 10  # of each arithmetic, taking turns
_LEAST_GAIN = 1.1  # of the time of a step, for which it is worth rounding
_LEAST_WIDTH = 256  # at 192 a step was slower in bfloat16
_BATCH, _TOKENS, _WORDS = 32, 32, 1000  # of the steps that are timed


def resolve(precision: str, model: keras.Model, folder: files.Path) -> str:
    """Decides what "auto" means for a training; once in its folder, for all who resume it.

    bfloat16 is taken where a step of one layer of the model is faster with it by a tenth, `gain`.
    Returns "float32" or "mixed_bfloat16", which mean themselves.
    """
    if precision != "auto":
        return precision
    path = pathlib.Path(folder) / DECISION
    if path.is_file():
        return reading.read_json_object(path)["precision"]
    measured = {"gain": gain(models.config_of(model))}
    faster = float(multi_worker.of_chief(model.distribute_strategy, measured)["gain"])
    decision = MIXED if faster >= _LEAST_GAIN else FLOAT32
    told = "no bfloat16 for it here" if faster == 1 else f"{faster:.2f} times as fast in bfloat16"
    _log.info(f"precision: {decision} (a step: {told})")
    path.parent.mkdir(parents=True, exist_ok=True)
    files.atomic_write_json(path, {"precision": decision, "gain": faster})
    return decision


def gain(shape: models.EncoderConfig | models.BiLstmConfig) -> float:
    """Measures how many times as fast as in float32 a training step is in bfloat16.

    1.0 for narrow models, for those without layers of a transformer, and where neither the
    processor has instructions for it nor a GPU is there: nothing is timed then. Otherwise ten
    steps of one layer are timed, once in a process.
    """
    if not isinstance(shape, models.EncoderConfig) or shape.hidden_size < _LEAST_WIDTH:
        return 1.0
    supported = bool(INSTRUCTIONS & {*environment.device().cpu_flags})
    if not (supported or tf.config.list_logical_devices("GPU")):
        return 1.0
    layer = shape.replace(num_layers=1, vocab_size=_WORDS, pad_token_id=0)
    seconds = step_seconds(layer)
    return seconds[FLOAT32] / seconds[MIXED]


def gain_of(precision: str, shape: models.EncoderConfig) -> float:
    """Returns how many times as fast as in float32 the steps of that precision are."""
    faster = 1.0 if precision == FLOAT32 else gain(shape)
    return 1.0 if precision == "auto" and faster < _LEAST_GAIN else faster


@functools.cache
def step_seconds(shape: models.EncoderConfig) -> dict[str, float]:
    """The median time of a forward and a backward pass of a model, by arithmetic."""
    size = (_BATCH, min(_TOKENS, shape.max_positions))
    ids = np.random.default_rng(0).integers(0, shape.vocab_size, size).astype(np.int32)
    steps = {policy: _step(shape, policy, ids) for policy in (FLOAT32, MIXED)}
    seconds: dict[str, list[float]] = {policy: [] for policy in steps}
    for turn in range(1 + _STEPS):
        for policy, step in steps.items():
            started = time.perf_counter()
            step()
            if turn:  # the first traces
                seconds[policy].append(time.perf_counter() - started)
    return {policy: statistics.median(values) for policy, values in seconds.items()}


def _step(shape: models.EncoderConfig, policy: str, ids: np.ndarray) -> Callable[[], Any]:
    model = models.build_encoder(shape, dtype_policy=policy)
    values = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    inputs = {name: tf.constant(values.get(name, 0 * ids)) for name in model.input_names}

    @tf.function
    def gradients() -> Any:
        with tf.GradientTape() as tape:
            states = model(inputs, training=False)["sequence_output"]
            loss = tf.reduce_mean(tf.square(tf.cast(states, tf.float32)))
        kernels = [variable for variable in model.trainable_variables if variable.shape.rank == 2]
        return [tf.reduce_sum(value) for value in map(tf.convert_to_tensor, tape.gradient(
            loss, kernels, unconnected_gradients=tf.UnconnectedGradients.ZERO))]  # fmt: skip

    return lambda: [value.numpy() for value in gradients()]


@contextlib.contextmanager
def training_in(model: keras.Model, precision: str) -> Iterator[keras.Model]:
    """Yields what is trained in an arithmetic; afterwards the model has the weights.

    In float32 that is the model itself, otherwise a copy whose weights are float32, too.
    """
    if precision == FLOAT32:
        yield model
        return
    copy = models.with_policy(model, precision)
    yield copy
    for layer in model.layers:
        layer.set_weights(copy.get_layer(layer.name).get_weights())
