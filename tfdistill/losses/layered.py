"""The losses that compare layers: states, attention scores, feature maps and relations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import tensorflow as tf

from tfdistill.losses import attention, checks, features, hidden, layer_map, patient, relations
from tfdistill.losses.base import LayerLoss, LayerMap, ModelPair, Projection
from tfdistill.losses.batch import StepInputs

Reduction = Literal["tokens", "reference"]


class _TokenLoss(LayerLoss):
    """A layer loss whose kernel has the reductions "tokens" and "reference"."""

    kernel: ClassVar[Callable[..., tf.Tensor]]

    def __init__(
        self,
        *,
        layers: LayerMap = "uniform",
        reduction: Reduction = "tokens",
        over_layers: Literal["sum", "mean"] = "sum",
        layer_weights: Sequence[float] = (),
        tap: str | None = None,
        weight: float = 1.0,
        **options: Any,
    ):
        checks.check_choice("reduction", reduction, ("tokens", "reference"))
        super().__init__(
            layers=layers,
            over_layers=over_layers,
            layer_weights=layer_weights,
            tap=tap,
            weight=weight,
            **options,
        )
        self.reduction = reduction

    def compare(
        self, teacher: tf.Tensor, student: tf.Tensor, batch: StepInputs, projection: Any
    ) -> tf.Tensor:
        options = {} if projection is None else {"projection": projection}
        return type(self).kernel(teacher, student, batch.mask, reduction=self.reduction, **options)


class _StateLoss(_TokenLoss):
    """Of the states after a layer, or with ``tap="embeddings"`` of the embeddings."""

    needs_equal_widths = True

    def __init__(
        self,
        *,
        layers: LayerMap = "uniform",
        reduction: Reduction = "tokens",
        over_layers: Literal["sum", "mean"] = "sum",
        layer_weights: Sequence[float] = (),
        tap: Literal["hidden_states", "embeddings"] = "hidden_states",
        weight: float = 1.0,
        **options: Any,
    ):
        checks.check_choice("tap", tap, ("hidden_states", "embeddings"))
        super().__init__(
            layers=layers,
            reduction=reduction,
            over_layers=over_layers,
            layer_weights=layer_weights,
            tap=tap,
            weight=weight,
            **options,
        )


class HiddenStateMSE(_StateLoss):
    """TinyBERT's squared error of states, `hidden_state_mse`.

    Args:
      layers: As for `LayerLoss`, like the others.
      reduction: "tokens", or "reference" for the published code's means, in which padding counts.
      over_layers: "sum" or "mean".
      layer_weights: A weight for each pair.
      projection: From the student's to the teacher's width; "auto": shared where they differ.
      tap: "hidden_states" or "embeddings".
      weight: Its weight in the sum.
    """

    kernel = staticmethod(hidden.hidden_state_mse)
    takes_projection = True

    def __init__(
        self,
        *,
        layers: LayerMap = "uniform",
        reduction: Reduction = "tokens",
        over_layers: Literal["sum", "mean"] = "sum",
        layer_weights: Sequence[float] = (),
        projection: Projection = "none",
        tap: Literal["hidden_states", "embeddings"] = "hidden_states",
        weight: float = 1.0,
    ):
        """See the class."""
        super().__init__(
            layers=layers,
            reduction=reduction,
            over_layers=over_layers,
            layer_weights=layer_weights,
            projection=projection,
            tap=tap,
            weight=weight,
        )


class FeatureMapMSE(_StateLoss):
    """MobileBERT's squared error of normalised feature maps, `feature_map_mse`."""

    kernel = staticmethod(features.feature_map_mse)


class FeatureMeanMSE(_StateLoss):
    """MobileBERT's squared error of the feature maps' means, `feature_mean_mse`."""

    kernel = staticmethod(features.feature_mean_mse)


class FeatureVarianceMAE(_StateLoss):
    """MobileBERT's absolute error of the feature maps' variances, `feature_variance_mae`."""

    kernel = staticmethod(features.feature_variance_mae)


class CosineDistance(LayerLoss):
    """DistilBERT's cosine distance of states, `cosine_distance`; options as `HiddenStateMSE`."""

    needs_equal_widths = True

    def __init__(
        self,
        *,
        layers: LayerMap = "uniform",
        over_layers: Literal["sum", "mean"] = "sum",
        tap: Literal["hidden_states", "embeddings"] = "hidden_states",
        weight: float = 1.0,
    ):
        """See the class."""
        checks.check_choice("tap", tap, ("hidden_states", "embeddings"))
        super().__init__(layers=layers, over_layers=over_layers, tap=tap, weight=weight)

    def compare(
        self, teacher: tf.Tensor, student: tf.Tensor, batch: StepInputs, projection: Any
    ) -> tf.Tensor:
        """See `LayerLoss.compare`."""
        return hidden.cosine_distance(teacher, student, batch.mask)


class _AttentionLoss(_TokenLoss):
    tap = "attention_scores"

    def check(self, pair: ModelPair) -> None:
        theirs, ours = pair.shapes(self.kind)
        checks.check_equal(
            "student heads",
            theirs.num_heads,
            ours.num_heads,
            "Attention is compared head by head: choose a student with as many heads, learn "
            "MiniLM's relations instead (RelationKL), which need no equal heads, or leave the loss "
            f"out (loss_weights={{{self.name!r}: 0}}).",
        )


