"""DistilBERT: masked words, the teacher's answers at every token, and the last states."""

from __future__ import annotations

import tensorflow as tf
import tf_keras as keras

from tfdistill import errors, objectives
from tfdistill.distillers import base, checks, mlm

TERMS = {"distillation": 5.0, "mlm": 2.0, "cosine": 1.0}


class DistilBertDistiller(base.Distiller):
    """Distils a masked language model with DistilBERT's triple loss.

    With R the real tokens of the batch (no padding; [CLS] and [SEP] count), z their logits over
    the vocabulary, h their last hidden states and M the masked tokens among them:

        distillation = T^2 / |R| sum over R of KL(softmax(z_t / T) || softmax(z_s / T))
        mlm          = 1 / |M| sum over M of -log softmax(z_s)[original token]
        cosine       = 1 / |R| sum over R of 1 - cos(h_t, h_s)

    and ``loss = 5 distillation + 2 mlm + 1 cosine``, as published; `compile(loss_weights=...)` may
    say otherwise. Sample weights weigh the tokens of their example in every sum.

    The batches need the features ``mlm_labels`` and ``prediction_mask``; the latter is the
    attention mask itself, since the teacher is heard at every token (`data.masking.Masker` with
    ``predict="all"``). Both models answer the same masked text.

    The second step, while fine-tuning on a task, is `LogitDistiller` with ``temperature=2`` and
    ``alpha=0.5``.

    Args:
      teacher: A masked language model (`models.build_masked_lm`, `weights.load_masked_lm`).
      student: Another, with the same vocabulary and, where the cosine is learnt, the same width.
        `training.initialise_from_layers` starts it from some of the teacher's layers.
      temperature: T > 0.
      seed: Seed of the dropout masks.
      name: The Keras name.

    Raises:
      ConfigError: If the temperature is out of range.
      ShapeError: If a model has no masked-LM head, or their vocabularies differ in size.

    Reference: Sanh et al. 2019, DistilBERT, section 3, with the weights of the published code.
    """

    def __init__(
        self,
        teacher: keras.Model,
        student: keras.Model,
        *,
        temperature: float = 2.0,
        seed: int = 0,
        name: str | None = None,
    ):
        """Checks that the pair fits; see the class."""
        checks.check_number("temperature", temperature, above=0)
        mlm.check_masked_lm(teacher, "teacher")
        mlm.check_masked_lm(student, "student")
        checks.check_same_vocabulary_size(teacher, student)
        super().__init__(
            teacher,
            student,
            terms=TERMS,
            reports={"mlm_accuracy": mlm.mlm_hits},
            seed=seed,
            name=name,
        )
        self._temperature = temperature

    def check_terms(self) -> None:
        """The cosine compares states as they are.

        Raises:
          ShapeError: If ``cosine`` has a weight and the widths differ.
        """
        assert self.teacher is not None
        if "cosine" in self.active_terms:
            checks.check_same_width(
                self.teacher,
                self.student,
                "DistilBERT has no projection: choose a student as wide as its teacher, or learn "
                "without the cosine (loss_weights={'cosine': 0}).",
            )

    def needs_only_logits(self) -> bool:
        """False: logits over a vocabulary are not kept on disk."""
        return False

    def compute_terms(self, batch: base.StepInputs) -> dict[str, tf.Tensor]:
        """The active ones of the three terms."""
        losses = {
            "distillation": self._distillation,
            "mlm": mlm.mlm_loss,
            "cosine": self._cosine,
        }
        return {term: losses[term](batch) for term in self.active_terms}

    def _distillation(self, batch: base.StepInputs) -> tf.Tensor:
        weights = mlm.row_weights(batch)  # (N,)
        with tf.control_dependencies([_check_every_token_answers(batch)]):
            weights = tf.identity(weights)
        return objectives.kl_divergence(
            batch.teacher["mlm_logits"],  # (N, vocabulary)
            batch.student["mlm_logits"],
            temperature=self._temperature,
            sample_weight=weights,
            scale_by_t2=True,
        )

    def _cosine(self, batch: base.StepInputs) -> tf.Tensor:
        return objectives.cosine_distance(
            batch.teacher["hidden_states"][-1], batch.student["hidden_states"][-1], batch.mask
        )


def _check_every_token_answers(batch: base.StepInputs) -> tf.Operation | None:
    """Fails the step where a real token has no answer: the loss would be another one."""
    return tf.debugging.assert_equal(
        tf.not_equal(batch.features[mlm.PREDICTION_MASK], 0),
        tf.not_equal(batch.features["attention_mask"], 0),
        message=errors.explain(
            "prediction_mask",
            "the attention mask",
            "another one",
            "Mask the batches with data.masking.Masker(predict='all').",
        ),
    )
