"""The distiller of each kind of stage."""

from __future__ import annotations

import dataclasses
import functools
import logging
from typing import Any

import tf_keras as keras

from tfdistill import config, distillers, models, objectives
from tfdistill.run import given

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class DistilledPair:
    """What a distiller is built from; `teacher` is not None where the stage has one."""

    teacher: Any  # a model, or answers in files
    student: keras.Model
    seed: int
    head: str | None
    regression: bool
    same_tokens: bool = True

    @property
    def vector_width(self) -> int | None:
        """The width of the vectors of a teacher that is known by them alone."""
        return self.teacher.width if isinstance(self.teacher, given.GivenTeacher) else None

    def objective(self, prediction: str) -> str:
        """The objective of the answers: of a regression they are numbers."""
        return "logit_mse" if self.regression else prediction


@functools.singledispatch
def distiller_of(stage: config.StageConfig, pair: DistilledPair) -> distillers.Distiller:
    """Builds the distiller of a stage; each kind registers its own."""
    raise NotImplementedError(stage.kind)


@distiller_of.register
def _labels(stage: config.LabelsStage, pair: DistilledPair) -> distillers.Distiller:
    return distillers.LabelTrainer(pair.student, head=pair.head, seed=pair.seed)


@distiller_of.register
def _masked_words(stage: config.MaskedWordsStage, pair: DistilledPair) -> distillers.Distiller:
    return distillers.MaskedLmTrainer(pair.student, seed=pair.seed)


@distiller_of.register
def _distilbert(stage: config.DistilBertStage, pair: DistilledPair) -> distillers.Distiller:
    return distillers.DistilBertDistiller(
        pair.teacher, pair.student, temperature=stage.temperature, seed=pair.seed
    )


@distiller_of.register
def _relations(stage: config.RelationsStage, pair: DistilledPair) -> distillers.Distiller:
    return distillers.MiniLmDistiller(
        pair.teacher,
        pair.student,
        teacher_layer=stage.teacher_layer,
        num_relation_heads=stage.relation_heads,
        reduction=stage.reduction,
        seed=pair.seed,
    )


@distiller_of.register
def _combination(stage: config.CombinationStage, pair: DistilledPair) -> distillers.Distiller:
    return distillers.CombinationDistiller(
        pair.teacher,
        pair.student,
        terms=stage.terms,
        vector_width=pair.vector_width,
        seed=pair.seed,
    )


@distiller_of.register
def _joint(stage: config.JointStage, pair: DistilledPair) -> distillers.Distiller:
    objective = pair.objective(stage.prediction)
    used = f"the teacher's answers ({objective})"
    if stage.loss_weights.get("label"):
        used += ", gold labels"
    return distillers.JointDistiller(
        pair.teacher,
        pair.student,
        objective=objective,
        temperature=stage.temperature or 1.0,
        layer_map=stage.layer_map,
        hidden_states=_has_hidden_states(stage, pair, used, weight=1.0),
        head=pair.head,
        same_tokens=pair.same_tokens,
        seed=pair.seed,
    )


@distiller_of.register
def _embedding(stage: config.EmbeddingStage, pair: DistilledPair) -> distillers.Distiller:
    theirs = pair.vector_width or models.num_labels_of(pair.teacher)
    ours = models.num_labels_of(pair.student)
    terms: dict[str, dict[str, Any]] = {
        "vectors": {
            "objective": stage.objective,
            "projection": "none" if theirs == ours else "shared",
        },
        "similarity": {
            "objective": "similarity_kl",
            "temperature": stage.temperature,
            "prefixes": stage.prefixes,
        },
    }
    used = f"the teacher's vectors ({stage.objective}) and their similarities"
    if _has_hidden_states(stage, pair, used, weight=0.0):
        hidden = distillers.hidden_term(pair.teacher, pair.student, stage.layer_map, weight=0.0)
        terms["hidden"] = hidden
    return distillers.CombinationDistiller(
        pair.teacher,
        pair.student,
        terms=terms,
        same_tokens=pair.same_tokens,
        vector_width=pair.vector_width,
        seed=pair.seed,
    )


def _has_hidden_states(
    stage: config.PrunedStage, pair: DistilledPair, used: str, *, weight: float
) -> bool:
    """Whether hidden states can be compared; prints what the student learns from.

    Args:
      stage: The stage.
      pair: Teacher and student.
      used: What else it learns from.
      weight: The weight of hidden states by default.
    """
    lacking = _no_hidden_states(stage, pair)
    if not stage.loss_weights.get("hidden", weight):
        pass
    elif lacking is None:
        theirs, ours = (
            models.config_of(model).num_layers for model in (pair.teacher, pair.student)
        )
        layers = objectives.layer_map(theirs, ours, stage.layer_map)
        used += f" and hidden states, {objectives.describe_layer_map(layers)}"
    else:
        used += f" and no hidden states, since {lacking}"
    _log.info(f"{stage.kind}: the student learns from {used}")
    return lacking is None


def _no_hidden_states(stage: config.PrunedStage, pair: DistilledPair) -> str | None:
    """Why hidden states of teacher and student cannot be compared, or None."""
    if isinstance(pair.teacher, given.GivenTeacher):
        return "its teacher is known by its answers alone"
    teacher, student = models.config_of(pair.teacher), models.config_of(pair.student)
    if not student.num_layers:
        return "it has no layers"
    if not pair.same_tokens:
        return "its vocabulary is not the teacher's"
    if student.num_layers > teacher.num_layers and isinstance(stage.layer_map, str):
        return f"it has {student.num_layers} layers, its teacher {teacher.num_layers}"
    return None


@distiller_of.register
def _logits(stage: config.LogitsStage, pair: DistilledPair) -> distillers.Distiller:
    return distillers.LogitDistiller(
        pair.teacher,
        pair.student,
        objective=pair.objective(stage.prediction),
        temperature=stage.temperature,
        scale_by_t2=stage.scale_by_t2,
        head=pair.head,
        same_tokens=pair.same_tokens,
        seed=pair.seed,
    )


@distiller_of.register
def _patient(stage: config.PatientStage, pair: DistilledPair) -> distillers.Distiller:
    widths = {models.config_of(model).hidden_size for model in (pair.teacher, pair.student)}
    return distillers.PatientDistiller(
        pair.teacher,
        pair.student,
        layer_map=stage.layer_map,
        projection="none" if len(widths) == 1 else "per_layer",
        temperature=stage.temperature,
        objective=pair.objective(stage.prediction),
        head=pair.head,
        seed=pair.seed,
    )


@distiller_of.register(config.GeneralStage)
@distiller_of.register(config.IntermediateStage)
def _layers(
    stage: config.GeneralStage | config.IntermediateStage, pair: DistilledPair
) -> distillers.Distiller:
    return distillers.TinyBertDistiller(
        pair.teacher,
        pair.student,
        stage=stage.kind,
        layer_map=stage.layer_map,
        projection=stage.projection,
        layer_weights=stage.layer_weights,
        reduction=stage.reduction,
        head=pair.head,
        seed=pair.seed,
    )


@distiller_of.register
def _prediction(stage: config.PredictionStage, pair: DistilledPair) -> distillers.Distiller:
    return distillers.TinyBertDistiller(
        pair.teacher,
        pair.student,
        stage="prediction",
        prediction=pair.objective(stage.prediction),
        temperature=stage.temperature,
        reduction=stage.reduction,
        head=pair.head,
        same_tokens=pair.same_tokens,
        seed=pair.seed,
    )