class AttentionScoreMSE(_AttentionLoss):
    """TinyBERT's squared error of attention scores, `attention_score_mse`."""

    kernel = staticmethod(attention.attention_score_mse)


class AttentionCrossEntropy(_AttentionLoss):
    """MobileBERT's cross entropy of attention, `attention_cross_entropy`."""

    kernel = staticmethod(attention.attention_cross_entropy)


class AttentionKLDivergence(_AttentionLoss):
    """KL divergence of attention, `attention_kl_divergence`: the same gradient, minimum 0."""

    kernel = staticmethod(attention.attention_kl_divergence)


class PatientMSE(LayerLoss):
    """BERT-PKD's squared error of the directions of [CLS], `patient_mse`.

    Args:
      layers: As for `LayerLoss`; "skip" and "last" leave the last layer out.
      reduction: "batch" or "reference".
      over_layers: "sum" or "mean".
      projection: As for `LayerLoss`; "auto": one for each layer where the widths differ.
      weight: Its weight in the sum.
    """

    auto_projection = "per_layer"
    takes_projection = True
    needs_equal_widths = True

    def __init__(
        self,
        *,
        layers: LayerMap = "skip",
        reduction: Literal["batch", "reference"] = "batch",
        over_layers: Literal["sum", "mean"] = "sum",
        projection: Projection = "none",
        weight: float = 1.0,
    ):
        """See the class."""
        checks.check_choice("reduction", reduction, ("batch", "reference"))
        super().__init__(
            layers=layers, over_layers=over_layers, projection=projection, weight=weight
        )
        self.reduction = reduction

    def find_pairs(self, teacher_layers: int, student_layers: int) -> tuple[tuple[int, int], ...]:
        """See `LayerLoss.find_pairs`; a list may leave out the last layers."""
        if isinstance(self.layers, str) or layer_map.are_pairs(self.layers):
            return super().find_pairs(teacher_layers, student_layers)
        sources = layer_map.patient_layer_map(teacher_layers, student_layers, self.layers)
        return tuple((source, layer) for layer, source in enumerate(sources))

    def compare(
        self, teacher: tf.Tensor, student: tf.Tensor, batch: StepInputs, projection: Any
    ) -> tf.Tensor:
        """See `LayerLoss.compare`."""
        options = {} if projection is None else {"projection": projection}
        return patient.patient_mse(
            teacher[:, 0],  # [CLS]
            student[:, 0],
            sample_weight=batch.sample_weight,
            reduction=self.reduction,
            **options,
        )


class RelationKL(_TokenLoss):
    """MiniLM's divergence of token relations, `relation_kl`.

    Args:
      vectors: "queries", "keys" or "values".
      num_relation_heads: A divisor of both attention widths; None: the largest that is at most
        four times the teacher's heads.
      layers: As for `LayerLoss`; by default both last layers.
      reduction: "tokens" or "reference".
      over_layers: "sum" or "mean".
      weight: Its weight in the sum.
    """

    def __init__(
        self,
        *,
        vectors: Literal["queries", "keys", "values"] = "values",
        num_relation_heads: int | None = None,
        layers: LayerMap = ((-1, -1),),
        reduction: Reduction = "tokens",
        over_layers: Literal["sum", "mean"] = "sum",
        weight: float = 1.0,
    ):
        """See the class."""
        checks.check_choice("vectors", vectors, ("queries", "keys", "values"))
        if num_relation_heads is not None:
            relations.check_relation_heads(num_relation_heads, None, None)
        super().__init__(
            layers=layers, reduction=reduction, over_layers=over_layers, tap=vectors, weight=weight
        )
        self.num_relation_heads = num_relation_heads

    def bind(self, name: str, pair: ModelPair) -> RelationKL:
        """See `Loss.bind`."""
        bound = super().bind(name, pair)
        assert isinstance(bound, RelationKL)
        if self.num_relation_heads is None:
            bound.num_relation_heads = default_relation_heads(*pair.shapes(self.kind))
        return bound

    def check(self, pair: ModelPair) -> None:
        """See `Loss.check`."""
        theirs, ours = pair.shapes(self.kind)
        assert self.num_relation_heads is not None
        relations.check_relation_heads(
            self.num_relation_heads, theirs.attention_width, ours.attention_width
        )

    def compare(
        self, teacher: tf.Tensor, student: tf.Tensor, batch: StepInputs, projection: Any
    ) -> tf.Tensor:
        """See `LayerLoss.compare`."""
        assert self.num_relation_heads is not None
        return relations.relation_kl(
            teacher,
            student,
            batch.mask,
            num_relation_heads=self.num_relation_heads,
            reduction=self.reduction,
        )


def default_relation_heads(teacher: Any, student: Any) -> int:
    """The largest common number of relation heads, at most four times the teacher's heads."""
    fitting = relations.common_divisors(teacher.attention_width, student.attention_width)
    return max(count for count in fitting if count <= 4 * teacher.num_heads)
