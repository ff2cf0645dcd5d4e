"""Learning from the teacher's answers alone: soft targets, squared logits, and hard-soft mixes."""

from __future__ import annotations

from typing import Any

import tf_keras as keras

from tfdistill.distillers.method import MethodDistiller
from tfdistill.losses import answers, methods


class LogitDistiller(MethodDistiller, method=methods.hinton):
    """Distils the teacher's logits, as Hinton et al. and many after them.

    Two terms, with z the logits and B the examples of the batch:

        logits = T^2 / B sum over b of KL(softmax(z_t / T) || softmax(z_s / T))
        label  = cross entropy with the gold label (`losses.gold_loss`), mean over the batch

    and ``loss = (1 - alpha) * logits + alpha * label``; `compile(loss_weights=...)` can
    change the weights. If ``label`` has none, the batches need no labels. `losses.soft_loss`
    defines `logits` for heads over tokens, spans and several labels at once.

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
      same_tokens: As for `Distiller`.
      seed: Seed of the dropout masks.
      name: The Keras name.

    Keyword Args:
      objective (str): "kl_divergence", "soft_cross_entropy" (the same gradient, another value) or
        "logit_mse" (mean over classes; T is not used).
      temperature (float): T > 0.
      scale_by_t2 (bool): Whether the T^2 is there, which keeps the gradient's size as T grows.
      alpha (float): The share of the gold label, from 0 (off) to 1 (no teacher).
      head (str | None): None for the student's own; "multi_label" where a classifier's classes
        exclude nothing.
      reduction (str): "batch", or "reference" for means in which classes and padding count
        (`losses.soft_loss`).

    Raises:
      ConfigError: If an option is unknown or out of range, or asks a regression for soft targets.
      ShapeError: If teacher and student do not answer alike.

    Examples:
      >>> copy = tfdistill.load_teacher("teacher", task=data.task)
      >>> distiller = tfdistill.LogitDistiller(teacher, copy, temperature=2.0)
      >>> distiller.compile()
      >>> round(distiller.evaluate(data.dev, verbose=0, return_dict=True)["loss"], 3)
      0.0

    Reference: Hinton et al. 2015; Turc et al. 2019 (PD); Tang et al. 2019 (logit regression); Sanh
    et al. 2019, DistilBERT, section 4 (the second step).
    """

    @staticmethod
    def losses_of(teacher: keras.Model, student: keras.Model, **options: Any) -> methods.Losses:
        """Builds the losses, and checks that the two answer alike; see the class."""
        losses = methods.hinton(**options)
        answers.check_answers(teacher, student, options["head"], options["objective"])
        return losses
