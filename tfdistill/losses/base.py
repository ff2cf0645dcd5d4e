"""The base of losses: a value of a batch that a student minimises, and how one of your own is made.

A loss of your own is one class with one method:

    class CentredMSE(losses.Loss):
        def call(self, teacher, student):  # the logits of both, (batch, classes)
            centred = [z - tf.reduce_mean(z, axis=-1, keepdims=True) for z in (teacher, student)]
            return tf.reduce_mean(tf.math.squared_difference(*centred), axis=-1)  # (batch,)

It mixes with every other loss: ``Distiller(teacher, student, {"centred": CentredMSE(), ...})``.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import tensorflow as tf
import tf_keras as keras

from tfdistill import errors, models
from tfdistill.losses import checks, layer_map, reduction
from tfdistill.losses.batch import StepInputs

# Values of a batch, (n,), and their weights, (n,); the log has their weighted mean.
StepMetric = Callable[[StepInputs], tuple[tf.Tensor, tf.Tensor]]
LayerMap = str | Sequence[int] | Sequence[Sequence[int]]


@dataclasses.dataclass(frozen=True)
class NamedProjection:
    """Dense layers of a name, which all losses share that name them.

    Attributes:
      name: The name of the one layer; with `per_layer` the start of the names.
      per_layer: Whether each pair of layers has its own.
      first: The number of the first pair's.
    """

    name: str
    per_layer: bool = False
    first: int = 0

    def names(self, pairs: int) -> tuple[str, ...]:
        """The name of the layer of each pair."""
        if not self.per_layer:
            return (self.name,) * pairs
        return tuple(f"{self.name}_{self.first + index}" for index in range(pairs))


Projection = Literal["none", "shared", "per_layer", "auto"] | NamedProjection


@dataclasses.dataclass(frozen=True)
class ModelPair:
    """The two models that a loss compares.

    Attributes:
      teacher: A model of `tfdistill.models`, a function of the features that returns logits, or
        None.
      student: A model of `tfdistill.models`.
      vector_width: Width of the vectors of a teacher that is a function; None: the student's.
      teacher_outputs: Names of what the teacher gives: of `models.taps`, of a function "logits".
      student_outputs: The same of the student.
    """

    teacher: Any
    student: keras.Model
    vector_width: int | None = None
    teacher_outputs: tuple[str, ...] = ()
    student_outputs: tuple[str, ...] = ()

    @property
    def answer_width(self) -> int | None:
        """The last axis of the teacher's answers."""
        if isinstance(self.teacher, keras.Model):
            return models.num_labels_of(self.teacher)
        return self.vector_width or models.num_labels_of(self.student)

    def shapes(self, loss: str) -> tuple[Any, Any]:
        """The configurations of both; ShapeError where the teacher has no layers to compare."""
        if not isinstance(self.teacher, keras.Model):
            received = "none" if self.teacher is None else "answers alone"
            raise errors.ShapeError(
                loss,
                "a teacher with layers to compare",
                received,
                "Give a model of tfdistill.models, such as load_teacher returns.",
            )
        return models.config_of(self.teacher), models.config_of(self.student)


