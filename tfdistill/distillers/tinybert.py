"""TinyBERT: attention scores, hidden states and predictions, stage by stage."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

import tf_keras as keras

from tfdistill import errors, models, objectives
from tfdistill.distillers import answers, checks, terms

Stage = Literal["general", "intermediate", "prediction"]
STAGES: tuple[Stage, ...] = ("general", "intermediate", "prediction")


class TinyBertDistiller(terms.TermDistiller):
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
    over tokens and spans and several labels at once: see `answers.soft_loss`, `answers.gold_loss`.

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
      prediction: "soft_cross_entropy", "kl_divergence" or "logit_mse".
      temperature: T of the prediction stage.
      head: None for the student's own; "multi_label" where a classifier's classes exclude nothing.
      reduction: "tokens", or "reference" for the published code's means (see `objectives`).
      same_tokens: As for `TermDistiller`.
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
        same_tokens: bool = True,
        seed: int = 0,
        name: str | None = None,
    ):
        """Checks that the pair fits; see the class."""
        checks.check_choice("stage", stage, STAGES)
        checks.check_choice("projection", projection, ("shared", "per_layer", "none"))
        checks.check_choice("prediction", prediction, answers.OBJECTIVES)
        checks.check_choice("reduction", reduction, ("tokens", "reference"))
        ours = models.config_of(student)
        weights = _checked_layer_weights(layer_weights or {}, ours.num_layers)
        mapped: tuple[int, ...] = ()
        if stage == "prediction":
            described = _prediction_terms(
                teacher, student, head, prediction, temperature, reduction
            )
        else:
            theirs = models.config_of(teacher)
            mapped = objectives.layer_map(theirs.num_layers, ours.num_layers, layer_map)
            names = _projection_names(projection, theirs, ours)
            options = {"reduction": reduction}
            layers = tuple((source, layer) for layer, source in enumerate(mapped))
            described = {
                "attention": terms.Term(
                    "attention_score_mse",
                    options=options,
                    layers=layers,
                    tap="attention_scores",
                    layer_weights=weights["attention"],
                ),
                "embedding": terms.Term(
                    "hidden_state_mse",
                    options=options,
                    layers=((0, 0),),
                    tap="embeddings",
                    projections=names[:1],
                ),
                "hidden": terms.Term(
                    "hidden_state_mse",
                    options=options,
                    layers=layers,
                    layer_weights=weights["hidden"],
                    projections=names[1:],
                ),
            }
        super().__init__(
            teacher, student, terms=described, same_tokens=same_tokens, seed=seed, name=name
        )
        self.stage = stage
        self.layer_map = mapped


def _prediction_terms(
    teacher: keras.Model,
    student: keras.Model,
    head: str | None,
    objective: str,
    temperature: float,
    reduction: str,
) -> dict[str, terms.Term]:
    """The terms of the prediction stage."""
    one_output = (models.head_of(student), models.num_labels_of(student)) == ("sequence", 1)
    regression = one_output and head in (None, "sequence")
    options = {
        "temperature": temperature,
        "reduction": "reference" if reduction == "reference" else "batch",
    }
    compared = "logit_mse" if regression else objective
    head = answers.check_answers(teacher, student, head, compared, **options)
    gold = terms.Term("label", head=head)
    soft = gold if regression else terms.Term(objective, 1.0, options, head=head)
    return {"prediction": soft, "label": dataclasses.replace(gold, weight=0.0)}


def _checked_layer_weights(
    weights: Mapping[str, Sequence[float]], num_layers: int
) -> dict[str, tuple[float, ...]]:
    for term, values in weights.items():
        checks.check_choice("layer_weights", term, ("attention", "hidden"))
        in_range = all(0 <= value < float("inf") for value in values)
        if len(values) != num_layers or not in_range or not any(values):
            raise errors.ConfigError(
                f"layer_weights[{term!r}]",
                f"{num_layers} numbers, one per student layer, finite, >= 0, not all 0",
                tuple(values),
                f"loss_weights={{{term!r}: 0}} switches the whole term off.",
            )
    ones = (1.0,) * num_layers
    return {term: tuple(weights.get(term, ones)) for term in ("attention", "hidden")}


def _projection_names(
    kind: str, teacher: models.EncoderConfig, student: models.EncoderConfig
) -> tuple[str, ...]:
    """The projection of each state: 0 is the embeddings, m + 1 the output of layer m."""
    if kind == "shared":
        return ("hidden_projection",) * (student.num_layers + 1)
    if kind == "per_layer":
        return tuple(f"hidden_projection_{state}" for state in range(student.num_layers + 1))
    if teacher.hidden_size != student.hidden_size:
        raise errors.ShapeError(
            "projection='none'",
            "equal widths",
            f"{teacher.hidden_size} and {student.hidden_size}",
            "Use 'shared' or 'per_layer'.",
        )
    return ()
