"""The layers of a teacher that a shallower student keeps."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfdistill import losses, models
from tfdistill.pruning.sample import Features, Sample, inputs_of

_GREEDY_BATCHES = 8  # it runs the teacher about layers^2 / 2 times


def choose_layers(
    teacher: keras.Model,
    sample: Sample,
    num_layers: int,
    strategy: str | Sequence[int] = "uniform",
) -> tuple[int, ...]:
    """Chooses the teacher layers of a student.

    Args:
      teacher: The teacher.
      sample: Batches of features; "greedy" alone reads it, the first 8.
      num_layers: Layers of the student.
      strategy: "uniform", "top" or "bottom" (`losses.layer_map`), a list of layers from 0, or
        "greedy": leave out the layer whose absence costs the least (`leave_one_out`), again and
        again until `num_layers` are left.

    Returns:
      `num_layers` layers.

    Raises:
      ConfigError: If the strategy is unknown or the list does not fit.
      ShapeError: If the teacher has fewer layers than the student.
    """
    total = models.config_of(teacher).num_layers
    if strategy != "greedy":
        return losses.layer_map(total, num_layers, strategy)
    losses.layer_map(total, num_layers)  # refuses a student with more layers
    layers = tuple(range(total))
    while len(layers) > num_layers:
        costs = leave_one_out(teacher, sample[:_GREEDY_BATCHES], layers)
        cheapest = min(layers, key=lambda layer: costs[layer])
        layers = tuple(layer for layer in layers if layer != cheapest)
    return layers


def leave_one_out(teacher: keras.Model, sample: Sample, layers: Sequence[int]) -> dict[int, float]:
    """Measures what each layer contributes to the teacher's answer.

    The cost of a layer is the loss of the teacher that runs `layers` without it, against the whole
    teacher: the mean over the sample of ``KL(softmax z || softmax z')``, over real tokens for a
    head over tokens; for a regression, an encoder or vectors the mean squared error.

    Args:
      teacher: The teacher; not changed.
      sample: Batches of features.
      layers: The layers that run, in order.

    Returns:
      Layer -> cost.

    Reference: Peer et al. 2022, Greedy-layer pruning.
    """
    parts = _Parts(teacher)
    costs = dict.fromkeys(layers, 0.0)
    count = 0.0
    for features in sample:
        hidden, mask = parts.embed(inputs_of(teacher, features))
        before, whole = hidden, hidden
        for layer in range(parts.num_layers):
            whole = parts.blocks[layer]([whole, mask])
        answer = parts.answer(whole, features)
        weights = parts.weights(features)
        count += float(tf.reduce_sum(weights))
        for place, layer in enumerate(layers):
            hidden = before
            for other in layers[place + 1 :]:
                hidden = parts.blocks[other]([hidden, mask])
            losses = parts.distance(answer, parts.answer(hidden, features))
            costs[layer] += float(tf.reduce_sum(losses * weights))
            before = parts.blocks[layer]([before, mask])
    return {layer: cost / count for layer, cost in costs.items()}


class _Parts:
    """A teacher in pieces: embeddings, blocks, head."""

    def __init__(self, teacher: keras.Model) -> None:
        def output(name: str) -> tf.Tensor:
            return teacher.get_layer(name).output

        head = models.read_head(teacher)
        self.head = head.traits
        self.num_layers = models.config_of(teacher).num_layers
        mask = output("attention_mask_scores")
        states = [output("flatten_tokens")]
        states += [output(f"layer_{index}_layer_norm") for index in range(self.num_layers)]
        self.embed = keras.Model(teacher.inputs, [states[0], mask])
        self.blocks = [
            keras.Model([before, mask], after) for before, after in itertools.pairwise(states)
        ]
        last = teacher.output
        last = output("sequence_output") if isinstance(last, dict) else last
        pools = (self.head.vectors or head.pooled) and head.pooling != "cls"
        names = ("input_ids", *(["attention_mask"] if pools else []))
        inputs = [tensor for tensor in teacher.inputs if tensor.name.split(":")[0] in names]
        self._head_inputs = [tensor.name.split(":")[0] for tensor in inputs]
        self._head = keras.Model([states[-1], *inputs], last)
        self._probabilities = not self.head.bare and last.shape[-1] > 1

    def answer(self, hidden: tf.Tensor, features: Features) -> tf.Tensor:
        """Logits of the last states (B L, d); (B, C) or (B, L, C)."""
        inputs = [tf.convert_to_tensor(features[name]) for name in self._head_inputs]
        answer = self._head([hidden, *inputs])
        if self.head.over_positions:  # a softmax over the real tokens: (B, 2, L)
            mask = tf.cast(features["attention_mask"], tf.float32)[:, tf.newaxis]
            answer = tf.transpose(answer, (0, 2, 1)) - 1e9 * (1.0 - mask)
        return answer

    def weights(self, features: Features) -> tf.Tensor:
        """1 for what counts: texts (B,), starts and ends (B, 2), or real tokens (B, L)."""
        mask = np.asarray(features["attention_mask"], np.float32)
        if self.head.over_positions:
            return tf.ones((len(mask), 2))
        return tf.ones(len(mask)) if self.head.of_texts else tf.constant(mask)

    def distance(self, whole: tf.Tensor, part: tf.Tensor) -> tf.Tensor:
        """KL divergence, or mean squared error, over the last axis."""
        if not self._probabilities:
            return tf.reduce_mean(tf.square(whole - part), axis=-1)
        logs = tf.nn.log_softmax(whole)
        return tf.reduce_sum(tf.exp(logs) * (logs - tf.nn.log_softmax(part)), axis=-1)