class Loss:
    """A value of a batch that a student minimises: the class to subclass.

    A subclass has `call`, which returns a value for each example, or for each token, and `tap`,
    which names what it compares. The base takes the mean over the examples, or the real tokens, of
    the whole batch, weighted by the sample weights, also among several devices. A loss that needs
    more than two tensors, or a reduction of its own, overrides `compute`.

    A `Distiller` works on a copy, which `bind` fits to its two models. It trains the student and
    the Dense layers that losses name in `projection_names`, no other variables that a loss has.

    Args:
      weight: Its weight in the sum, unless `compile` sets another; 0 switches it off.

    Attributes:
      tap: The output of `models.taps` that teacher and student are compared at; None: none of the
        teacher's.
      weight: As above.
      name: What the log calls it, once a `Distiller` has it.
      metrics: Name -> `StepMetric` that the log shows while the loss is there.
      projection_names: Names of the Dense layers that it learns. Losses that use one name share
        the layer.
    """

    tap: str | None = "logits"
    weight: float = 1.0
    name: str = ""
    metrics: ClassVar[Mapping[str, StepMetric]] = {}
    projection_names: tuple[str, ...] = ()
    projections: tuple[keras.layers.Layer, ...] = ()

    def __init__(self, *, weight: float = 1.0):
        """Sets the weight; see the class."""
        self.weight = weight

    @property
    def kind(self) -> str:
        """The name of its class."""
        return type(self).__name__

    @property
    def counts_padding(self) -> bool:
        """Whether padding moves the value, as in the published code's means."""
        return getattr(self, "reduction", None) == "reference"

    def bind(self, name: str, pair: ModelPair) -> Loss:
        """Returns a copy for two models, with all that follows from them filled in.

        Args:
          name: The name of the term in the log.
          pair: The models.

        Raises:
          ConfigError: If an option does not fit them.
          ShapeError: If they cannot be compared.
        """
        return copy.copy(self)

    def check(self, pair: ModelPair) -> None:
        """Refuses two models that cannot have the loss; only losses with a weight are asked.

        Raises:
          ShapeError: If it cannot be computed.
          ConfigError: If an option does not fit.
        """
        for role, outputs in (
            ("teacher", pair.teacher_outputs),
            ("student", pair.student_outputs),
        ):
            if self.tap is not None and self.tap not in outputs:
                raise errors.ShapeError(
                    role,
                    f"one with the output {self.tap!r}, which {self.kind} compares",
                    f"the outputs {', '.join(outputs)}" if outputs else "none",
                    errors.nearest(self.tap, outputs) if outputs else "Give a teacher.",
                )

    def projection_widths(self, pair: ModelPair) -> tuple[int | None, int | None]:
        """The widths that a projection maps from (the student's) and to (the teacher's)."""
        teacher_shape, student_shape = pair.shapes(self.kind)
        return student_shape.hidden_size, teacher_shape.hidden_size

    def compute(self, batch: StepInputs) -> tf.Tensor:
        """Returns the loss of a batch, a float32 scalar; by default the mean of what `call` says.

        Args:
          batch: What both models say to the batch.
        """
        teacher = None if self.tap is None else batch.teacher[self.tap]
        return self.reduce(self.call(teacher, batch.student[self.tap or "logits"]), batch)

    def call(self, teacher: Any, student: Any) -> tf.Tensor:
        """Returns a value for each example, (batch,), or for each token, (batch, tokens).

        Args:
          teacher: The teacher's output at `tap`; it receives no gradient.
          student: The student's.
        """
        raise NotImplementedError(f"{self.kind}.call, or its compute")

    def reduce(self, values: tf.Tensor, batch: StepInputs) -> tf.Tensor:
        """Averages values of examples or of tokens: ``sum(w v) / sum(w)`` over the whole batch.

        Args:
          values: (batch,) or (batch, tokens).
          batch: Gives the weights of examples and tokens.

        Returns:
          A float32 scalar.

        Raises:
          ShapeError: If `values` has another shape.
        """
        values = tf.cast(values, tf.float32)
        if values.shape.rank not in (1, 2):
            raise errors.ShapeError(
                f"{self.kind}.call",
                "a value for each example, (batch,), or for each token, (batch, tokens)",
                f"shape {values.shape}",
            )
        weights = batch.sample_weight if values.shape.rank == 1 else batch.mask
        fits = tf.debugging.assert_equal(
            tf.shape(values),
            tf.shape(weights),
            message=errors.explain(
                f"{self.kind}.call",
                "as many values as examples, or as tokens",
                "another number",
            ),
        )
        with tf.control_dependencies([fits] if fits is not None else []):
            return reduction.weighted_mean(values, weights)


