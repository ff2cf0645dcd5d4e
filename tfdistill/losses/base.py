"""What a loss is: a value of a batch that a student minimises, and how one of your own is made.

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
    """

    teacher: Any
    student: keras.Model
    vector_width: int | None = None

    @property
    def answer_width(self) -> int | None:
        """The last axis of the teacher's answers."""
        if isinstance(self.teacher, keras.Model):
            return models.num_labels_of(self.teacher)
        return self.vector_width or models.num_labels_of(self.student)

    def shapes(self, loss: str) -> tuple[Any, Any]:
        """The configurations of both; ShapeError where the teacher has no layers to compare."""
        if not isinstance(self.teacher, keras.Model):
            raise errors.ShapeError(loss, "a teacher with layers to compare", "answers alone")
        return models.config_of(self.teacher), models.config_of(self.student)


class Loss:
    """A value of a batch that a student minimises: the class to subclass.

    A subclass has `call`, which returns a value for each example, or for each token, and `tap`,
    which names what it compares. The base takes the mean over the examples, or the real tokens, of
    the whole batch, weighted by the sample weights, also among several devices. A loss that needs
    more than two tensors, or a reduction of its own, overrides `compute`.

    A `Distiller` works on a copy, which `bind` fits to its two models.

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
        if self.tap is not None and self.tap != "logits":
            pair.shapes(self.kind)

    def projection_widths(self, pair: ModelPair) -> tuple[int | None, int | None]:
        """The widths that a projection maps from (the student's) and to (the teacher's)."""
        theirs, ours = pair.shapes(self.kind)
        return ours.hidden_size, theirs.hidden_size

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
    number of pairs. A subclass of your own has `call`, which compares one pair.

    Args:
      layers: Which teacher layer each student layer is compared with: "uniform", "top", "bottom",
        "skip", "last", "same"; a teacher layer for each of the student's; or pairs [teacher layer,
        student layer], from 0 or, negative, from the end.
      over_layers: "sum" or "mean".
      layer_weights: A weight for each pair; () for 1 each. A pair of weight 0 is not computed.
      projection: "none"; "shared" by the pairs, or "per_layer": Dense layers with bias from the
        student's to the teacher's width, which learn with the student; "auto": the loss's usual
        one where the widths differ; or a `NamedProjection` that several losses share.
      tap: Output that is compared; "embeddings" has one pair and no layers.
      weight: As for `Loss`.
    """

    tap = "hidden_states"
    auto_projection: ClassVar[str] = "shared"
    takes_projection: ClassVar[bool] = False
    needs_equal_widths: ClassVar[bool] = False
    pairs: tuple[tuple[int, int], ...] = ()

    def __init__(
        self,
        *,
        layers: LayerMap = "uniform",
        over_layers: Literal["sum", "mean"] = "sum",
        layer_weights: Sequence[float] = (),
        projection: Projection = "none",
        tap: str | None = None,
        weight: float = 1.0,
    ):
        """Checks the options that need no models; see the class."""
        super().__init__(weight=weight)
        checks.check_choice("over_layers", over_layers, ("sum", "mean"))
        if not isinstance(projection, NamedProjection):
            kinds = ("none", "shared", "per_layer", "auto")
            checks.check_choice("projection", projection, kinds)
        self.layers = layers
        self.over_layers = over_layers
        self.layer_weights = _checked_layer_weights(layer_weights)
        self.projection = projection
        if tap is not None:
            self.tap = tap

    def bind(self, name: str, pair: ModelPair) -> LayerLoss:
        """See `Loss.bind`: reads the layers off the models and names the projections."""
        theirs, ours = pair.shapes(self.kind)
        bound = copy.copy(self)
        if self.tap == "embeddings":
            if self.layers != "uniform":
                raise errors.ConfigError("layers", "none with tap='embeddings'", repr(self.layers))
            bound.pairs = ((0, 0),)
        else:
            bound.pairs = self.find_pairs(theirs.num_layers, ours.num_layers)
        if self.layer_weights and len(self.layer_weights) != len(bound.pairs):
            raise errors.ConfigError(
                "layer_weights",
                f"{len(bound.pairs)} numbers, one for each pair of layers",
                self.layer_weights,
            )
        projection = self.projection
        if projection == "auto":
            equal = theirs.hidden_size == ours.hidden_size
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
        theirs, ours = pair.shapes(self.kind)
        if self.projection_names or not self.needs_equal_widths:
            return
        off = f"or leave the loss out (loss_weights={{{self.name!r}: 0}})."
        checks.check_equal(
            "student width between blocks",
            theirs.hidden_size,
            ours.hidden_size,
            f"Give projection='per_layer', {off}"
            if self.takes_projection
            else f"{self.kind} compares states as they are: choose a student as wide between its "
            f"blocks, HiddenStateMSE, which can have a projection, {off}",
        )

    def compute(self, batch: StepInputs) -> tf.Tensor:
        """See the class."""
        indices = range(len(self.pairs))
        if self.layer_weights:
            values = [
                weight * self._pair(index, batch)
                for index, weight in enumerate(self.layer_weights)
                if weight != 0
            ]
        else:
            values = [self._pair(index, batch) for index in indices]
        total = tf.add_n(values)
        return total / len(self.pairs) if self.over_layers == "mean" else total

    def _pair(self, index: int, batch: StepInputs) -> tf.Tensor:
        assert self.tap is not None
        teacher, student = batch.teacher[self.tap], batch.student[self.tap]
        if self.tap != "embeddings":
            source, layer = self.pairs[index]
            teacher, student = teacher[source], student[layer]
        projection = None
        if self.projections:
            projection = self.projections[index]
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


def check_value(loss: Loss, name: str, value: Any, padded: Any) -> None:
    """Refuses a loss of the user's that is not finite, or that more padding moves.

    Raises:
      ConfigError: If it is not finite, no scalar, or `padded`, its value for the same batch with
        more padding, differs from `value`.
    """
    numbers = [tf.convert_to_tensor(number) for number in (value, padded)]
    if any(number.shape.rank != 0 for number in numbers):
        raise errors.ShapeError(f"loss {name!r} ({loss.kind})", "a scalar", numbers[0].shape)
    plain, moved = (float(number) for number in numbers)
    if not abs(plain) < float("inf"):
        raise errors.ConfigError(f"loss {name!r} ({loss.kind})", "a finite number", plain)
    if abs(plain - moved) > 1e-3 * max(abs(plain), abs(moved), 1e-3):
        raise errors.ConfigError(
            f"loss {name!r} ({loss.kind})",
            "the same value however far the batch is padded",
            f"{plain:.6g}, and {moved:.6g} with more padding",
            "Return a value for each token from call, which the base weighs by the mask.",
        )
