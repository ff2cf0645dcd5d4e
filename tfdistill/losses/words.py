"""Losses on words: masked language modelling and next-sentence prediction."""

from __future__ import annotations

import types

import tensorflow as tf
import tf_keras as keras

from tfdistill import errors, models
from tfdistill.losses import reduction
from tfdistill.losses.base import Loss, ModelPair
from tfdistill.losses.batch import StepInputs

MASKED_LM = "masked_lm"
PREDICTION_MASK = "prediction_mask"
MLM_LABELS = "mlm_labels"
NSP_LABELS = "nsp_labels"


def row_weights(batch: StepInputs, rows: str = "predicted") -> tf.Tensor:
    """Returns the weights of the rows that the masked-LM head answers.

    Args:
      batch: Needs the feature ``prediction_mask``, int (batch, tokens); "masked" rows need
        ``mlm_labels``, too.
      rows: The rows that count: all "predicted" ones, the "masked" ones, which have a label, or
        "all" real tokens.

    Returns:
      float32 (N,): `batch.mask` at the N positions where ``prediction_mask`` is not 0, in
      row-major order as the rows of ``mlm_logits``; 0 for rows that do not count.

    Raises:
      ShapeError: If a feature is missing.
      InvalidArgumentError: Of the step, with "all", if a real token is not predicted or padding is.
    """
    if rows == "masked":
        return _labelled_rows(batch)[1]
    chosen = _chosen(batch)
    weights = tf.boolean_mask(batch.mask, chosen)
    if rows == "predicted":
        return weights
    check = tf.debugging.assert_equal(
        chosen,
        tf.not_equal(batch.features["attention_mask"], 0),
        message=errors.explain(
            PREDICTION_MASK,
            "the attention mask",
            "another one",
            "Mask the batches with data.masking.Masker(predict='all').",
        ),
    )
    with tf.control_dependencies([check]):
        return tf.identity(weights)


def mlm_loss(batch: StepInputs) -> tf.Tensor:
    """Cross entropy at the masked positions.

    Formula: ``-log softmax(z_n)[y_n]``, a mean over the positions that have a label
    (``mlm_labels`` >= 0 and ``prediction_mask`` = 1), weighted by the sample weight of their
    example: sum of weight times loss over sum of weights.

    Args:
      batch: Needs the features ``prediction_mask`` and ``mlm_labels``, int32 (batch, tokens), and
        the student's ``mlm_logits``, (N, vocabulary), a row for each predicted position.

    Returns:
      A float32 scalar; 0 where no position has a label.

    Raises:
      ShapeError: If a feature is missing.
    """
    labels, weights = _labelled_rows(batch)
    logits = tf.cast(batch.student["mlm_logits"], tf.float32)  # (N, vocabulary)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)  # (N,)
    return reduction.weighted_mean(losses, weights)


def mlm_hits(batch: StepInputs) -> tuple[tf.Tensor, tf.Tensor]:
    """Hits, where the most probable token is the masked one, as a metric of `Distiller`.

    Hits, 0 or 1, and their weights, both float32 (N,): the accuracy is sum of weight times hit over
    sum of weights.
    """
    labels, weights = _labelled_rows(batch)
    answers = tf.argmax(batch.student["mlm_logits"], axis=-1, output_type=tf.int32)
    return tf.cast(tf.equal(answers, labels), tf.float32), weights


def nsp_loss(batch: StepInputs) -> tf.Tensor:
    """Cross entropy of "B is the sentence that follows A".

    Formula: ``-log softmax(z)[y]`` with y = 0 where B follows and 1 where it is random, as BERT
    counts; a mean over the batch, weighted by the sample weights.

    Args:
      batch: Needs the feature ``nsp_labels``, int32 (batch,), and the student's ``nsp_logits``,
        (batch, 2).

    Returns:
      A float32 scalar.

    Raises:
      ShapeError: If the feature is missing.
    """
    labels = _feature(batch, NSP_LABELS, "Prepare the corpus with next_sentence=True.")
    logits = tf.cast(batch.student["nsp_logits"], tf.float32)  # (batch, 2)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.cast(labels, tf.int32), logits)
    weights = batch.sample_weight
    return reduction.weighted_mean(losses, weights)


def check_masked_lm(model: keras.Model, role: str, *, next_sentence: bool = False) -> None:
    """Refuses a model without a masked-LM head."""
    if next_sentence and not has_nsp_head(model):
        raise errors.ShapeError(
            role,
            "a next-sentence head",
            "none",
            "Build it with build_masked_lm(..., next_sentence=True).",
        )
    if not predicts_words(model):
        raise errors.ShapeError(
            role,
            "a masked language model",
            f"a model with the head {models.head_of(model)!r}",
            "Use models.build_masked_lm or weights.load_masked_lm.",
        )


def predicts_words(model: keras.Model) -> bool:
    """Checks whether a model is a masked language model."""
    return models.read_head(model).traits.predicts_words


def has_nsp_head(model: keras.Model) -> bool:
    """Checks whether a model of `tfdistill.models` predicts next sentences."""
    return any(layer.name == "nsp_classifier" for layer in model.layers)


def _feature(batch: StepInputs, name: str, remedy: str) -> tf.Tensor:
    if name not in batch.features:
        raise errors.ShapeError("features", f"{name} among them", sorted(batch.features), remedy)
    return batch.features[name]


def _chosen(batch: StepInputs) -> tf.Tensor:
    mask = _feature(batch, PREDICTION_MASK, "Mask the batches: data.masking.Masker.")
    return tf.not_equal(mask, 0)  # (batch, tokens)


def _labelled_rows(batch: StepInputs) -> tuple[tf.Tensor, tf.Tensor]:
    """Labels, int32 (N,) and never negative, and weights, float32 (N,), 0 where there is none."""
    labels = _feature(batch, MLM_LABELS, "Mask the batches: data.masking.Masker.")
    chosen = _chosen(batch)
    labels = tf.cast(tf.boolean_mask(labels, chosen), tf.int32)
    is_masked = tf.cast(labels >= 0, tf.float32)
    return tf.maximum(labels, 0), tf.boolean_mask(batch.mask, chosen) * is_masked


class MaskedWords(Loss):
    """Cross entropy at the masked positions, `mlm_loss`; the log has ``mlm_accuracy``, too."""

    tap = None
    metrics = types.MappingProxyType({"mlm_accuracy": mlm_hits})

    def check(self, pair: ModelPair) -> None:
        """See `Loss.check`."""
        check_masked_lm(pair.student, "student")

    def compute(self, batch: StepInputs) -> tf.Tensor:
        """See `mlm_loss`."""
        return mlm_loss(batch)


class NextSentence(Loss):
    """Cross entropy of "B is the sentence that follows A", `nsp_loss`."""

    tap = None

    def check(self, pair: ModelPair) -> None:
        """See `Loss.check`."""
        check_masked_lm(pair.student, "student", next_sentence=True)

    def compute(self, batch: StepInputs) -> tf.Tensor:
        """See `nsp_loss`."""
        return nsp_loss(batch)
