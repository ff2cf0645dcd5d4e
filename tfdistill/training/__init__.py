"""Training: fits that resume, optimizers, initialisation, evaluation, teachers."""

from tfdistill.config import PretrainConfig
from tfdistill.data.streaming import StepRange, TrainingBatches
from tfdistill.models import predict_logits, predictor
from tfdistill.results import FitResult
from tfdistill.training.evaluation import MaskedLmEvaluation, evaluate
from tfdistill.training.fit import fit
from tfdistill.training.initialise import (
    initialise_from_layers,
    initialise_from_teacher,
    initialise_projections,
    leading_directions,
    scale_words,
    start_at_numbers,
)
from tfdistill.training.linear_head import fit_linear_head, read_unseen, start_head
from tfdistill.training.optimizers import adamw, lamb
from tfdistill.training.pretrain_run import pretrain
from tfdistill.training.teachers import (
    align_labels,
    cached_logits,
    label_order,
    load_teacher,
    teacher_digest,
)
from tfdistill.training.text_answers import predict
from tfdistill.training.transfer import (
    TransferStage,
    initialise_from_mobilebert_teacher,
    published_optimizer,
    run_transfer,
    transfer_stages,
)

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
    "predict",
    "predict_logits",
    "predictor",
    "pretrain",
    "published_optimizer",
    "read_unseen",
    "run_transfer",
    "scale_words",
    "start_at_numbers",
    "start_head",
    "teacher_digest",
    "transfer_stages",
]
