"""TinyBERT: attention scores, hidden states and predictions, stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import tensorflow as tf
import tf_keras as keras

from tfdistill import errors, models, objectives
from tfdistill.distillers import answers, base, checks, label, projections

Stage = Literal["general", "intermediate", "prediction"]
STAGES: tuple[Stage, ...] = ("general", "intermediate", "prediction")
_LAYER_TERMS = {"attention": 1.0, "embedding": 1.0, "hidden": 1.0}
_PREDICTION_TERMS = {"prediction": 1.0, "label": 0.0}
PREDICTION_OBJECTIVES = answers.OBJECTIVES


class TinyBertDistiller(base.Distiller):
    """Distils with TinyBERT's losses.

    Stages ``general`` (a plain corpus, a teacher that is not fine-tuned) and ``intermediate``
    (task text, a fine-tuned teacher), with g the layer map and M the student's layers:

        attention = sum over m of w_m * MSE(teacher scores g(m), student scores m)
        embedding = MSE(teacher embeddings, student embeddings W + b)
        hidden    = sum over m of w_m * MSE(teacher states g(m), student states m W + b)

    Each MSE is a mean over real tokens (pairs of them for the scores). Stage ``prediction``:

        prediction = -softmax(z_t / T) . log_softmax(z_s / T), mean over the batch
        label      = cross entropy with the gold label, off unless it is given a weight

    With one output (regression) ``prediction`` is the MSE to the gold label, as published. Heads
    over tokens and spans and several labels at once: see `answers.soft_loss`, `label.gold_loss`.

    Args:
      teacher: The teacher, a model of `tfdistill.models`.
      student: The student; as many heads as the teacher where attention is learnt.
      stage: "general", "intermediate" or "prediction".
      layer_map: "uniform", "top", "bottom" or the teacher layer (0-based) of each student layer.
      projection: "shared" (one Dense for all states, as published first), "per_layer" (one for
        the embeddings and each layer, as in the second checkpoints) or "none" (equal widths).
      layer_weights: Weights by term: "attention" and "hidden" take one per student layer; all 1
        when left out.
      prediction: "soft_cross_entropy", "kl_divergence" or "logit_mse".
      temperature: T of the prediction stage.
      head: None for the student's own; "multi_label" where a classifier's classes exclude nothing.
      reduction: "tokens", or "reference" for the published code's means (see `objectives`).
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
        stage: Stage = "intermediate",
        layer_map: str | Sequence[int] = "uniform",
        projection: Literal["shared", "per_layer", "none"] = "shared",
        layer_weights: Mapping[str, Sequence[float]] | None = None,
        prediction: str = "soft_cross_entropy",
        temperature: float = 1.0,
        head: str | None = None,
        reduction: Literal["tokens", "reference"] = "tokens",
        seed: int = 0,
        name: str | None = None,
    ):
        """Checks that the pair fits and builds the projections; see the class."""
        checks.check_choice("stage", stage, STAGES)
        checks.check_choice("projection", projection, ("shared", "per_layer", "none"))
        checks.check_choice("prediction", prediction, PREDICTION_OBJECTIVES)
        checks.check_choice("reduction", reduction, ("tokens", "reference"))
        predicts = stage == "prediction"
        super().__init__(
            teacher,
            student,
            terms=_PREDICTION_TERMS if predicts else _LAYER_TERMS,
            seed=seed,
            name=name,
        )
        self.stage = stage
        self._prediction = prediction
        self._head = ""
        self._temperature = temperature
        self._reduction = reduction
        theirs, ours = models.config_of(teacher), models.config_of(student)
        checks.check_same_vocabulary_size(teacher, student)
        self._layer_weights = _checked_layer_weights(layer_weights or {}, ours.num_layers)
        if predicts:
            checks.check_same_answers(teacher, student)
            self._head = answers.resolve_head(student, head)
            checks.check_number("temperature", temperature, above=0)
            self.layer_map: tuple[int, ...] = ()
            self.projections: list[keras.layers.Layer] = []
        else:
            self.layer_map = objectives.layer_map(theirs.num_layers, ours.num_layers, layer_map)
            self.projections = _projections(projection, theirs, ours)

    def check_terms(self) -> None:
        """Attention scores are compared head by head.

        Raises:
          ShapeError: If attention is learnt and the numbers of heads differ.
        """
        if "attention" in self.active_terms:
            assert self.teacher is not None
            remedy = "or learn without attention (loss_weights={'attention': 0})."
            checks.check_same_heads(self.teacher, self.student, remedy)

    def needs_only_logits(self) -> bool:
        """True in the prediction stage."""
        return self.stage == "prediction"

    def projection(self, state: int) -> Callable[[tf.Tensor], tf.Tensor] | None:
        """The projection of a state: 0 is the embeddings, m the output of layer m."""
        if not self.projections:
            return None
        return self.projections[state if len(self.projections) > 1 else 0]

    def compute_terms(self, batch: base.StepInputs) -> dict[str, tf.Tensor]:
        """The terms of the stage; see the class."""
        if self.stage == "prediction":
            return self._prediction_terms(batch)
        terms: dict[str, tf.Tensor] = {}
        teacher, student = batch.teacher, batch.student
        if "attention" in self.active_terms:
            terms["attention"] = self._sum_over_layers(
                "attention",
                lambda layer, source: objectives.attention_score_mse(
                    teacher["attention_scores"][source],
                    student["attention_scores"][layer],
                    batch.mask,
                    reduction=self._reduction,
                ),
            )
        if "embedding" in self.active_terms:
            terms["embedding"] = self._hidden_mse(
                teacher["embeddings"], student["embeddings"], batch.mask, state=0
            )
        if "hidden" in self.active_terms:
            terms["hidden"] = self._sum_over_layers(
                "hidden",
                lambda layer, source: self._hidden_mse(
                    teacher["hidden_states"][source],
                    student["hidden_states"][layer],
                    batch.mask,
                    state=layer + 1,
                ),
            )
        return terms

    def _hidden_mse(
        self, teacher: tf.Tensor, student: tf.Tensor, mask: tf.Tensor, *, state: int
    ) -> tf.Tensor:
        return objectives.hidden_state_mse(
            teacher,
            student,
            mask,
            projection=self.projection(state),
            reduction=self._reduction,
        )

    def _sum_over_layers(self, term: str, loss: Callable[[int, int], tf.Tensor]) -> tf.Tensor:
        weights = self._layer_weights[term]
        return tf.add_n(
            [
                weights[layer] * loss(layer, source)
                for layer, source in enumerate(self.layer_map)
                if weights[layer] != 0
            ]
        )

    def _prediction_terms(self, batch: base.StepInputs) -> dict[str, tf.Tensor]:
        logits = batch.student["logits"]
        terms: dict[str, tf.Tensor] = {}
        if "prediction" in self.active_terms:
            if self._head == "sequence" and logits.shape[-1] == 1:
                terms["prediction"] = label.gold_loss(batch)
            else:
                terms["prediction"] = answers.soft_loss(
                    batch.teacher["logits"],
                    logits,
                    batch,
                    head=self._head,
                    objective=self._prediction,
                    temperature=self._temperature,
                    reduction="reference" if self._reduction == "reference" else "batch",
                )
        if "label" in self.active_terms:
            terms["label"] = label.gold_loss(batch, self._head)
        return terms


