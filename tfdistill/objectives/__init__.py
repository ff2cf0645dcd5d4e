"""What a student is asked to match: pure functions from (teacher, student, mask) to a scalar.

Objectives on tokens take ``(teacher, student, mask, *, ...)``, objectives on logits take
``(teacher_logits, student_logits, *, ...)``, those on the vectors of texts ``(teacher, student)``
or, of pairs, ``(first, second)``. All of them compute in float32 whatever comes in, send no
gradient to the teacher or to the mask, and keep no state.
"""

from tfdistill.objectives.attention import (
    attention_cross_entropy,
    attention_kl_divergence,
    attention_score_mse,
)
from tfdistill.objectives.features import (
    feature_map_mse,
    feature_mean_mse,
    feature_variance_mae,
)
from tfdistill.objectives.hidden import cosine_distance, hidden_state_mse
from tfdistill.objectives.layer_map import describe_layer_map, layer_map
from tfdistill.objectives.logits import kl_divergence, logit_mse, soft_cross_entropy
from tfdistill.objectives.patient import patient_mse
from tfdistill.objectives.relations import relation_kl
from tfdistill.objectives.vectors import (
    matryoshka,
    ranking_cross_entropy,
    similarity_kl,
    similarity_mse,
    vector_cosine,
    vector_mse,
)

__all__ = [
    "attention_cross_entropy",
    "attention_kl_divergence",
    "attention_score_mse",
    "cosine_distance",
    "describe_layer_map",
    "feature_map_mse",
    "feature_mean_mse",
    "feature_variance_mae",
    "hidden_state_mse",
    "kl_divergence",
    "layer_map",
    "logit_mse",
    "matryoshka",
    "patient_mse",
    "ranking_cross_entropy",
    "relation_kl",
    "similarity_kl",
    "similarity_mse",
    "soft_cross_entropy",
    "vector_cosine",
    "vector_mse",
]
