"""BERT-PKD: a patient teacher, whose [CLS] states are learnt layer after layer."""

from __future__ import annotations

from typing import Literal

import tf_keras as keras

from tfdistill.distillers import base
from tfdistill.losses import answers, methods
from tfdistill.losses.base import LayerMap


class PatientDistiller(base.Distiller):
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
      alpha: The share of the gold label, from 0 to 1. The paper searched 0.3, 0.5 and 0.8.
      beta: The weight of the patient term, at least 0. The paper searched 10, 100, 500, 1000.
      temperature: T. The paper searched 5, 10 and 20.
      layer_map: "skip" (PKD-Skip: evenly spaced), "last" (PKD-Last) or a list.
      projection: "none" as published, or "per_layer": a Dense for each compared layer that maps
        the student's [CLS] state to the teacher's width; it learns with the student.
      objective: Of ``logits``: "kl_divergence" as published, "soft_cross_entropy" or
        "logit_mse" (for a regression).
      head: None for the student's own; "multi_label" where a classifier's classes exclude nothing.
      seed: Seed of the dropout masks.
      name: The Keras name.

    Raises:
      ConfigError: If an option is unknown or out of range.
      ShapeError: If teacher and student do not answer alike, or their widths differ without
        projections.

    Reference: Sun et al. 2019, Patient Knowledge Distillation for BERT Model Compression,
    equations 6 to 8.
    """

    def __init__(
        self,
        teacher: keras.Model,
        student: keras.Model,
        *,
        alpha: float = 0.5,
        beta: float = 100.0,
        temperature: float = 10.0,
        layer_map: LayerMap = "skip",
        projection: Literal["none", "per_layer"] = "none",
        objective: str = "kl_divergence",
        head: str | None = None,
        seed: int = 0,
        name: str | None = None,
    ):
        """Checks that the pair fits; see the class."""
        losses = methods.patient(
            alpha=alpha,
            beta=beta,
            temperature=temperature,
            layers=layer_map,
            projection=projection,
            objective=objective,
            head=head,
        )
        answers.check_answers(teacher, student, head, objective)
        super().__init__(teacher, student, losses, seed=seed, name=name)
