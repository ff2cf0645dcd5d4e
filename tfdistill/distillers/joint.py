"""Answers and hidden states at once, for a student that starts close to its teacher."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tf_keras as keras

from tfdistill import models
from tfdistill.distillers import combination


class JointDistiller(combination.CombinationDistiller):
    """Distils the teacher's answers and its hidden states in one stage.

    Three terms, with z the logits, B the examples of the batch, N its real tokens, t and s the
    hidden states after a layer, d the teacher's width, K the student's layers, g the layer map and
    P the identity or, where the widths differ, one Dense layer:

        answers = T^2 / B sum over b of KL(softmax(z_t / T) || softmax(z_s / T))
        hidden  = 1 / K sum over i < K of 1 / (N d) sum over tokens n of |P s_in - t_g(i)n|^2
        label   = cross entropy with the gold label, mean over the batch

    and ``loss = answers + hidden + 0 * label``; `compile(loss_weights=...)` changes the weights.
    Below T = 1, which sharpens a teacher, there is no factor T^2. If ``label`` has no weight, the
    batches need no labels.

    Args:
      teacher: The teacher, with a head; where there are no hidden states, any function from
        features to logits.
      student: The student, with a head of the same kind; see `structured.build_pruned_student`.
      objective: Of ``answers``: "kl_divergence", "soft_cross_entropy", or "logit_mse" (for a
        regression: the mean over outputs of squared differences; T is not used).
      temperature: T > 0.
      layer_map: "uniform", "top", "bottom" or a list, as for `objectives.layer_map`.
      hidden_states: Whether the term ``hidden`` is there.
      head: None for the student's own; "multi_label" where a classifier's classes exclude nothing.
      same_tokens: As for `TermDistiller`.
      seed: Seed of the dropout masks.
      name: The Keras name.

    Raises:
      ConfigError: If an option is unknown or out of range.
      ShapeError: If the student has more layers than the teacher, or another vocabulary.

    Reference: the prediction layer of Jiao et al. 2020, TinyBERT, equation 10, and its hidden
    states, equation 8, which are learnt there one after the other.
    """

    def __init__(
        self,
        teacher: keras.Model,
        student: keras.Model,
        *,
        objective: str = "kl_divergence",
        temperature: float = 1.0,
        layer_map: str | Sequence[int] = "uniform",
        hidden_states: bool = True,
        head: str | None = None,
        same_tokens: bool = True,
        seed: int = 0,
        name: str | None = None,
    ):
        """Describes the terms; see the class."""
        terms: dict[str, dict[str, Any]] = {
            "answers": {"objective": objective, "head": head},
            "label": {"objective": "label", "weight": 0.0, "head": head},
        }
        if objective != "logit_mse":
            # T^2 makes up for the smaller gradients above 1; below 1 it would silence the term.
            terms["answers"] |= {"temperature": temperature, "scale_by_t2": temperature >= 1}
        if hidden_states:
            terms["hidden"] = hidden_term(teacher, student, layer_map)
        super().__init__(
            teacher, student, terms=terms, same_tokens=same_tokens, seed=seed, name=name
        )


def hidden_term(
    teacher: keras.Model,
    student: keras.Model,
    layer_map: str | Sequence[int],
    *,
    weight: float = 1.0,
) -> dict[str, Any]:
    """The description of ``hidden``: the mean over layers, through one projection if need be."""
    theirs, ours = (models.config_of(model).hidden_size for model in (teacher, student))
    return {
        "objective": "hidden_state_mse",
        "weight": weight,
        "layer_map": layer_map,
        "over_layers": "mean",
        "projection": "none" if theirs == ours else "shared",
    }
