"""Training: fits that resume, optimizers, initialisation, evaluation, teachers."""

from tfdistill.training.evaluation import evaluate, gold_labels, predict_logits, predictor
from tfdistill.training.fit import FitResult, TrainingBatches, fit
from tfdistill.training.initialise import (
    initialise_from_teacher,
    initialise_projections,
    leading_directions,
)
from tfdistill.training.optimizers import adamw
from tfdistill.training.pairs import align_labels, build_student, load_teacher
from tfdistill.training.teachers import cached_logits, chance_level, check_teacher

__all__ = [
    "FitResult",
    "TrainingBatches",
    "adamw",
    "align_labels",
    "build_student",
    "cached_logits",
    "chance_level",
    "check_teacher",
    "evaluate",
    "fit",
    "gold_labels",
    "initialise_from_teacher",
    "initialise_projections",
    "leading_directions",
    "load_teacher",
    "predict_logits",
    "predictor",
]
