"""Any objectives together, described by plain values: the distiller of a recipe of your own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
import tf_keras as keras

from tfdistill import errors, models, objectives
from tfdistill.distillers import answers, base, checks, described, label, minilm, mlm, projections
from tfdistill.objectives import relations

MASKED_LM = "masked_lm"


class CombinationDistiller(base.Distiller):
    """Distils with any objectives, each described by plain values.

    ``terms`` maps the name of a term to its description, for example:

        {
            "scores": {"objective": "attention_score_mse", "layer_map": "uniform"},
            "states": {"objective": "hidden_state_mse", "layers": [[11, 3]],
                       "projection": "per_layer", "weight": 0.5},
            "values": {"objective": "relation_kl", "vectors": "values"},
            "answers": {"objective": "kl_divergence", "temperature": 4},
            "gold": {"objective": "label"},
        }

    The loss is ``sum over terms of weight * term``. Objectives and their options, with defaults:

    - attention_score_mse, attention_cross_entropy, attention_kl_divergence: layers,
      reduction (tokens).
    - hidden_state_mse, cosine_distance, feature_map_mse, feature_mean_mse,
      feature_variance_mae: layers, states (hidden_states; embeddings compares those and has no
      layers), reduction (tokens; cosine_distance has one only); hidden_state_mse also projection.
    - patient_mse: layers, projection, reduction (batch).
    - relation_kl: layers, vectors (values; queries, keys), num_relation_heads (as
      `MiniLmDistiller` chooses it), reduction (tokens).
    - soft_cross_entropy, kl_divergence, logit_mse, on what the head answers, for a masked
      language model on its predicted rows: temperature (1), scale_by_t2 (true), reduction (batch),
      head (the student's own); logit_mse only the last two.
    - label (`label.gold_loss`): head. mlm, nsp (`mlm.mlm_loss`, `mlm.nsp_loss`): none.

    Common options. ``weight`` (1), for every objective. ``layers``: pairs [teacher layer, student
    layer], from 0 or, negative, from the end; or ``layer_map``: uniform, top, bottom, skip, last or
    a list (`objectives.layer_map`, `patient_layer_map`). Without either: uniform; skip for
    patient_mse; both last layers for relation_kl. ``over_layers`` (sum, or mean): how the layers of
    a term are added up. ``projection`` (none, shared by the term's layers, or per_layer): Dense
    layers from the student's to the teacher's width.

    Args:
      teacher: The teacher, a model of `tfdistill.models`.
      student: The student; the same vocabulary.
      terms: The descriptions.
      seed: Seed of the dropout masks.
      name: The Keras name.

    Raises:
      ConfigError: If a description is not valid; the message lists every fault of all.
      ShapeError: If the vocabularies differ in size. What else does not fit, such as unequal
        heads, is refused by `compile`, for the terms that have a weight, all at once.
    """

    def __init__(
        self,
        teacher: keras.Model,
        student: keras.Model,
        *,
        terms: Mapping[str, Mapping[str, Any]],
        seed: int = 0,
        name: str | None = None,
    ):
        """Reads the descriptions and builds the projections; see the class."""
        theirs, ours = models.config_of(teacher), models.config_of(student)
        parsed = described.parse_terms(terms, theirs, ours)
        checks.check_same_vocabulary_size(teacher, student)
        learns_words = any(term.objective == "mlm" for term in parsed)
        super().__init__(
            teacher,
            student,
            terms={term.name: term.weight for term in parsed},
            reports={"mlm_accuracy": mlm.mlm_hits} if learns_words else None,
            seed=seed,
            name=name,
        )
        self._described = lambda: {term.name: term for term in parsed}  # Keras would wrap a dict
        self.projections: list[keras.layers.Layer] = []
        first: dict[str, int] = {}
        for term in parsed:
            first[term.name] = len(self.projections)
            self.projections += [
                projections.projection(ours.hidden_size, theirs.hidden_size, layer_name)
                for layer_name in _projection_names(term)
            ]
        self._first_projection = lambda: first

    def check_terms(self) -> None:
        """Every active term must fit the two models.

        Raises:
          ShapeError: If one does not, or a regression is asked for soft targets; the message lists
            all that do not.
        """
        faults = []
        for term in self.active_terms:
            for check in self._checks_of(self._described()[term]):
                try:
                    check()
                except (errors.ShapeError, errors.ConfigError) as fault:
                    faults.append(f"term {term!r}: {fault}")
        if faults:
            raise errors.ShapeError("\n".join(faults))

    def needs_only_logits(self) -> bool:
        """True where all active terms are about answers, but not those of a masked LM."""
        active = {self._described()[term].objective for term in self.active_terms}
        small = models.head_of(self.student) != MASKED_LM
        return small and active <= {*described.ANSWERS, "label"}

    def compute_terms(self, batch: base.StepInputs) -> dict[str, tf.Tensor]:
        """The active ones of the terms."""
        return {name: self._term(self._described()[name], batch) for name in self.active_terms}

    def _term(self, term: described.Term, batch: base.StepInputs) -> tf.Tensor:
        if term.objective in described.GOLD:
            if term.objective == "label":
                return label.gold_loss(batch, self._head(term))
            return {"mlm": mlm.mlm_loss, "nsp": mlm.nsp_loss}[term.objective](batch)
        if term.objective in described.ANSWERS:
            return self._answers(term, batch)
        losses = [
            self._layer_loss(term, place, source, layer, batch)
            for place, (source, layer) in enumerate(term.layers)
        ]
        total = tf.add_n(losses)
        return total / len(losses) if term.options["over_layers"] == "mean" else total

    def _answers(self, term: described.Term, batch: base.StepInputs) -> tf.Tensor:
        options = {key: value for key, value in term.options.items() if key != "head"}
        if models.head_of(self.student) == MASKED_LM:
            return getattr(objectives, term.objective)(
                batch.teacher["mlm_logits"],
                batch.student["mlm_logits"],
                sample_weight=mlm.row_weights(batch),
                **options,
            )
        return answers.soft_loss(
            batch.teacher["logits"],
            batch.student["logits"],
            batch,
            head=self._head(term),
            objective=term.objective,
            **options,
        )

    def _layer_loss(
        self, term: described.Term, place: int, source: int, layer: int, batch: base.StepInputs
    ) -> tf.Tensor:
        """A term's loss between one teacher and one student layer."""
        options = term.options
        compare = getattr(objectives, term.objective)
        if options.get("states") == "embeddings":
            teacher, student = batch.teacher["embeddings"], batch.student["embeddings"]
        else:
            tap = _tap_of(term)
            teacher, student = batch.teacher[tap][source], batch.student[tap][layer]
        chosen = {key: options[key] for key in ("reduction",) if key in options}
        if "projection" in options:
            chosen["projection"] = self._projection(term, place)
        if term.objective == "patient_mse":
            weights = {"sample_weight": batch.sample_weight}
            return compare(teacher[:, 0], student[:, 0], **weights, **chosen)
        if term.objective == "relation_kl":
            chosen["num_relation_heads"] = self._relation_heads(term)
        return compare(teacher, student, batch.mask, **chosen)

    def _projection(
        self, term: described.Term, place: int
    ) -> Callable[[tf.Tensor], tf.Tensor] | None:
        kind = term.options["projection"]
        if kind == "none":
            return None
        first = self._first_projection()[term.name]
        return self.projections[first + (place if kind == "per_layer" else 0)]

    def _relation_heads(self, term: described.Term) -> int:
        wanted = term.options["num_relation_heads"]
        return minilm.default_relation_heads(*self._configs()) if wanted is None else wanted

    def _head(self, term: described.Term) -> str:
        return answers.resolve_head(self.student, term.options["head"])

    def _configs(self) -> tuple[models.EncoderConfig, models.EncoderConfig]:
        assert self.teacher is not None
        return models.config_of(self.teacher), models.config_of(self.student)

    def _checks_of(self, term: described.Term) -> list[Callable[[], Any]]:
        """What must hold between the two models for a term."""
        teacher, student = self.teacher, self.student
        assert teacher is not None
        theirs, ours = self._configs()
        if term.objective in described.ATTENTION:
            remedy = "here {'objective': 'relation_kl'}."
            return [lambda: checks.check_same_heads(teacher, student, remedy)]
        if term.objective == "relation_kl":
            widths = theirs.attention_width, ours.attention_width
            return [lambda: relations.check_relation_heads(self._relation_heads(term), *widths)]
        if term.objective in described.LAYERED:
            if term.options.get("projection", "none") != "none":
                return []
            remedy = (
                "Give projection: per_layer, or shared."
                if "projection" in term.options
                else "It compares states as they are; hidden_state_mse can have a projection."
            )
            return [lambda: checks.check_same_width(teacher, student, remedy)]
        if term.objective in ("mlm", "nsp"):
            found = [lambda: mlm.check_masked_lm(student, "student")]
            if term.objective == "nsp":
                found.append(lambda: _check_nsp_head(student))
            return found
        if term.objective == "label":
            return [lambda: self._head(term)]
        if models.head_of(student) == MASKED_LM and term.options["head"] is None:
            return [lambda: mlm.check_masked_lm(teacher, "teacher")]
        return [
            lambda: checks.check_same_answers(teacher, student),
            lambda: checks.check_soft_targets(student, self._head(term), term.objective),
        ]


def _check_nsp_head(student: keras.Model) -> None:
    if not mlm.has_nsp_head(student):
        raise errors.ShapeError(
            errors.explain(
                "student",
                "a next-sentence head",
                "none",
                "Build it with build_masked_lm(..., next_sentence=True).",
            )
        )


def _tap_of(term: described.Term) -> str:
    """What `models.taps` calls the tensors that a term is about."""
    if term.objective in described.ATTENTION:
        return "attention_scores"
    return term.options["vectors"] if term.objective == "relation_kl" else "hidden_states"


def _projection_names(term: described.Term) -> list[str]:
    kind = term.options.get("projection", "none")
    if kind == "per_layer":
        return [f"{term.name}_projection_{place}" for place in range(len(term.layers))]
    return [f"{term.name}_projection"] if kind == "shared" else []
