"""Comparisons of the answers of two models; `losses.heads` says what rows a head gives."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import tensorflow as tf
import tf_keras as keras

from tfdistill import errors, models
from tfdistill.losses import checks, logits, words
from tfdistill.losses.base import Loss, ModelPair
from tfdistill.losses.batch import StepInputs
from tfdistill.losses.heads import HEADS

_KERNELS: Mapping[str, Callable[..., tf.Tensor]] = {
    "soft_cross_entropy": logits.soft_cross_entropy,
    "kl_divergence": logits.kl_divergence,
    "logit_mse": logits.logit_mse,
}
OBJECTIVES = tuple(_KERNELS)


def resolve_head(student: keras.Model, head: str | None = None) -> str:
    """Returns which kind of answers a model gives: of `HEADS` the model's own, or `head`."""
    model_head = models.head_of(student)
    if head is not None:
        checks.check_choice("head", head, tuple(HEADS))
    if model_head not in HEADS:
        raise errors.ShapeError(
            "model",
            "a classifier of sequences, tokens or spans",
            f"one with the head {model_head!r}",
            "Use models.build_model, or tfdistill.build_student.",
        )
    if head is None:
        return model_head
    if model_head != HEADS[head].model_head:
        raise errors.ShapeError(f"head {head!r}", "a model with that head", f"a {model_head} head")
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
    """Compares a student's answers with its teacher's, as an objective of `tfdistill.losses`.

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
    checks.check_choice("head", head, tuple(HEADS))
    checks.check_choice("objective", objective, OBJECTIVES)
    squared = objective == "logit_mse"
    options: dict[str, Any] = {"reduction": reduction}
    if not squared:
        options |= {"temperature": temperature, "scale_by_t2": scale_by_t2}
    rows = HEADS[head].compared(
        batch,
        tf.cast(teacher_logits, tf.float32),
        tf.cast(student_logits, tf.float32),
        squared=squared,
        reduction=reduction,
    )
    kernel = _KERNELS[objective]
    return rows.factor * kernel(rows.teacher, rows.student, sample_weight=rows.weight, **options)


def check_answers(
    teacher: keras.Model, student: keras.Model, head: str | None, objective: str
) -> str:
    """Checks that `soft_loss` can compare two models' answers."""
    checks.check_choice("objective", objective, OBJECTIVES)
    models.check_model(student)
    student_form = (models.head_of(student), models.num_labels_of(student))
    teacher_form = student_form  # of a function; the first step checks the shape of its logits
    if isinstance(teacher, keras.Model):
        teacher_form = (models.head_of(teacher), models.num_labels_of(teacher))
    if None in (teacher_form[1], student_form[1]) or teacher_form != student_form:
        raise errors.ShapeError(
            "answers of teacher and student",
            "the same kind of head with the same number of labels",
            " and ".join(
                f"a {head} head with {labels}" for head, labels in (teacher_form, student_form)
            ),
            "Build both for the task, or fine-tune the teacher on it first.",
        )
    resolved = resolve_head(student, head)
    if objective != "logit_mse" and HEADS[resolved].answers_number(student_form[1]):
        raise errors.ConfigError(
            "objective", "'logit_mse' for a regression, which has no soft targets", repr(objective)
        )
    return resolved


def answers_number(student: keras.Model, head: str | None = None) -> bool:
    """Checks whether a model answers with a number, without soft targets; head: `resolve_head`."""
    head = head or models.head_of(student)
    return head in HEADS and HEADS[head].answers_number(models.num_labels_of(student))


class LogitLoss(Loss):
    """The comparison of the answers of both models; of masked language models on predicted words.

    Args:
      temperature: T > 0.
      scale_by_t2: Whether the factor T^2 is there, which keeps the gradient's size as T grows.
      head: None for the student's own; "multi_label" where a classifier's classes exclude nothing.
      reduction: "batch", or "reference" for means in which classes and padding count (`soft_loss`).
      rows: Of a masked language model: all "predicted" rows, the "masked" ones among them, or
        "all" real tokens, which must all be predicted.
      weight: Its weight in the sum.
    """

    objective: ClassVar[str]
    masked_lm = False

    def __init__(
        self,
        *,
        temperature: float = 1.0,
        scale_by_t2: bool = True,
        head: str | None = None,
        reduction: Literal["batch", "reference"] = "batch",
        rows: Literal["predicted", "masked", "all"] = "predicted",
        weight: float = 1.0,
    ):
        """Checks the options; see the class."""
        super().__init__(weight=weight)
        checks.check_number("temperature", temperature, above=0)
        checks.check_choice("reduction", reduction, ("batch", "reference"))
        checks.check_choice("rows", rows, ("predicted", "masked", "all"))
        if head is not None:
            checks.check_choice("head", head, tuple(HEADS))
        if not isinstance(scale_by_t2, bool):
            raise errors.ConfigError("scale_by_t2", "true or false", repr(scale_by_t2))
        self.temperature = temperature
        self.scale_by_t2 = scale_by_t2
        self.head = head
        self.reduction = reduction
        self.rows = rows

    def bind(self, name: str, pair: ModelPair) -> LogitLoss:
        """See `Loss.bind`."""
        bound = copy.copy(self)
        bound.masked_lm = words.predicts_words(pair.student)
        if self.head is None and models.head_of(pair.student) in HEADS:
            bound.head = models.head_of(pair.student)
        return bound

    def check(self, pair: ModelPair) -> None:
        """See `Loss.check`."""
        if pair.teacher is None:
            raise errors.ConfigError(self.kind, "a teacher", "none")
        if self.masked_lm:
            words.check_masked_lm(pair.teacher, "teacher")
        else:
            check_answers(pair.teacher, pair.student, self.head, self.objective)

    @property
    def _soft_options(self) -> dict[str, Any]:
        return {"temperature": self.temperature, "scale_by_t2": self.scale_by_t2}

    def compute(self, batch: StepInputs) -> tf.Tensor:
        """See `soft_loss`."""
        if self.masked_lm:
            return _KERNELS[self.objective](
                batch.teacher["mlm_logits"],  # (N, vocabulary)
                batch.student["mlm_logits"],
                sample_weight=words.row_weights(batch, self.rows),
                reduction=self.reduction,
                **self._soft_options,
            )
        assert self.head is not None
        return soft_loss(
            batch.teacher["logits"],
            batch.student["logits"],
            batch,
            head=self.head,
            objective=self.objective,
            reduction=self.reduction,
            **self._soft_options,
        )


class KLDivergence(LogitLoss):
    """Divergence of the answers.

    ``T^2 / B sum over b of KL(softmax(z_t / T) || softmax(z_s / T))``, see `kl_divergence`.
    """

    objective = "kl_divergence"


class SoftCrossEntropy(LogitLoss):
    """Cross entropy with the teacher's answers: the same gradient, another value."""

    objective = "soft_cross_entropy"


class LogitMSE(LogitLoss):
    """Mean over classes of squared differences of logits; it has no temperature."""

    objective = "logit_mse"

    def __init__(
        self,
        *,
        head: str | None = None,
        reduction: Literal["batch", "reference"] = "batch",
        rows: Literal["predicted", "masked", "all"] = "predicted",
        weight: float = 1.0,
    ):
        """See `LogitLoss`."""
        super().__init__(head=head, reduction=reduction, rows=rows, weight=weight)

    @property
    def _soft_options(self) -> dict[str, Any]:
        return {}


LOSSES: Mapping[str, type[LogitLoss]] = {
    loss.objective: loss for loss in (KLDivergence, SoftCrossEntropy, LogitMSE)
}
"""Objective -> loss."""
