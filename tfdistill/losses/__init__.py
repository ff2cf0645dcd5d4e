"""Losses that a student is trained on: objects, and the pure functions that they are made of.

Functions on tokens take ``(teacher, student, mask, *, ...)``, functions on logits take
``(teacher_logits, student_logits, *, ...)``, those on the vectors of texts ``(teacher, student)``
or, of pairs, ``(first, second)``. All of them compute in float32 whatever comes in, send no
gradient to the teacher or to the mask, and keep no state. A `Loss` says which tensors of two models
go into a function; a `Distiller` takes a dict of them.
"""

from tfdistill.losses.answers import (
    KLDivergence,
    LogitMSE,
    SoftCrossEntropy,
    soft_loss,
)
from tfdistill.losses.attention import (
    attention_cross_entropy,
    attention_kl_divergence,
    attention_score_mse,
)
from tfdistill.losses.base import LayerLoss, Loss, ModelPair, NamedProjection
from tfdistill.losses.batch import StepInputs
from tfdistill.losses.described import build_losses
from tfdistill.losses.embedded import LabelSimilarity, SimilarityKL, VectorCosine, VectorMSE
from tfdistill.losses.features import (
    feature_map_mse,
    feature_mean_mse,
    feature_variance_mae,
)
from tfdistill.losses.hidden import cosine_distance, hidden_state_mse, patient_mse
from tfdistill.losses.labels import GoldLabels, balanced_weights, gold_loss
from tfdistill.losses.layer_map import describe_layer_map, layer_map, patient_layer_map
from tfdistill.losses.layered import (
    AttentionCrossEntropy,
    AttentionKLDivergence,
    AttentionScoreMSE,
    CosineDistance,
    FeatureMapMSE,
    FeatureMeanMSE,
    FeatureVarianceMAE,
    HiddenStateMSE,
    PatientMSE,
    RelationKL,
)
from tfdistill.losses.logits import kl_divergence, logit_mse, soft_cross_entropy
from tfdistill.losses.relations import relation_kl
from tfdistill.losses.vectors import (
    label_similarity,
    matryoshka,
    similarity_kl,
    vector_cosine,
    vector_mse,
)
from tfdistill.losses.words import MaskedWords, NextSentence, mlm_loss, nsp_loss, row_weights

__all__ = [
    "AttentionCrossEntropy",
    "AttentionKLDivergence",
    "AttentionScoreMSE",
    "CosineDistance",
    "FeatureMapMSE",
    "FeatureMeanMSE",
    "FeatureVarianceMAE",
    "GoldLabels",
    "HiddenStateMSE",
    "KLDivergence",
    "LabelSimilarity",
    "LayerLoss",
    "LogitMSE",
    "Loss",
    "MaskedWords",
    "ModelPair",
    "NamedProjection",
    "NextSentence",
    "PatientMSE",
    "RelationKL",
    "SimilarityKL",
    "SoftCrossEntropy",
    "StepInputs",
    "VectorCosine",
    "VectorMSE",
    "attention_cross_entropy",
    "attention_kl_divergence",
    "attention_score_mse",
    "balanced_weights",
    "build_losses",
    "cosine_distance",
    "describe_layer_map",
    "feature_map_mse",
    "feature_mean_mse",
    "feature_variance_mae",
    "gold_loss",
    "hidden_state_mse",
    "kl_divergence",
    "label_similarity",
    "layer_map",
    "logit_mse",
    "matryoshka",
    "mlm_loss",
    "nsp_loss",
    "patient_layer_map",
    "patient_mse",
    "relation_kl",
    "row_weights",
    "similarity_kl",
    "soft_cross_entropy",
    "soft_loss",
    "vector_cosine",
    "vector_mse",
]
