"""Fits what a cut has moved to the teacher's states, from the embeddings up, without training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfdistill import models
from tfdistill.pruning.sample import Sample, inputs_of

_NORMS = ("attention_layer_norm", "layer_norm")  # of a block, with what each normalises
_SUMS = ("attention_add", "output_add")
_CLASSIFIERS = ("classifier", "token_classifier", "span_classifier", "vector_dense")


def refit(
    student: keras.Model,
    teacher: keras.Model,
    sample: Sample,
    layers: Sequence[int],
    basis: np.ndarray | None,
    *,
    outputs: bool = True,
    norms: bool = True,
    head: bool = True,
    ridge: float = 0.01,
) -> None:
    """Fits output matrices, LayerNorms and classifier of a pruned student, one after the other.

    The student runs on the sample, and each layer sees what the fitted layers below make of it: so
    a layer also corrects their errors. With C the basis, z and x the teacher's states before and
    after the LayerNorm at the mapped layer, all over the real tokens:

    - attention and feed-forward output (`outputs`): the change (D, c) of kernel and bias with the
      least ``E |r - a D - c|^2 + ridge E|a|^2 / k |D|^2`` for the layer's centred inputs a (k
      wide) and what is missing, ``r = C^T z - (the student's state before the LayerNorm)``;
    - LayerNorm (`norms`): for each dimension the gamma and beta with the least
      ``E (C^T x - gamma n - beta)^2``, n being the student's normalised state;
    - classifier (`head`): as the output matrices, to the teacher's logits; the linear projection of
      a sentence encoder to the teacher's vectors before they are normalised.

    Args:
      student: The pruned student, changed in place.
      teacher: The teacher.
      sample: Batches of features.
      layers: The teacher layer of each student layer, ascending.
      basis: C, (d, w), or None where the widths are equal.
      outputs: Whether output matrices are fitted.
      norms: Whether LayerNorms are fitted.
      head: Whether the classifier is fitted, where both have one of the same width.
      ridge: How firmly the output matrices stay as they were cut.
    """
    teacher_walk, student_walk = _Walk(teacher, sample), _Walk(student, sample)

    def target(rows: list[np.ndarray]) -> np.ndarray:
        real_states = student_walk.real(rows)
        return real_states if basis is None else real_states @ basis

    def fit_norm(name: str, states: list[np.ndarray], wanted: list[np.ndarray]) -> list[np.ndarray]:
        normed = [_normalise(rows, student.get_layer(name).epsilon) for rows in states]
        layer = student.get_layer(name)
        if norms:
            layer.set_weights(
                _fit_scale(student_walk.real(normed), target(wanted), layer.get_weights())
            )
        gamma, beta = layer.get_weights()
        return [rows * gamma + beta for rows in normed]

    def fit_dense(
        name: str, inputs: list[np.ndarray], hidden: list[np.ndarray], wanted: list[np.ndarray]
    ) -> list[np.ndarray]:
        layer = student.get_layer(name)
        kernel, bias = layer.get_weights()
        if outputs:
            states = [a @ kernel + bias + x for a, x in zip(inputs, hidden, strict=True)]
            missing = target(wanted) - student_walk.real(states)
            change, shift = _ridge(student_walk.real(inputs), missing, ridge)
            kernel, bias = kernel + change, bias + shift
            layer.set_weights([kernel, bias])
        return [a @ kernel + bias + x for a, x in zip(inputs, hidden, strict=True)]

    teacher_walk.hidden = teacher_walk.run("embeddings_layer_norm")
    student_walk.hidden = fit_norm(
        "embeddings_layer_norm", student_walk.run("embeddings_add"), teacher_walk.hidden
    )
    done = 0
    for index, source in enumerate(layers):
        for layer in range(done, source):
            (teacher_walk.hidden,) = teacher_walk.block(layer, ["layer_norm"])
        sums_and_states = teacher_walk.block(source, [*_SUMS, *_NORMS])
        done, teacher_walk.hidden = source + 1, sums_and_states[3]
        (context,) = student_walk.block(index, ["context"])
        name = f"layer_{index}_"
        states = fit_dense(
            f"{name}attention_output", context, student_walk.hidden, sums_and_states[0]
        )
        attended = fit_norm(f"{name}attention_layer_norm", states, sums_and_states[2])
        inner = student_walk.feed_forward(index, attended)
        states = fit_dense(f"{name}output", inner, attended, sums_and_states[1])
        student_walk.hidden = fit_norm(f"{name}layer_norm", states, sums_and_states[3])
    if head:
        _fit_head(student, teacher, sample, ridge)


def _fit_head(student: keras.Model, teacher: keras.Model, sample: Sample, ridge: float) -> None:
    name = next((layer.name for layer in student.layers if layer.name in _CLASSIFIERS), None)
    labels = models.num_labels_of(student)
    if name is None or (models.head_of(teacher), models.num_labels_of(teacher)) != (
        models.head_of(student),
        labels,
    ):
        return
    layer = student.get_layer(name)
    over_tokens = models.read_head(student).over_tokens
    view = keras.Model(student.inputs, layer.input)
    if models.read_head(teacher).traits.vectors:
        if models.read_head(student).projection != "linear":
            return
        # What the last layer of the head is given: a vector of any length.
        teacher = keras.Model(teacher.inputs, teacher.layers[-1].input)
    features, logits = [], []
    for batch in sample:
        real = np.asarray(batch["attention_mask"]).reshape(-1) > 0 if over_tokens else slice(None)
        features.append(view(inputs_of(student, batch), training=False).numpy()[real])
        answer = teacher(inputs_of(teacher, batch), training=False).numpy()
        logits.append(answer.reshape(-1, labels)[real])
    inputs, kernel, bias = np.concatenate(features), *layer.get_weights()
    missing = np.concatenate(logits) - (inputs @ kernel + bias)
    change, shift = _ridge(inputs.astype(np.float64), missing, ridge)
    layer.set_weights([kernel + change, bias + shift])


class _Walk:
    """The states of a model on a sample, block by block: a list of (B L, width), one a batch."""

    def __init__(self, model: keras.Model, sample: Sample) -> None:
        self._model = model
        self._inputs = [inputs_of(model, features) for features in sample]
        masks = [np.asarray(features["attention_mask"]) for features in sample]
        self._real = [mask.reshape(-1) > 0 for mask in masks]
        self._masks = self._apply(
            keras.Model(model.inputs, self._tensor("attention_mask_scores")), self._inputs
        )
        self.hidden: list[np.ndarray] = []

    def real(self, rows: list[np.ndarray]) -> np.ndarray:
        """The rows of real tokens, (N, width)."""
        rows_of = [batch[real] for batch, real in zip(rows, self._real, strict=True)]
        return np.concatenate(rows_of).astype(np.float64)

    def run(self, layer: str) -> list[np.ndarray]:
        """The output of a layer in front of the blocks."""
        states = self._apply(keras.Model(self._model.inputs, self._tensor(layer)), self._inputs)
        return [batch.numpy().reshape(-1, batch.shape[-1]) for batch in states]

    def block(self, index: int, outputs: Sequence[str]) -> list[list[np.ndarray]]:
        """Some outputs of a block's layers for the present hidden states."""
        before = f"layer_{index - 1}_layer_norm" if index else "flatten_tokens"
        part = keras.Model(
            [self._tensor(before), self._tensor("attention_mask_scores")],
            [self._tensor(f"layer_{index}_{name}") for name in outputs],
        )
        outputs_of = self._apply(part, list(zip(self.hidden, self._masks, strict=True)))
        outputs_of = [batch if len(outputs) > 1 else [batch] for batch in outputs_of]
        return [[batch[place].numpy() for batch in outputs_of] for place in range(len(outputs))]

    def feed_forward(self, index: int, attended: list[np.ndarray]) -> list[np.ndarray]:
        """The activations of a block's neurons."""
        part = keras.Model(
            self._tensor(f"layer_{index}_attention_layer_norm"),
            self._tensor(f"layer_{index}_intermediate_activation"),
        )
        return [batch.numpy() for batch in self._apply(part, attended)]

    def _tensor(self, layer: str) -> tf.Tensor:
        return self._model.get_layer(layer).output

    def _apply(self, part: keras.Model, inputs: Sequence[Any]) -> list[Any]:
        return [
            part(tf.nest.map_structure(tf.convert_to_tensor, x), training=False) for x in inputs
        ]


def _normalise(rows: np.ndarray, epsilon: float) -> np.ndarray:
    centred = rows - rows.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + epsilon)


def _fit_scale(
    normed: np.ndarray, wanted: np.ndarray, present: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Gamma and beta of each dimension by least squares; gamma stays where nothing varies."""
    mean = normed.mean(axis=0)
    centred = normed - mean
    variance = np.square(centred).mean(axis=0)
    varies = variance > 1e-8
    covariance = (centred * wanted).mean(axis=0)
    gamma = np.where(varies, covariance / np.where(varies, variance, 1.0), present[0])
    return [gamma.astype(np.float32), (wanted.mean(axis=0) - gamma * mean).astype(np.float32)]


def _ridge(inputs: np.ndarray, missing: np.ndarray, ridge: float) -> tuple[np.ndarray, np.ndarray]:
    """The change of kernel and bias that explains what is missing; see `refit`."""
    mean, shift = inputs.mean(axis=0), missing.mean(axis=0)
    centred = inputs - mean
    moments = centred.T @ centred / len(centred)
    penalty = ridge * np.trace(moments) / len(moments)
    moments += max(penalty, 1e-12) * np.eye(len(moments))
    change = np.linalg.solve(moments, centred.T @ (missing - shift) / len(centred))
    return change.astype(np.float32), (shift - mean @ change).astype(np.float32)
