"""Training: fits that resume, optimizers, initialisation, evaluation, teachers."""

from tfdistill.config import PretrainConfig
from tfdistill.data.streaming import StepRange, TrainingBatches
from tfdistill.models import predict_logits, predictor
from tfdistill.results import FitResult
from tfdistill.training.evaluation import evaluate
from tfdistill.training.fit import fit
from tfdistill.training.initialise import (
    initialise_from_layers,
    initialise_from_teacher,
    initialise_projections,
    leading_directions,
    scale_words,
    start_at_numbers,
)
from tfdistill.training.linear_head import fit_linear_head, read_unseen
from tfdistill.training.masked_lm import MaskedLmEvaluation
from tfdistill.training.optimizers import adamw, lamb
from tfdistill.training.pretrain import pretrain
from tfdistill.training.teacher_answers import cached_logits, teacher_digest
from tfdistill.training.teacher_loading import align_labels, label_order, load_teacher
from tfdistill.training.transfer import (
    TransferStage,
    initialise_from_mobilebert_teacher,
    published_optimizer,
    transfer_stages,
)
from tfdistill.training.transfer_run import run_transfer

__all__ = [
    "FitResult",
    "MaskedLmEvaluation",
    "PretrainConfig",
    "StepRange",
    "TrainingBatches",
    "TransferStage",
    "adamw",
    "align_labels",
    "cached_logits",
    "evaluate",
    "fit",
    "fit_linear_head",
    "initialise_from_layers",
    "initialise_from_mobilebert_teacher",
    "initialise_from_teacher",
    "initialise_projections",
    "label_order",
    "lamb",
    "leading_directions",
    "load_teacher",
    "predict_logits",
    "predictor",
    "pretrain",
    "published_optimizer",
    "read_unseen",
    "run_transfer",
    "scale_words",
    "start_at_numbers",
    "teacher_digest",
    "transfer_stages",
]
