"""The distillation engine: a loss is a set of terms, and a term is a value that describes it."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfdistill import errors, models, objectives
from tfdistill.distillers import answers, base, checks, mlm
from tfdistill.distillers.batch import StepInputs
from tfdistill.objectives import relations

ATTENTION = ("attention_score_mse", "attention_cross_entropy", "attention_kl_divergence")
FEATURES = ("feature_map_mse", "feature_mean_mse", "feature_variance_mae")
STATES = ("hidden_state_mse", "cosine_distance", *FEATURES)
LAYERED = (*ATTENTION, *STATES, "patient_mse", "relation_kl")
ANSWERS = answers.OBJECTIVES
VECTORS = ("vector_mse", "vector_cosine", "similarity_kl")
WORDS = ("mlm", "nsp")
MASKED_LM = "masked_lm"


@dataclasses.dataclass(frozen=True)
class Term:
    """One term of a loss: an objective, the tensors that it compares, and its weight.

    The value of a term over layers is ``sum over pairs p of layer_weights[p] * objective(p)``, or
    that sum divided by the number of pairs.

    Attributes:
      objective: A function of `tfdistill.objectives`, or "label" (`answers.gold_loss`), "mlm" or
        "nsp" (`mlm.mlm_loss`, `mlm.nsp_loss`).
      weight: The weight in the loss unless `compile` sets another.
      options: Keyword arguments of the objective, such as reduction or temperature.
      layers: (teacher layer, student layer) of each pair that a term over layers compares.
      tap: The output of `models.taps` that it compares; "embeddings" has one pair, (0, 0).
      layer_weights: A weight for each pair, or () for 1 each. A pair of weight 0 is not computed.
      over_layers: "sum" or "mean".
      projections: For each pair the name of the Dense layer that maps the student's states to the
        teacher's width, or () for none. Pairs and terms that share a name share the layer. Vectors
        are one pair.
      head: The kind of answers; None for that of the student's head.
      rows: The rows of a masked LM's answers that count: all "predicted" ones, the "masked" ones
        among them, or "all" real tokens, which must all be predicted.
    """

    objective: str
    weight: float = 1.0
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    layers: tuple[tuple[int, int], ...] = ()
    tap: str = "hidden_states"
    layer_weights: tuple[float, ...] = ()
    over_layers: Literal["sum", "mean"] = "sum"
    projections: tuple[str, ...] = ()
    head: str | None = None
    rows: Literal["predicted", "masked", "all"] = "predicted"


class TermDistiller(base.Distiller):
    """Trains a student on described terms: the one mechanism under every method.

    The methods of this package are subclasses that translate their arguments to terms. Where a term
    has the reduction "reference", which counts padding, the word vector of [PAD] stays as it is, as
    with the published code's ``padding_idx``. The log
    has ``mlm_accuracy`` (`mlm.mlm_hits`) where a term is "mlm".

    Args:
      teacher: The teacher, a model of `tfdistill.models`, or None for terms without one.
      student: The student; the same vocabulary.
      terms: Name -> term.
      same_tokens: Whether both read the same ids. Otherwise the batches hold the student's and
        bring the teacher's logits along, which must be all that it is compared with.
      vector_width: Width of the vectors of a teacher that is a function; None: the student's.
      seed: Seed of the dropout masks.
      name: The Keras name.

    Raises:
      ShapeError: If the vocabularies differ in size. `compile` refuses all else that does not fit.
    """

    def __init__(
        self,
        teacher: keras.Model | None,
        student: keras.Model,
        *,
        terms: Mapping[str, Term],
        same_tokens: bool = True,
        vector_width: int | None = None,
        seed: int = 0,
        name: str | None = None,
    ):
        """Builds the projections; see the class."""
        if isinstance(teacher, keras.Model) and same_tokens:
            checks.check_equal(
                "student vocabulary",
                models.config_of(teacher).vocab_size,
                models.config_of(student).vocab_size,
                "Both models read the same ids. Use build_student(..., vocab_size=...); "
                "data.vocab.check_same_vocabulary compares two vocab.txt token by token.",
                unit="rows ",
            )
        published = any(term.options.get("reduction") == "reference" for term in terms.values())
        learns_words = any(term.objective == "mlm" for term in terms.values())
        super().__init__(
            teacher,
            student,
            terms={name: term.weight for name, term in terms.items()},
            metrics={"mlm_accuracy": mlm.mlm_hits} if learns_words else None,
            learns_padding=not published,
            seed=seed,
            name=name,
        )
        self._described = types.MappingProxyType(dict(terms))  # Keras would wrap a dict
        self._vector_width = vector_width
        self._class_weights: np.ndarray | None = None
        of_vectors = {
            name: term.objective in VECTORS for term in terms.values() for name in term.projections
        }
        self.projections: list[keras.layers.Layer] = []
        for name, compares_vectors in of_vectors.items():
            assert teacher is not None
            if compares_vectors:
                widths = models.num_labels_of(student), self._answer_width()
            else:
                widths = (
                    models.config_of(student).hidden_size,
                    models.config_of(teacher).hidden_size,
                )
            self.projections.append(_projection(*widths, name))

    def weigh_classes(self, class_weights: np.ndarray) -> None:
        """Weighs the examples of terms on gold labels by their classes; call it before `fit`.

        Other terms compare two models and keep the sample weights alone.

        Args:
          class_weights: float (labels,), such as `balanced_weights` gives; see `gold_loss`.

        Raises:
          ConfigError: If the head is not that of a classifier of sequences.
          ShapeError: If there is not one finite weight above 0 for each of its labels.
        """
        head, width = models.head_of(self.student), models.num_labels_of(self.student)
        several = any(term.head == "multi_label" for term in self._described.values())
        if head != "sequence" or width == 1 or several:
            raise errors.ConfigError("class weights", "a classifier with one label a text", head)
        weights = np.asarray(class_weights, np.float32)
        if weights.shape != (width,) or not (np.isfinite(weights) & (weights > 0)).all():
            raise errors.ShapeError("class weights", f"{width} numbers above 0", weights.tolist())
        self._class_weights = weights

    def _answer_width(self) -> int | None:
        if isinstance(self.teacher, keras.Model):
            return models.num_labels_of(self.teacher)
        return self._vector_width or super()._answer_width()

    def needs_only_logits(self) -> bool:
        """True where all active terms compare answers, but not those of a masked LM."""
        active = {self._described[name].objective for name in self.active_terms}
        has_logits = self.teacher is not None and models.head_of(self.student) != MASKED_LM
        return has_logits and active <= {*ANSWERS, *VECTORS, "label"}

    def check_terms(self) -> None:
        """Every active term must fit the two models.

        Raises:
          ShapeError: If one does not, or a regression is asked for soft targets; the message lists
            all that do not.
        """
        faults = []
        for name in self.active_terms:
            try:
                self._check_term(name, self._described[name])
            except (errors.ShapeError, errors.ConfigError) as fault:
                faults.append(f"term {name!r}: {fault}")
        if faults:
            raise errors.ShapeError("\n".join(faults))

    def compute_terms(self, batch: StepInputs) -> dict[str, tf.Tensor]:
        """The active ones of the terms."""
        return {name: self._term(self._described[name], batch) for name in self.active_terms}

    def _term(self, term: Term, batch: StepInputs) -> tf.Tensor:
        if term.objective == "mlm":
            return mlm.mlm_loss(batch)
        if term.objective == "nsp":
            return mlm.nsp_loss(batch)
        if term.objective == "label":
            head = answers.resolve_head(self.student, term.head)
            return answers.gold_loss(batch, head, self._class_weights)
        if term.objective in VECTORS:
            return self._vectors(term, batch)
        if term.objective not in ANSWERS:
            return self._over_layers(term, batch)
        if models.head_of(self.student) == MASKED_LM:
            return getattr(objectives, term.objective)(
                batch.teacher["mlm_logits"],  # (N, vocabulary)
                batch.student["mlm_logits"],
                sample_weight=mlm.row_weights(batch, term.rows),
                **term.options,
            )
        return answers.soft_loss(
            batch.teacher["logits"],
            batch.student["logits"],
            batch,
            head=answers.resolve_head(self.student, term.head),
            objective=term.objective,
            **term.options,
        )

    def _vectors(self, term: Term, batch: StepInputs) -> tf.Tensor:
        options = dict(term.options)
        if term.projections:
            options["projection"] = self._projection_of(term.projections[0])
        return getattr(objectives, term.objective)(
            batch.teacher["logits"],
            batch.student["logits"],  # (batch, width)
            sample_weight=batch.sample_weight,
            **options,
        )

    def _projection_of(self, name: str) -> keras.layers.Layer:
        return next(layer for layer in self.projections if layer.name == name)

    def _over_layers(self, term: Term, batch: StepInputs) -> tf.Tensor:
        if term.layer_weights:
            weights = enumerate(term.layer_weights)
            values = [w * self._pair(term, index, batch) for index, w in weights if w != 0]
        else:
            values = [self._pair(term, index, batch) for index in range(len(term.layers))]
        total = tf.add_n(values)
        return total / len(term.layers) if term.over_layers == "mean" else total

    def _pair(self, term: Term, index: int, batch: StepInputs) -> tf.Tensor:
        """A term's objective between one teacher and one student layer."""
        teacher, student = batch.teacher[term.tap], batch.student[term.tap]
        if term.tap != "embeddings":
            source, layer = term.layers[index]
            teacher, student = teacher[source], student[layer]
        options = dict(term.options)
        if term.projections:
            options["projection"] = self._projection_of(term.projections[index])
        compare: Callable[..., tf.Tensor] = getattr(objectives, term.objective)
        if term.objective == "patient_mse":  # [CLS] alone
            weight = batch.sample_weight
            return compare(teacher[:, 0], student[:, 0], sample_weight=weight, **options)
        return compare(teacher, student, batch.mask, **options)

    def _check_term(self, name: str, term: Term) -> None:
        """Refuses a term that the two models cannot have."""
        if term.objective in WORDS:
            mlm.check_masked_lm(self.student, "student", next_sentence=term.objective == "nsp")
        elif term.objective == "label":
            answers.resolve_head(self.student, term.head)
        elif term.objective in VECTORS:
            self._check_vectors(term)
        elif term.objective in ANSWERS:
            assert self.teacher is not None
            if models.head_of(self.student) == MASKED_LM and term.head is None:
                mlm.check_masked_lm(self.teacher, "teacher")
            else:
                answers.check_answers(self.teacher, self.student, term.head, term.objective)
        else:
            self._check_layers(name, term)

    def _check_vectors(self, term: Term) -> None:
        assert self.teacher is not None
        for model, role in ((self.teacher, "teacher"), (self.student, "student")):
            if isinstance(model, keras.Model) and models.head_of(model) != "embedding":
                raise errors.ShapeError(
                    role,
                    "a sentence encoder",
                    f"a model with the head {models.head_of(model)!r}",
                    "models.build_embedder builds one, weights.load_embedder loads one.",
                )
        theirs, ours = self._answer_width(), models.num_labels_of(self.student)
        assert theirs is not None and ours is not None
        if term.objective != "similarity_kl" and not term.projections:
            checks.check_equal(
                "width of the student's vectors", theirs, ours, "Give projection='shared'."
            )
        prefixes = term.options.get("prefixes", ())
        if any(prefix > ours for prefix in prefixes):
            raise errors.ConfigError("prefixes", f"at most {ours}, the vectors' width", prefixes)

    def _check_layers(self, name: str, term: Term) -> None:
        assert self.teacher is not None
        theirs, ours = models.config_of(self.teacher), models.config_of(self.student)
        off = f"or leave the term out (loss_weights={{{name!r}: 0}})."
        if term.objective in ATTENTION:
            remedy = (
                "Attention is compared head by head: choose a student with as many heads, learn "
                f"MiniLM's relations instead (relation_kl), which need no equal heads, {off}"
            )
            checks.check_equal("student heads", theirs.num_heads, ours.num_heads, remedy)
        elif term.objective == "relation_kl":
            heads = term.options["num_relation_heads"]
            relations.check_relation_heads(heads, theirs.attention_width, ours.attention_width)
        elif not term.projections:
            remedy = (
                f"Give projection='per_layer', {off}"
                if term.objective in ("hidden_state_mse", "patient_mse")
                else f"{term.objective} compares states as they are: choose a student as wide "
                f"between its blocks, hidden_state_mse, which can have a projection, {off}"
            )
            what = "student width between blocks"
            checks.check_equal(what, theirs.hidden_size, ours.hidden_size, remedy)


def _hidden_size(model: keras.Model) -> int:
    return models.config_of(model).hidden_size


def _projection(student: int | None, teacher: int | None, name: str) -> keras.layers.Dense:
    """Makes a Dense with bias from the student's width to the teacher's.

    It learns with the student and is no part of it. It is built at once, so that its variables
    exist before the first step.
    """
    layer = keras.layers.Dense(
        teacher,
        kernel_initializer=keras.initializers.TruncatedNormal(stddev=0.02),
        name=name,
    )
    with tf.name_scope(name):  # as a call would
        layer.build((None, student))
    return layer