def _checked_layer_weights(
    weights: Mapping[str, Sequence[float]], num_layers: int
) -> dict[str, tuple[float, ...]]:
    for term, values in weights.items():
        checks.check_choice("layer_weights", term, ("attention", "hidden"))
        in_range = all(0 <= value < float("inf") for value in values)
        if len(values) != num_layers or not in_range or not any(values):
            raise errors.ConfigError(
                errors.explain(
                    f"layer_weights[{term!r}]",
                    f"{num_layers} numbers, one per student layer, finite, >= 0, not all 0",
                    tuple(values),
                    f"loss_weights={{{term!r}: 0}} switches the whole term off.",
                )
            )
    ones = (1.0,) * num_layers
    return {term: tuple(weights.get(term, ones)) for term in ("attention", "hidden")}


def _projections(
    kind: str, teacher: models.EncoderConfig, student: models.EncoderConfig
) -> list[keras.layers.Layer]:
    if kind == "none":
        if teacher.hidden_size != student.hidden_size:
            raise errors.ShapeError(
                errors.explain(
                    "projection='none'",
                    "equal widths",
                    f"{teacher.hidden_size} and {student.hidden_size}",
                    "Use 'shared' or 'per_layer'.",
                )
            )
        return []
    count = 1 if kind == "shared" else student.num_layers + 1
    return [
        projections.projection(
            student.hidden_size,
            teacher.hidden_size,
            "hidden_projection" if count == 1 else f"hidden_projection_{index}",
        )
        for index in range(count)
    ]
