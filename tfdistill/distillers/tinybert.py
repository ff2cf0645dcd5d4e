"""TinyBERT: attention scores, hidden states and predictions, stage by stage."""

from __future__ import annotations

from typing import Any

import tf_keras as keras

from tfdistill import models
from tfdistill.distillers.method import MethodDistiller
from tfdistill.losses import answers, checks, methods


class TinyBertDistiller(MethodDistiller, method=methods.tinybert):
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
      same_tokens: As for `Distiller`.
      seed: Seed of the dropout masks.
      name: The Keras name.

    Keyword Args:
      stage (str): "general", "intermediate" or "prediction".
      layer_map (str | Sequence[int]): "uniform", "top", "bottom" or the teacher layer (0-based) of
        each student layer.
      projection (str): "shared" (one Dense for all states, as published first), "per_layer" (one
        for the embeddings and each layer, as in the second checkpoints) or "none" (equal widths).
      layer_weights (Mapping[str, Sequence[float]] | None): Weights by term: "attention" and
        "hidden" take one per student layer; all 1 when left out.
      objective (str): "soft_cross_entropy", "kl_divergence" or "logit_mse".
      temperature (float): T of the prediction stage.
      head (str | None): None for the student's own; "multi_label" where a classifier's classes
        exclude nothing.
      reduction (str): "tokens", or "reference" for the published code's means (see `objectives`).

    Raises:
      ConfigError: If an option is unknown or out of range.
      ShapeError: If teacher and student cannot be compared (unequal heads are refused by
        `compile`, and only where attention is learnt).

    Examples:
      >>> tfdistill.TinyBertDistiller(teacher, student, stage="intermediate").terms
      ('attention', 'embedding', 'hidden')
      >>> tfdistill.TinyBertDistiller(teacher, student, stage="prediction").terms
      ('logits', 'label')

    Reference: Jiao et al. 2020, TinyBERT, equations 7 to 11.
    """

    @classmethod
    def losses_of(
        cls, teacher: keras.Model, student: keras.Model, **options: Any
    ) -> methods.Losses:
        """Builds the losses of the stage, and checks that the pair fits; see the class."""
        head, objective = options["head"], options["objective"]
        regression = answers.answers_number(student, head)
        losses = methods.tinybert(**options, regression=regression)
        if options["stage"] == "prediction":
            answers.check_answers(teacher, student, head, "logit_mse" if regression else objective)
        elif options["projection"] == "none":
            checks.check_equal(
                "student width with projection='none'",
                models.config_of(teacher).hidden_size,
                models.config_of(student).hidden_size,
                "Use 'shared' or 'per_layer'.",
            )
        return losses
