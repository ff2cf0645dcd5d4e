"""What a student is asked to match: pure functions from (teacher, student, mask) to a scalar.

Objectives on tokens take ``(teacher, student, mask, *, ...)``, objectives on logits take
``(teacher_logits, student_logits, *, ...)``. All of them compute in float32 whatever comes in,
send no gradient to the teacher or to the mask, and keep no state.
"""

from tfdistill.objectives.attention import attention_score_mse
from tfdistill.objectives.hidden import cosine_distance, hidden_state_mse
from tfdistill.objectives.layer_map import describe_layer_map, layer_map
from tfdistill.objectives.logits import kl_divergence, logit_mse, soft_cross_entropy

__all__ = [
    "attention_score_mse",
    "cosine_distance",
    "describe_layer_map",
    "hidden_state_mse",
    "kl_divergence",
    "layer_map",
    "logit_mse",
    "soft_cross_entropy",
]
