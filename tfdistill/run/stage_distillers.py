"""The losses of each kind of stage."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from typing import Any

import tf_keras as keras

from tfdistill import config, distillers, losses, models, tasks
from tfdistill.losses import methods, words
from tfdistill.run import soft_labels

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class DistilledPair:
    """What a distiller is built from; `teacher` is not None where the stage has one."""

    teacher: Any  # a model, or answers in files
    student: keras.Model
    seed: int
    kind: tasks.TaskKind | None = None  # of the task
    same_tokens: bool = True

    @property
    def vector_width(self) -> int | None:
        """The width of the vectors of a teacher that is known by them alone."""
        return self.teacher.width if isinstance(self.teacher, soft_labels.SoftLabels) else None

    @property
    def head(self) -> str | None:
        """The head that answers the task."""
        return None if self.kind is None else self.kind.head

    @property
    def regression(self) -> bool:
        """Whether an answer is a number."""
        return self.kind is not None and self.kind.one_number

    def objective(self, stage: config.Stage) -> str:
        """The objective of the answers: of a regression they are numbers."""
        return "logit_mse" if self.regression else stage.objective


def distiller_of(stage: config.Stage, pair: DistilledPair) -> distillers.Distiller:
    """Builds the distiller of a stage, with the losses of its kind."""
    return distillers.Distiller(
        pair.teacher if stage.traits.has_teacher else None,
        pair.student,
        LOSSES[stage.kind](stage, pair),
        same_tokens=pair.same_tokens,
        vector_width=pair.vector_width,
        seed=pair.seed,
        name=f"{stage.kind}_distiller",
    )


def _joint(stage: config.Stage, pair: DistilledPair) -> methods.Losses:
    objective = pair.objective(stage)
    used = f"the teacher's answers ({objective})"
    if stage.loss_weights.get("label"):
        used += ", gold labels"
    return methods.joint(
        objective=objective,
        temperature=stage.temperature or 1.0,
        layers=stage.layer_map,
        hidden_states=_has_hidden_states(stage, pair, used),
        head=pair.head,
    )


def _embedding(stage: Any, pair: DistilledPair) -> methods.Losses:
    used = f"the teacher's vectors ({stage.objective}) and their similarities"
    return methods.embedding(
        objective=stage.objective,
        temperature=stage.temperature,
        prefixes=stage.prefixes,
        layers=stage.layer_map,
        hidden_states=_has_hidden_states(stage, pair, used),
    )


def _layers(stage: Any, pair: DistilledPair) -> methods.Losses:
    return methods.tinybert(
        stage.kind,
        layers=stage.layer_map,
        projection=stage.projection,
        layer_weights=stage.layer_weights,
        reduction=stage.reduction,
    )


def _prediction(stage: config.Stage, pair: DistilledPair) -> methods.Losses:
    return methods.tinybert(
        "prediction",
        objective=stage.objective,
        temperature=stage.temperature,
        reduction=stage.reduction,
        head=pair.head,
        regression=pair.regression,
    )


def _logits(stage: config.Stage, pair: DistilledPair) -> methods.Losses:
    return methods.hinton(
        objective=pair.objective(stage),
        temperature=stage.temperature,
        scale_by_t2=stage.scale_by_t2,
        head=pair.head,
    )


def _patient(stage: config.Stage, pair: DistilledPair) -> methods.Losses:
    return methods.patient(
        layers=stage.layer_map,
        projection="auto",
        temperature=stage.temperature,
        objective=pair.objective(stage),
        head=pair.head,
    )


def _relations(stage: config.Stage, pair: DistilledPair) -> methods.Losses:
    return methods.minilm(
        teacher_layer=stage.teacher_layer,
        num_relation_heads=stage.relation_heads,
        reduction=stage.reduction,
    )


def _masked_words(stage: config.Stage, pair: DistilledPair) -> methods.Losses:
    return methods.masked_words(next_sentence=words.has_nsp_head(pair.student))


LOSSES: Mapping[str, Callable[[Any, DistilledPair], methods.Losses]] = {
    "general": _layers,
    "intermediate": _layers,
    "prediction": _prediction,
    "labels": lambda stage, pair: methods.labels(head=pair.head),
    "logits": _logits,
    "joint": _joint,
    "embedding": _embedding,
    "patient": _patient,
    "relations": _relations,
    "combination": lambda stage, pair: losses.build_losses(stage.losses),
    "mlm": _masked_words,
    "distilbert": lambda stage, pair: methods.distilbert(temperature=stage.temperature),
}
"""Kind of stage -> its losses; the stages of mobilebert are `training.transfer_stages`."""


def _has_hidden_states(stage: config.Stage, pair: DistilledPair, used: str) -> bool:
    """Whether hidden states can be compared; prints what the student learns from.

    Args:
      stage: The stage.
      pair: Teacher and student.
      used: What else it learns from.
    """
    lacking = _no_hidden_states(stage, pair)
    if not stage.weight_of("hidden"):
        pass
    elif lacking is None:
        theirs, ours = (
            models.config_of(model).num_layers for model in (pair.teacher, pair.student)
        )
        layers = losses.layer_map(theirs, ours, stage.layer_map)
        used += f" and hidden states, {losses.describe_layer_map(layers)}"
    else:
        used += f" and no hidden states, since {lacking}"
    _log.info(f"{stage.kind}: the student learns from {used}")
    return lacking is None


def _no_hidden_states(stage: config.Stage, pair: DistilledPair) -> str | None:
    """Why hidden states of teacher and student cannot be compared, or None."""
    if isinstance(pair.teacher, soft_labels.SoftLabels):
        return "its teacher is known by its answers alone"
    teacher, student = models.config_of(pair.teacher), models.config_of(pair.student)
    if not student.num_layers:
        return "it has no layers"
    if not pair.same_tokens:
        return "its vocabulary is not the teacher's"
    if student.num_layers > teacher.num_layers and isinstance(stage.layer_map, str):
        return f"it has {student.num_layers} layers, its teacher {teacher.num_layers}"
    return None
