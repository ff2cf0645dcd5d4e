"""BERT-PKD: a patient teacher, whose [CLS] states are learnt layer after layer."""

from __future__ import annotations

from typing import Any

import tf_keras as keras

from tfdistill.distillers.method import MethodDistiller
from tfdistill.losses import answers, methods


class PatientDistiller(MethodDistiller, method=methods.patient):
    """Distils answers and [CLS] states, as BERT-PKD.

    Three terms, with g the layer map (`patient_layer_map`) over K student layers, t and s the [CLS]
    states after a layer, d their width and B the examples of the batch:

        label   = cross entropy with the gold label, mean over the batch
        logits  = T^2 / B sum over b of KL(softmax(z_t / T) || softmax(z_s / T))
        patient = 1 / (K B d) sum over i < K, b of |t_gib / |t_gib| - s_ib / |s_ib||^2

    and ``loss = alpha * label + (1 - alpha) * logits + beta * patient``. (The paper writes
    alpha on the soft targets and 1 - alpha on the label.)

    Args:
      teacher: The fine-tuned teacher.
      student: The student, as wide as the teacher unless there are projections.
      same_tokens: As for `Distiller`.
      seed: Seed of the dropout masks.
      name: The Keras name.

    Keyword Args:
      alpha (float): The share of the gold label, from 0 to 1. The paper searched 0.3, 0.5 and 0.8.
      beta (float): The weight of the patient term, at least 0. The paper searched 10, 100, 500,
        1000.
      temperature (float): T. The paper searched 5, 10 and 20.
      layer_map (str | Sequence[int]): "skip" (PKD-Skip: evenly spaced), "last" (PKD-Last) or a
        list.
      projection (str): "none" as published, or "per_layer": a Dense for each compared layer that
        maps the student's [CLS] state to the teacher's width; it learns with the student.
      objective (str): Of ``logits``: "kl_divergence" as published, "soft_cross_entropy" or
        "logit_mse" (for a regression).
      head (str | None): None for the student's own; "multi_label" where a classifier's classes
        exclude nothing.

    Raises:
      ConfigError: If an option is unknown or out of range.
      ShapeError: If teacher and student do not answer alike, or their widths differ without
        projections.

    Examples:
      >>> distiller = tfdistill.PatientDistiller(teacher, student, alpha=0.3, beta=10.0)
      >>> {name: loss.weight for name, loss in distiller.losses_by_name.items()}
      {'label': 0.3, 'logits': 0.7, 'patient': 10.0}

    Reference: Sun et al. 2019, Patient Knowledge Distillation for BERT Model Compression,
    equations 6 to 8.
    """

    @staticmethod
    def losses_of(teacher: keras.Model, student: keras.Model, **options: Any) -> methods.Losses:
        """Builds the losses, and checks that the two answer alike; see the class."""
        losses = methods.patient(**options)
        answers.check_answers(teacher, student, options["head"], options["objective"])
        return losses
