"""What a head answers, and how two answers are compared: soft targets for every kind of head.

A head gives logits; which axis is a distribution, and which rows count, depends on the head:

- "sequence": (B, C), one class per example;
- "multi_label": (B, C), each class true or false by itself;
- "token": (B, L, C), one class per labelled token;
- "span": (B, L, 2), two distributions over the real tokens: of the start and of the end.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras as keras

from tfdistill import errors, models, objectives
from tfdistill.distillers import checks
from tfdistill.distillers.step import StepInputs

HEADS = ("sequence", "token", "span", "multi_label")
OBJECTIVES = ("soft_cross_entropy", "kl_divergence", "logit_mse")
UNLABELLED = -100
# Logits of padding: far below any other, yet finite at every temperature above 1e-8.
_NOWHERE = -1e30


def resolve_head(student: keras.Model, head: str | None = None) -> str:
    """Says which kind of answers a model gives.

    Args:
      student: A model of `tfdistill.models` with a head.
      head: None for the model's own; "multi_label" where a classifier's classes exclude nothing.

    Returns:
      One of `HEADS`.

    Raises:
      ConfigError: If `head` is unknown.
      ShapeError: If the model has no such head.
    """
    own = models.head_of(student)
    if head is not None:
        checks.check_choice("head", head, HEADS)
    if own not in HEADS:
        raise errors.ShapeError(
            errors.explain(
                "model",
                "a classifier of sequences, tokens or spans",
                "an encoder without a head" if own == "none" else f"a head for {own}",
                "Use build_student.",
            )
        )
    if head is None or head == own:
        return own
    if (own, head) != ("sequence", "multi_label"):
        raise errors.ShapeError(
            errors.explain(f"head {head!r}", "a model with that head", f"a {own} head")
        )
    return head


def soft_loss(
    teacher_logits: Any,
    student_logits: Any,
    batch: StepInputs,
    *,
    head: str,
    objective: str = "soft_cross_entropy",
    temperature: float = 1.0,
    reduction: str = "batch",
    scale_by_t2: bool = False,
) -> tf.Tensor:
    """Compares a student's answers with its teacher's, as an objective of `tfdistill.objectives`.

    With H the objective between two distributions and w the sample weights, "batch" means:

    - sequence: ``sum_b w_b H_b / sum_b w_b``.
    - token: ``sum_bl w_b m_bl H_bl / sum_bl w_b m_bl``; m is 1 at labelled real tokens, or at all
      real tokens where the batch has no labels.
    - span: the mean of the same sum for the start and for the end, each a softmax over the real
      tokens of its example; padding has probability 0 whatever its logits.
    - multi_label: p and q are Bernoulli distributions ``sigmoid(z / T)``; a mean over classes as
      well: ``sum_bc w_b H_bc / (C sum_b w_b)``.

    "logit_mse" compares ``(z_s - z_t)^2`` without softmax: over classes and the rows above; for a
    span over the real tokens of each example, then over examples. "reference" divides the
    weighted sum by the size of the logits instead, padding included (for multi_label both are the
    same unless there are weights).

    Args:
      teacher_logits: float, shape as the head gives it; receives no gradient.
      student_logits: The same shape.
      batch: Gives the weights of examples and tokens.
      head: One of `HEADS`.
      objective: "soft_cross_entropy", "kl_divergence" or "logit_mse".
      temperature: T > 0; not used by "logit_mse".
      reduction: "batch" or "reference".
      scale_by_t2: Multiplies by T^2; not used by "logit_mse".

    Returns:
      A float32 scalar.

    Raises:
      ConfigError: If an option is unknown.
      ShapeError: If the shapes differ.
    """
    checks.check_choice("head", head, HEADS)
    checks.check_choice("objective", objective, OBJECTIVES)
    squared = objective == "logit_mse"
    options: dict[str, Any] = {"reduction": reduction}
    if not squared:
        options |= {"temperature": temperature, "scale_by_t2": scale_by_t2}
    teacher = tf.cast(teacher_logits, tf.float32)
    student = tf.cast(student_logits, tf.float32)
    weight = batch.sample_weight  # (B,)
    factor = 1.0
    if head == "token":
        weight = token_weights(batch)  # (B, L)
    elif head == "span" and squared:
        weight = _shares_of_tokens(batch) if reduction == "batch" else batch.mask  # (B, L)
    elif head == "span":
        real = batch.features["attention_mask"]
        teacher, student = over_tokens(teacher, real), over_tokens(student, real)  # (B, 2, L)
        weight = tf.stack([weight, weight], axis=-1)  # (B, 2)
    elif head == "multi_label" and not squared:
        # A Bernoulli distribution is a softmax over two classes, one of which has the logit 0.
        weight = weight[:, None] * tf.ones_like(student)  # (B, C)
        teacher, student = _two_classes(teacher), _two_classes(student)  # (B, C, 2)
        factor = 2.0 if reduction == "reference" else 1.0
    compare = getattr(objectives, objective)
    return factor * compare(teacher, student, sample_weight=weight, **options)


def token_weights(batch: StepInputs) -> tf.Tensor:
    """The weights of the tokens that a token head answers for.

    Args:
      batch: With labels int (B, L), `UNLABELLED` where there is none, or without labels.

    Returns:
      float32 (B, L): `batch.mask`, and 0 at tokens without a label.
    """
    if batch.labels is None:
        return batch.mask
    return batch.mask * tf.cast(tf.not_equal(batch.labels, UNLABELLED), tf.float32)


def over_tokens(logits: tf.Tensor, attention_mask: tf.Tensor) -> tf.Tensor:
    """Turns a span head's logits into two rows over tokens, padding out of reach.

    Args:
      logits: (B, L, 2).
      attention_mask: (B, L), 1 for real tokens.

    Returns:
      float32 (B, 2, L); a softmax over the last axis gives padding the probability 0.
    """
    rows = tf.transpose(tf.cast(logits, tf.float32), [0, 2, 1])  # (B, 2, L)
    return tf.where(tf.cast(attention_mask, tf.bool)[:, None, :], rows, _NOWHERE)


def metric_inputs(batch: StepInputs, head: str) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """What a Keras metric of (labels, logits) is updated with, so that every row is one answer.

    Args:
      batch: With labels.
      head: As `models.head_of` gives it.

    Returns:
      Labels, logits and weights: sequence (B,) or (B, C), (B, C), (B,); token (B L,),
      (B L, C), (B L,), weight 0 where there is no label; span (2 B,), (2 B, L), (2 B,).
    """
    labels, logits, weight = batch.labels, batch.student["logits"], batch.sample_weight
    if head == "token":
        weight = tf.reshape(token_weights(batch), [-1])
        labels = tf.reshape(tf.maximum(labels, 0), [-1])
        return labels, tf.reshape(logits, [-1, logits.shape[-1]]), weight
    if head == "span":
        rows = over_tokens(logits, batch.features["attention_mask"])  # (B, 2, L)
        rows = tf.reshape(rows, [-1, tf.shape(rows)[-1]])  # (2 B, L)
        return tf.reshape(labels, [-1]), rows, tf.repeat(weight, 2)
    return labels, logits, weight


def _shares_of_tokens(batch: StepInputs) -> tf.Tensor:
    """The examples' weights, shared equally among their real tokens, (B, L)."""
    real = tf.cast(batch.features["attention_mask"], tf.float32)
    return tf.math.divide_no_nan(batch.mask, tf.reduce_sum(real, axis=1, keepdims=True))


def _two_classes(logits: tf.Tensor) -> tf.Tensor:
    return tf.stack([tf.zeros_like(logits), logits], axis=-1)
