"""BERT-PKD: a patient teacher, whose [CLS] states are learnt layer after layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import tf_keras as keras

from tfdistill import errors, models, objectives
from tfdistill.distillers import answers, checks, terms

# The map of all layers whose last pair is left out.
_WHOLE_MAPS = {"skip": "uniform", "last": "top"}
STRATEGIES = tuple(_WHOLE_MAPS)


def patient_layer_map(
    teacher_layers: int, student_layers: int, strategy: str | Sequence[int] = "skip"
) -> tuple[int, ...]:
    """Chooses the teacher layers whose [CLS] state BERT-PKD compares.

    Layers are counted from 0; entry i is the teacher layer of student layer i. The last layers of
    both are never compared, since their states lead to the logits, which are learnt themselves.
    With N teacher and M student layers, and g as in `objectives.layer_map`:

    - "skip": g of "uniform" without its last entry. 12 and 6: 1, 3, 5, 7, 9 (the paper's 2, 4, 6,
      8, 10); 12 and 3: 3, 7.
    - "last": g of "top" without its last entry. 12 and 6: 6, 7, 8, 9, 10 (the paper's 7 to 11).
    - a list: its own entries, for the first ``len(strategy)`` student layers.

    Args:
      teacher_layers: N.
      student_layers: M, at least 2 for a name.
      strategy: "skip", "last", or the list itself.

    Returns:
      M - 1 teacher layers, or as many as the list has.

    Raises:
      ShapeError: The student is deeper than the teacher, or has no layer but the last.
      ConfigError: Unknown strategy; a list that is empty, too long, or with a layer out of range.

    Reference: Sun et al. 2019, BERT-PKD, section 3.2.
    """
    if not isinstance(strategy, str):
        layers = list(strategy)
        if not 1 <= len(layers) <= student_layers:
            raise errors.ConfigError(
                "layer_map",
                f"1 to {student_layers} teacher layers, one for each of the first student layers",
                f"{len(layers)}: {layers}",
            )
        return objectives.layer_map(teacher_layers, len(layers), layers)
    checks.check_choice("layer_map", strategy, STRATEGIES)
    whole = objectives.layer_map(teacher_layers, student_layers, _WHOLE_MAPS[strategy])
    if student_layers < 2:
        raise errors.ShapeError(
            "student layers",
            "at least 2, since the last one is not compared",
            student_layers,
            "Give layer_map=[<teacher layer>] to compare it all the same.",
        )
    return whole[:-1]


class PatientDistiller(terms.TermDistiller):
    """Distils answers and [CLS] states, as BERT-PKD.

    Three terms, with g the layer map (`patient_layer_map`) over K student layers, t and s the [CLS]
    states after a layer, d their width and B the examples of the batch:

        label      = cross entropy with the gold label, mean over the batch
        prediction = T^2 / B sum over b of KL(softmax(z_t / T) || softmax(z_s / T))
        patient    = 1 / (K B d) sum over i < K, b of |t_gib / |t_gib| - s_ib / |s_ib||^2

    and ``loss = alpha * label + (1 - alpha) * prediction + beta * patient``. (The paper writes
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
      objective: Of ``prediction``: "kl_divergence" as published, "soft_cross_entropy" or
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
        layer_map: str | Sequence[int] = "skip",
        projection: Literal["none", "per_layer"] = "none",
        objective: str = "kl_divergence",
        head: str | None = None,
        seed: int = 0,
        name: str | None = None,
    ):
        """Checks that the pair fits; see the class."""
        checks.check_share("alpha", alpha)
        checks.check_number("beta", beta)
        checks.check_choice("projection", projection, ("none", "per_layer"))
        head = answers.check_answers(teacher, student, head, objective, temperature=temperature)
        theirs, ours = models.config_of(teacher), models.config_of(student)
        mapped = patient_layer_map(theirs.num_layers, ours.num_layers, layer_map)
        soft = {"temperature": temperature, "scale_by_t2": True}
        described = {
            "label": terms.Term("label", float(alpha), head=head),
            "prediction": terms.Term(objective, 1.0 - alpha, soft, head=head),
            "patient": terms.Term(
                "patient_mse",
                float(beta),
                layers=tuple((source, layer) for layer, source in enumerate(mapped)),
                over_layers="mean",
                projections=tuple(f"patient_projection_{layer}" for layer in range(len(mapped)))
                if projection == "per_layer"
                else (),
            ),
        }
        super().__init__(teacher, student, terms=described, seed=seed, name=name)
        self.layer_map = mapped
