"""Learning from the teacher's answers alone: soft targets, squared logits, and hard-soft mixes."""

from __future__ import annotations

from typing import Literal

import tensorflow as tf
import tf_keras as keras

from tfdistill.distillers import answers, base, checks, label


class LogitDistiller(base.Distiller):
    """Distils the teacher's logits, as Hinton et al. and many after them.

    Two terms, with z the logits and B the examples of the batch:

        prediction = T^2 / B sum over b of KL(softmax(z_t / T) || softmax(z_s / T))
        label      = cross entropy with the gold label (`label.gold_loss`), mean over the batch

    and ``loss = (1 - alpha) * prediction + alpha * label``; `compile(loss_weights=...)` may say
    otherwise. Where ``label`` has no weight the batches need no labels. What `prediction` means for
    heads over tokens, spans and several labels at once: `answers.soft_loss`.

    - Hinton: some `temperature` above 1, `alpha` to taste.
    - PD (pre-trained distillation): the defaults, on the task's text, labelled or not, with a
      student that was pre-trained as a masked language model.
    - Logit regression, as for the BiLSTM student: ``objective="logit_mse"``.
    - DistilBERT's second step: ``temperature=2, alpha=0.5``. With a span head that is
      ``0.5 (KL_start + KL_end) / 2 T^2 + 0.5 (CE_start + CE_end) / 2``.

    The batches may bring the teacher's logits along (``teacher_logits``).

    Args:
      teacher: The teacher, with a head.
      student: The student, with a head of the same kind and the same number of labels.
      objective: "kl_divergence", "soft_cross_entropy" (the same gradient, another value) or
        "logit_mse" (mean over classes; T is not used).
      temperature: T > 0.
      scale_by_t2: Whether the T^2 is there, which keeps the gradient's size as T grows.
      alpha: The share of the gold label, from 0 (off) to 1 (no teacher).
      head: None for the student's own; "multi_label" where a classifier's classes exclude nothing.
      reduction: "batch", or "reference" for means in which classes and padding count
        (`answers.soft_loss`).
      seed: Seed of the dropout masks.
      name: The Keras name.

    Raises:
      ConfigError: If an option is unknown or out of range, or asks a regression for soft targets.
      ShapeError: If teacher and student do not answer alike.

    Reference: Hinton et al. 2015; Turc et al. 2019 (PD); Tang et al. 2019 (logit regression); Sanh
    et al. 2019, DistilBERT, section 4 (the second step).
    """

    def __init__(
        self,
        teacher: keras.Model,
        student: keras.Model,
        *,
        objective: str = "kl_divergence",
        temperature: float = 1.0,
        scale_by_t2: bool = True,
        alpha: float = 0.0,
        head: str | None = None,
        reduction: Literal["batch", "reference"] = "batch",
        seed: int = 0,
        name: str | None = None,
    ):
        """Checks that the two answer alike; see the class."""
        checks.check_share("alpha", alpha)
        soft = SoftAnswers(
            teacher,
            student,
            objective=objective,
            temperature=temperature,
            scale_by_t2=scale_by_t2,
            head=head,
            reduction=reduction,
        )
        terms = {"prediction": 1.0 - alpha, "label": float(alpha)}
        super().__init__(teacher, student, terms=terms, seed=seed, name=name)
        self._answers = soft

    def check_terms(self) -> None:
        """Both terms fit every head."""

    def needs_only_logits(self) -> bool:
        """True."""
        return True

    def compute_terms(self, batch: base.StepInputs) -> dict[str, tf.Tensor]:
        """The active ones of the two terms."""
        losses = {"prediction": self._answers.loss, "label": self._answers.gold_loss}
        return {term: losses[term](batch) for term in self.active_terms}


class SoftAnswers:
    """The comparison of a student's answers with its teacher's, checked once for a pair.

    Args:
      teacher: The teacher.
      student: The student.
      objective: One of `answers.OBJECTIVES`.
      temperature: T > 0.
      scale_by_t2: Multiplies by T^2.
      head: As for `LogitDistiller`.
      reduction: "batch" or "reference".

    Raises:
      ConfigError: If an option is unknown or out of range, or asks a regression for soft targets.
      ShapeError: If teacher and student do not answer alike.
    """

    def __init__(
        self,
        teacher: keras.Model,
        student: keras.Model,
        *,
        objective: str,
        temperature: float,
        scale_by_t2: bool,
        head: str | None,
        reduction: str,
    ):
        """Checks the options against the pair."""
        checks.check_choice("objective", objective, answers.OBJECTIVES)
        checks.check_choice("reduction", reduction, ("batch", "reference"))
        checks.check_number("temperature", temperature, above=0)
        checks.check_same_vocabulary_size(teacher, student)
        checks.check_same_answers(teacher, student)
        self.head = answers.resolve_head(student, head)
        checks.check_soft_targets(student, self.head, objective)
        self._objective = objective
        self._temperature = temperature
        self._scale_by_t2 = scale_by_t2
        self._reduction = reduction

    def loss(self, batch: base.StepInputs) -> tf.Tensor:
        """The objective between the two models' logits."""
        return answers.soft_loss(
            batch.teacher["logits"],
            batch.student["logits"],
            batch,
            head=self.head,
            objective=self._objective,
            temperature=self._temperature,
            reduction=self._reduction,
            scale_by_t2=self._scale_by_t2,
        )

    def gold_loss(self, batch: base.StepInputs) -> tf.Tensor:
        """The loss against the gold labels."""
        return label.gold_loss(batch, self.head)
