"""TinyBERT: attention scores, hidden states and predictions, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import tf_keras as keras

from tfdistill import models
from tfdistill.distillers import base
from tfdistill.losses import answers, checks, methods
from tfdistill.losses.base import LayerMap


class TinyBertDistiller(base.Distiller):
    """Distils with TinyBERT's losses.

    Stages ``general`` (a plain corpus, a teacher that is not fine-tuned) and ``intermediate``
    (task text, a fine-tuned teacher), with g the layer map and M the student's layers:

        attention = sum over m of w_m * MSE(teacher scores g(m), student scores m)
        embedding = MSE(teacher embeddings, student embeddings W + b)
        hidden    = sum over m of w_m * MSE(teacher states g(m), student states m W + b)

    Each MSE is a mean over real tokens (pairs of them for the scores). Stage ``prediction``:

        logits = -softmax(z_t / T) . log_softmax(z_s / T), mean over the batch
        label  = cross entropy with the gold label, off unless it is given a weight

    With one output (regression) there is ``label`` alone, the MSE to the gold label, as published.
    Heads over tokens and spans and several labels at once: see `losses.soft_loss`,
    `losses.gold_loss`.

    Args:
      teacher: The teacher, a model of `tfdistill.models`; in the prediction stage also any function
        that returns logits.
      student: The student; as many heads as the teacher where attention is learnt.
      stage: "general", "intermediate" or "prediction".
      layer_map: "uniform", "top", "bottom" or the teacher layer (0-based) of each student layer.
      projection: "shared" (one Dense for all states, as published first), "per_layer" (one for
        the embeddings and each layer, as in the second checkpoints) or "none" (equal widths).
      layer_weights: Weights by term: "attention" and "hidden" take one per student layer; all 1
        when left out.
      objective: "soft_cross_entropy", "kl_divergence" or "logit_mse".
      temperature: T of the prediction stage.
      head: None for the student's own; "multi_label" where a classifier's classes exclude nothing.
      reduction: "tokens", or "reference" for the published code's means (see `objectives`).
      same_tokens: As for `Distiller`.
      seed: Seed of the dropout masks.
      name: The Keras name.

    Raises:
      ConfigError: If an option is unknown or out of range.
      ShapeError: If teacher and student cannot be compared (unequal heads are refused by
        `compile`, and only where attention is learnt).

    Reference: Jiao et al. 2020, TinyBERT, equations 7 to 11.
    """

    def __init__(
        self,
        teacher: keras.Model,
        student: keras.Model,
        *,
        stage: methods.Stage = "intermediate",
        layer_map: LayerMap = "uniform",
        projection: Literal["shared", "per_layer", "none"] = "shared",
        layer_weights: Mapping[str, Sequence[float]] | None = None,
        objective: str = "soft_cross_entropy",
        temperature: float = 1.0,
        head: str | None = None,
        reduction: Literal["tokens", "reference"] = "tokens",
        same_tokens: bool = True,
        seed: int = 0,
        name: str | None = None,
    ):
        """Checks that the pair fits; see the class."""
        regression = answers.answers_number(student, head)
        losses = methods.tinybert(
            stage,
            layers=layer_map,
            projection=projection,
            layer_weights=layer_weights,
            objective=objective,
            temperature=temperature,
            head=head,
            reduction=reduction,
            regression=regression,
        )
        if stage == "prediction":
            answers.check_answers(teacher, student, head, "logit_mse" if regression else objective)
        elif projection == "none":
            checks.check_equal(
                "student width with projection='none'",
                models.config_of(teacher).hidden_size,
                models.config_of(student).hidden_size,
                "Use 'shared' or 'per_layer'.",
            )
        super().__init__(teacher, student, losses, same_tokens=same_tokens, seed=seed, name=name)
        self.stage = stage