class LayerLoss(Loss):
    """A loss over pairs of a teacher's and a student's layer.

    Its value is ``sum over pairs p of layer_weights[p] * compare(p)``, or that divided by the
    number of pairs. A subclass of your own has `call`, which compares one pair, and perhaps a
    `tap`. What a subclass does not read, it refuses by name.

    Args:
      layers: Which teacher layer each student layer is compared with: "uniform", "top", "bottom",
        "skip", "last", "same"; a teacher layer for each of the student's; or pairs [teacher layer,
        student layer], from 0 or, negative, from the end. None: the usual ones of the loss.
      over_layers: "sum" or "mean".
      layer_weights: A weight for each pair; () for 1 each. A pair of weight 0 is not computed.
      projection: "none"; "shared" by the pairs, or "per_layer": Dense layers with bias from the
        student's to the teacher's width, which learn with the student; "auto": the loss's usual
        one where the widths differ; or a `NamedProjection` that several losses share.
      reduction: Of a loss that has several: how tokens or examples are averaged. None: its first,
        a mean over what is real; "reference": the published code's, in which padding counts.
      tap: Of a loss on states: "hidden_states", or "embeddings", which are one pair.
      weight: As for `Loss`.

    Attributes:
      usual_layers: The default of `layers`.
      reductions: The choices of `reduction`.
      taps: The choices of `tap`.
      takes_projection: Whether `projection` is read.
      auto_projection: What "auto" is where the widths differ.
      needs_equal_widths: Whether models without a projection must be equally wide.
    """

    tap = "hidden_states"
    usual_layers: ClassVar[LayerMap] = "uniform"
    reductions: ClassVar[tuple[str, ...]] = ()
    taps: ClassVar[tuple[str, ...]] = ("hidden_states", "embeddings")
    takes_projection: ClassVar[bool] = True
    auto_projection: ClassVar[str] = "shared"
    needs_equal_widths: ClassVar[bool] = False
    pairs: tuple[tuple[int, int], ...] = ()

    def __init__(
        self,
        *,
        layers: LayerMap | None = None,
        over_layers: Literal["sum", "mean"] = "sum",
        layer_weights: Sequence[float] = (),
        projection: Projection = "none",
        reduction: str | None = None,
        tap: str | None = None,
        weight: float = 1.0,
    ):
        """Checks the options that need no models; see the class."""
        super().__init__(weight=weight)
        checks.check_choice("over_layers", over_layers, ("sum", "mean"))
        if not isinstance(projection, NamedProjection):
            kinds = ("none", "shared", "per_layer", "auto") if self.takes_projection else ("none",)
            checks.check_choice("projection", projection, kinds)
        self.layers = self.usual_layers if layers is None else layers
        self.over_layers = over_layers
        self.layer_weights = _checked_layer_weights(layer_weights)
        self.projection = projection
        self.reduction = self._chosen("reduction", reduction, self.reductions)
        if tap is not None:
            self.tap = self._chosen("tap", tap, self.taps)

    def _chosen(self, option: str, value: str | None, choices: tuple[str, ...]) -> str | None:
        """One of the choices, the first by default; ConfigError for an option without choices."""
        if value is None:
            return choices[0] if choices else None
        if not choices:
            raise errors.ConfigError(
                option, "none", repr(value), f"{self.kind} does not read it: leave it out."
            )
        checks.check_choice(option, value, choices)
        return value

    def bind(self, name: str, pair: ModelPair) -> LayerLoss:
        """See `Loss.bind`: reads the layers off the models and names the projections."""
        teacher_shape, student_shape = pair.shapes(self.kind)
        bound = copy.copy(self)
        if self.tap == "embeddings":
            if self.layers != self.usual_layers:
                raise errors.ConfigError("layers", "none with tap='embeddings'", repr(self.layers))
            bound.pairs = ((0, 0),)
        else:
            bound.pairs = self.find_pairs(teacher_shape.num_layers, student_shape.num_layers)
        if self.layer_weights and len(self.layer_weights) != len(bound.pairs):
            raise errors.ConfigError(
                "layer_weights",
                f"{len(bound.pairs)} numbers, one for each pair of layers",
                self.layer_weights,
            )
        projection = self.projection
        if projection == "auto":
            equal = teacher_shape.hidden_size == student_shape.hidden_size
            projection = "none" if equal else self.auto_projection
        if projection != "none":
            if isinstance(projection, str):
                projection = NamedProjection(f"{name}_projection", projection == "per_layer")
            bound.projection_names = projection.names(len(bound.pairs))
        return bound

    def find_pairs(self, teacher_layers: int, student_layers: int) -> tuple[tuple[int, int], ...]:
        """The pairs of layers in models so deep."""
        return layer_map.layer_pairs(teacher_layers, student_layers, self.layers)

    def check(self, pair: ModelPair) -> None:
        """See `Loss.check`: some need models that are equally wide between their blocks."""
        super().check(pair)
        teacher_shape, student_shape = pair.shapes(self.kind)
        if self.projection_names or not self.needs_equal_widths:
            return
        off = f"or leave the loss out (loss_weights={{{self.name!r}: 0}})."
        checks.check_equal(
            "student width between blocks",
            teacher_shape.hidden_size,
            student_shape.hidden_size,
            f"Give projection='per_layer', {off}"
            if self.takes_projection
            else f"{self.kind} compares states as they are: choose a student as wide between its "
            f"blocks, HiddenStateMSE, which can have a projection, {off}",
        )

    def compute(self, batch: StepInputs) -> tf.Tensor:
        """See the class."""
        if self.layer_weights:
            values = [
                weight * self._compare_pair(index, batch)
                for index, weight in enumerate(self.layer_weights)
                if weight != 0
            ]
        else:
            values = [self._compare_pair(index, batch) for index in range(len(self.pairs))]
        total = reduction.total(values)
        return total / len(self.pairs) if self.over_layers == "mean" else total

    def _compare_pair(self, index: int, batch: StepInputs) -> tf.Tensor:
        assert self.tap is not None
        teacher, student = batch.teacher[self.tap], batch.student[self.tap]
        if self.tap != "embeddings":
            source, layer = self.pairs[index]
            teacher, student = teacher[source], student[layer]
        projection = self.projections[index] if self.projections else None
        return self.compare(teacher, student, batch, projection)

    def compare(
        self,
        teacher: tf.Tensor,
        student: tf.Tensor,
        batch: StepInputs,
        projection: keras.layers.Layer | None,
    ) -> tf.Tensor:
        """Returns the loss of one pair of layers, a float32 scalar."""
        if projection is not None:
            student = projection(student)
        return self.reduce(self.call(teacher, student), batch)


def _checked_layer_weights(weights: Sequence[float]) -> tuple[float, ...]:
    if weights and not (all(0 <= w < float("inf") for w in weights) and any(weights)):
        raise errors.ConfigError(
            "layer_weights",
            "numbers, finite, >= 0, not all 0",
            tuple(weights),
            "A weight of 0 for the loss switches it off.",
        )
    return tuple(weights)
