"""Pre-training without a teacher: masked language modelling and next-sentence prediction."""

from __future__ import annotations

import tensorflow as tf
import tf_keras as keras

from tfdistill import errors, models
from tfdistill.distillers import base
from tfdistill.objectives import reduction

PREDICTION_MASK = "prediction_mask"
MLM_LABELS = "mlm_labels"
NSP_LABELS = "nsp_labels"


def row_weights(batch: base.StepInputs) -> tf.Tensor:
    """The weights of the rows that the masked-LM head answers.

    Args:
      batch: Needs the feature ``prediction_mask``, int (batch, tokens).

    Returns:
      float32 (N,): `batch.mask` at the N places where ``prediction_mask`` is not 0, in row-major
      order as the rows of ``mlm_logits``.

    Raises:
      ShapeError: If the feature is missing.
    """
    return tf.boolean_mask(batch.mask, _chosen(batch))


def mlm_loss(batch: base.StepInputs) -> tf.Tensor:
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
    labels, weights = _rows(batch)
    logits = tf.cast(batch.student["mlm_logits"], tf.float32)  # (N, vocabulary)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)  # (N,)
    return reduction.weighted_mean(losses, weights)


def mlm_hits(batch: base.StepInputs) -> tuple[tf.Tensor, tf.Tensor]:
    """Whether the most probable token is the masked one, for `Distiller`'s reports.

    Args:
      batch: As for `mlm_loss`.

    Returns:
      Hits, float32 (N,) of 0 and 1, and their weights, float32 (N,), as in `mlm_loss`: the
      accuracy is sum of weight times hit over sum of weights.
    """
    labels, weights = _rows(batch)
    answers = tf.argmax(batch.student["mlm_logits"], axis=-1, output_type=tf.int32)
    return tf.cast(tf.equal(answers, labels), tf.float32), weights


def nsp_loss(batch: base.StepInputs) -> tf.Tensor:
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


class MaskedLmTrainer(base.Distiller):
    """Pre-trains a masked language model, without a teacher.

    Terms: ``mlm`` (`mlm_loss`) and, where the student has the head, ``nsp`` (`nsp_loss`), each of
    weight 1 as BERT adds them. The log also holds ``mlm_accuracy``, over all masked positions of
    the epoch so far.

    Args:
      student: A model of `models.build_masked_lm`.
      seed: Seed of the dropout masks.
      name: The Keras name.

    Raises:
      ShapeError: If the student has no masked-LM head.

    Reference: Devlin et al. 2019, BERT, section 3.1.
    """

    def __init__(self, student: keras.Model, *, seed: int = 0, name: str | None = None):
        """Checks that there is a head to train; see the class."""
        check_masked_lm(student, "student")
        self._has_nsp = has_nsp_head(student)
        super().__init__(
            None,
            student,
            terms={"mlm": 1.0, "nsp": 1.0 if self._has_nsp else 0.0},
            reports={"mlm_accuracy": mlm_hits},
            seed=seed,
            name=name,
        )

    def check_terms(self) -> None:
        """Next-sentence prediction needs its head.

        Raises:
          ShapeError: If ``nsp`` has a weight and the student no such head.
        """
        if "nsp" in self.active_terms and not self._has_nsp:
            raise errors.ShapeError(
                errors.explain(
                    "term nsp",
                    "a student with a next-sentence head",
                    "one without",
                    "Build it with build_masked_lm(..., next_sentence=True).",
                )
            )

    def needs_only_logits(self) -> bool:
        """False: there is no teacher."""
        return False

    def compute_terms(self, batch: base.StepInputs) -> dict[str, tf.Tensor]:
        """The active ones of the two terms."""
        losses = {"mlm": mlm_loss, "nsp": nsp_loss}
        return {term: losses[term](batch) for term in self.active_terms}


def check_masked_lm(model: keras.Model, role: str) -> None:
    """Refuses a model without a masked-LM head.

    Args:
      model: A model of `tfdistill.models`.
      role: What to call it in the message: "teacher" or "student".

    Raises:
      ShapeError: If it has none.
    """
    head = models.head_of(model)
    if head != "masked_lm":
        raise errors.ShapeError(
            errors.explain(
                role,
                "a masked language model",
                f"a model with the head {head!r}",
                "Use models.build_masked_lm or weights.load_masked_lm.",
            )
        )


def has_nsp_head(model: keras.Model) -> bool:
    """Whether a model of `tfdistill.models` predicts next sentences."""
    return any(layer.name == "nsp_classifier" for layer in model.layers)


def _feature(batch: base.StepInputs, name: str, remedy: str) -> tf.Tensor:
    if name not in batch.features:
        raise errors.ShapeError(
            errors.explain("features", f"{name} among them", sorted(batch.features), remedy)
        )
    return batch.features[name]


def _chosen(batch: base.StepInputs) -> tf.Tensor:
    mask = _feature(batch, PREDICTION_MASK, "Mask the batches: data.masking.MaskedBatches.")
    return tf.not_equal(mask, 0)  # (batch, tokens)


def _rows(batch: base.StepInputs) -> tuple[tf.Tensor, tf.Tensor]:
    """Labels, int32 (N,) and never negative, and weights, float32 (N,), 0 where there is none."""
    labels = _feature(batch, MLM_LABELS, "Mask the batches: data.masking.MaskedBatches.")
    labels = tf.cast(tf.boolean_mask(labels, _chosen(batch)), tf.int32)
    known = tf.cast(labels >= 0, tf.float32)
    return tf.maximum(labels, 0), row_weights(batch) * known
