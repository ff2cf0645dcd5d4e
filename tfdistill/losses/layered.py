"""The losses that compare layers: states, attention scores, feature maps and relations.

Their options are those of `LayerLoss`, as far as each reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import tensorflow as tf

from tfdistill.losses import attention, checks, features, hidden, layer_map, relations
from tfdistill.losses.base import LayerLoss, LayerMap, ModelPair
from tfdistill.losses.batch import StepInputs


class _KernelLoss(LayerLoss):
    """A layer loss whose function takes both layers, the mask, and what the class reads."""

    kernel: ClassVar[Callable[..., tf.Tensor]]
    reductions = ("tokens", "reference")
    takes_projection = False

    def compare(
        self, teacher: tf.Tensor, student: tf.Tensor, batch: StepInputs, projection: Any
    ) -> tf.Tensor:
        options: dict[str, Any] = {} if projection is None else {"projection": projection}
        if self.reductions:
            options["reduction"] = self.reduction
        return type(self).kernel(teacher, student, batch.mask, **options)


class HiddenStateMSE(_KernelLoss):
    """TinyBERT's squared error of states or embeddings, `hidden_state_mse`."""

    kernel = staticmethod(hidden.hidden_state_mse)
    takes_projection = True
    needs_equal_widths = True


class CosineDistance(_KernelLoss):
    """DistilBERT's cosine distance of states or embeddings, `cosine_distance`."""

    kernel = staticmethod(hidden.cosine_distance)
    reductions = ()
    needs_equal_widths = True


class FeatureMapMSE(_KernelLoss):
    """MobileBERT's squared error of normalised feature maps, `feature_map_mse`."""

    kernel = staticmethod(features.feature_map_mse)
    needs_equal_widths = True


class FeatureMeanMSE(_KernelLoss):
    """MobileBERT's squared error of the feature maps' means, `feature_mean_mse`."""

    kernel = staticmethod(features.feature_mean_mse)
    needs_equal_widths = True


class FeatureVarianceMAE(_KernelLoss):
    """MobileBERT's absolute error of the feature maps' variances, `feature_variance_mae`."""

    kernel = staticmethod(features.feature_variance_mae)
    needs_equal_widths = True


class _AttentionLoss(_KernelLoss):
    tap = "attention_scores"
    taps = ()

    def check(self, pair: ModelPair) -> None:
        super().check(pair)
        teacher_shape, student_shape = pair.shapes(self.kind)
        checks.check_equal(
            "student heads",
            teacher_shape.num_heads,
            student_shape.num_heads,
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

    Its usual layers, "skip", leave the last one out, as "last" does; a list may be shorter than the
    student. The reductions are "batch" and "reference".
    """

    usual_layers = "skip"
    reductions = ("batch", "reference")
    taps = ()
    auto_projection = "per_layer"
    needs_equal_widths = True

    def find_pairs(self, teacher_layers: int, student_layers: int) -> tuple[tuple[int, int], ...]:
        """See `LayerLoss.find_pairs`."""
        if isinstance(self.layers, str) or layer_map.are_pairs(self.layers):
            return super().find_pairs(teacher_layers, student_layers)
        sources = layer_map.patient_layer_map(teacher_layers, student_layers, self.layers)
        return tuple((source, layer) for layer, source in enumerate(sources))

    def compare(
        self, teacher: tf.Tensor, student: tf.Tensor, batch: StepInputs, projection: Any
    ) -> tf.Tensor:
        """See `LayerLoss.compare`."""
        return hidden.patient_mse(
            teacher[:, 0],  # [CLS]
            student[:, 0],
            sample_weight=batch.sample_weight,
            projection=projection,
            reduction=str(self.reduction),
        )


class RelationKL(_KernelLoss):
    """MiniLM's divergence of token relations, `relation_kl`; usually of both last layers.

    Args:
      vectors: "queries", "keys" or "values".
      num_relation_heads: A divisor of both attention widths; None: the largest that is at most
        four times the teacher's heads.
      layers: As for `LayerLoss`.
      reduction: "tokens" or "reference".
      over_layers: "sum" or "mean".
      layer_weights: A weight for each pair.
      weight: Its weight in the sum.
    """

    usual_layers = ((-1, -1),)
    taps = ()

    def __init__(
        self,
        *,
        vectors: Literal["queries", "keys", "values"] = "values",
        num_relation_heads: int | None = None,
        layers: LayerMap | None = None,
        reduction: str | None = None,
        over_layers: Literal["sum", "mean"] = "sum",
        layer_weights: Sequence[float] = (),
        weight: float = 1.0,
    ):
        """See the class."""
        checks.check_choice("vectors", vectors, ("queries", "keys", "values"))
        if num_relation_heads is not None:
            relations.check_relation_heads(num_relation_heads, None, None)
        super().__init__(
            layers=layers,
            reduction=reduction,
            over_layers=over_layers,
            layer_weights=layer_weights,
            weight=weight,
        )
        self.tap = vectors
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
        super().check(pair)
        teacher_shape, student_shape = pair.shapes(self.kind)
        assert self.num_relation_heads is not None
        relations.check_relation_heads(
            self.num_relation_heads, teacher_shape.attention_width, student_shape.attention_width
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
            reduction=str(self.reduction),
        )


def default_relation_heads(teacher: Any, student: Any) -> int:
    """The largest common number of relation heads, at most four times the teacher's heads."""
    fitting = relations.common_divisors(teacher.attention_width, student.attention_width)
    return max(count for count in fitting if count <= 4 * teacher.num_heads)
