"""Answers and hidden states at once, for a student that starts close to its teacher."""

from __future__ import annotations

from typing import Any

import tf_keras as keras

from tfdistill.distillers.method import MethodDistiller
from tfdistill.losses import methods


class JointDistiller(MethodDistiller, method=methods.joint):
    """Distils the teacher's answers and its hidden states in one stage.

    Three terms, with z the logits, B the examples of the batch, N its real tokens, t and s the
    hidden states after a layer, d the teacher's width, K the student's layers, g the layer map and
    P the identity or, where the widths differ, one Dense layer:

        logits = T^2 / B sum over b of KL(softmax(z_t / T) || softmax(z_s / T))
        hidden = 1 / K sum over i < K of 1 / (N d) sum over tokens n of |P s_in - t_g(i)n|^2
        label  = cross entropy with the gold label, mean over the batch

    and ``loss = logits + hidden + 0 * label``; `compile(loss_weights=...)` changes the weights.
    Below T = 1, which sharpens a teacher, there is no factor T^2. If ``label`` has no weight, the
    batches need no labels.

    Args:
      teacher: The teacher, with a head; where there are no hidden states, any function from
        features to logits.
      student: The student, with a head of the same kind; see `tfdistill.build_student`.
      same_tokens: As for `Distiller`.
      seed: Seed of the dropout masks.
      name: The Keras name.

    Keyword Args:
      objective (str): Of ``logits``: "kl_divergence", "soft_cross_entropy", or "logit_mse" (for a
        regression: the mean over outputs of squared differences; T is not used).
      temperature (float): T > 0.
      layer_map (str | Sequence[int]): "uniform", "top", "bottom" or a list, as for
        `losses.layer_map`.
      hidden_states (bool): Whether the term ``hidden`` is there.
      head (str | None): None for the student's own; "multi_label" where a classifier's classes
        exclude nothing.

    Raises:
      ConfigError: If an option is unknown or out of range.
      ShapeError: If the student has more layers than the teacher, or another vocabulary.

    Examples:
      >>> distiller = tfdistill.JointDistiller(teacher, student, temperature=2.0)
      >>> distiller.compile(tfdistill.adamw(1e-3), loss_weights={"hidden": 0.1})
      >>> distiller.active_terms
      ('logits', 'hidden')

    Reference: the prediction layer of Jiao et al. 2020, TinyBERT, equation 10, and its hidden
    states, equation 8, which are learnt there one after the other.
    """

    @staticmethod
    def losses_of(teacher: keras.Model, student: keras.Model, **options: Any) -> methods.Losses:
        """Builds the losses; see the class."""
        return methods.joint(**options)
