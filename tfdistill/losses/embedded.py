"""The losses of sentence encoders: on the vectors of texts, and on their similarities."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import tensorflow as tf
import tf_keras as keras

from tfdistill import errors, models
from tfdistill.losses import checks, vectors
from tfdistill.losses.base import Loss, ModelPair
from tfdistill.losses.batch import StepInputs


class _VectorLoss(Loss):
    """A loss on the vectors of both models."""

    def check(self, pair: ModelPair) -> None:
        for model, role in ((pair.teacher, "teacher"), (pair.student, "student")):
            if isinstance(model, keras.Model):
                _check_encodes(model, role)


def _check_encodes(model: keras.Model, role: str) -> None:
    if not models.read_head(model).traits.vectors:
        raise errors.ShapeError(
            role,
            "a sentence encoder",
            f"a model with the head {models.head_of(model)!r}",
            "models.build_embedder builds one, weights.load_embedder loads one.",
        )


class _ProjectedVectorLoss(_VectorLoss):
    """Of each text's vector by itself, through a Dense layer if need be."""

    kernel: ClassVar[Callable[..., tf.Tensor]]

    def __init__(
        self, *, projection: Literal["none", "shared", "auto"] = "none", weight: float = 1.0
    ):
        super().__init__(weight=weight)
        checks.check_choice("projection", projection, ("none", "shared", "auto"))
        self.projection = projection

    def bind(self, name: str, pair: ModelPair) -> Loss:
        bound = copy.copy(self)
        equal = pair.answer_width == models.num_labels_of(pair.student)
        if self.projection == "shared" or (self.projection == "auto" and not equal):
            bound.projection_names = (f"{name}_projection",)
        return bound

    def projection_widths(self, pair: ModelPair) -> tuple[int | None, int | None]:
        return models.num_labels_of(pair.student), pair.answer_width

    def check(self, pair: ModelPair) -> None:
        super().check(pair)
        if not self.projection_names:
            teacher_width, student_width = pair.answer_width, models.num_labels_of(pair.student)
            assert teacher_width is not None and student_width is not None
            checks.check_equal(
                "width of the student's vectors",
                teacher_width,
                student_width,
                "Give projection='shared'.",
            )

    def compute(self, batch: StepInputs) -> tf.Tensor:
        options: dict[str, Any] = {"projection": self.projections[0]} if self.projections else {}
        return type(self).kernel(
            batch.teacher["logits"],
            batch.student["logits"],  # (batch, width)
            sample_weight=batch.sample_weight,
            **options,
        )


class VectorMSE(_ProjectedVectorLoss):
    """Squared error of the vectors, `vector_mse`.

    Args:
      projection: "none", "shared" (a Dense layer from the student's to the teacher's width), or
        "auto": one where the widths differ.
      weight: Its weight in the sum.
    """

    kernel = staticmethod(vectors.vector_mse)


class VectorCosine(_ProjectedVectorLoss):
    """Cosine distance of the vectors, `vector_cosine`; options as `VectorMSE`."""

    kernel = staticmethod(vectors.vector_cosine)


class SimilarityKL(_VectorLoss):
    """Divergence of the similarities in a batch, `similarity_kl`.

    Args:
      temperature: T > 0.
      prefixes: Widths that the vectors shall be of use cut to (Matryoshka).
      weight: Its weight in the sum.
    """

    def __init__(
        self, *, temperature: float = 0.05, prefixes: Sequence[int] = (), weight: float = 1.0
    ):
        """See the class."""
        super().__init__(weight=weight)
        checks.check_number("temperature", temperature, above=0)
        if isinstance(prefixes, str) or not all(type(w) is int and w > 0 for w in prefixes):
            raise errors.ConfigError(
                "prefixes", "a list of widths, each at least 1", repr(prefixes)
            )
        self.temperature = temperature
        self.prefixes = tuple(prefixes)

    def check(self, pair: ModelPair) -> None:
        """See `Loss.check`."""
        super().check(pair)
        width = models.num_labels_of(pair.student)
        assert width is not None
        if any(prefix > width for prefix in self.prefixes):
            raise errors.ConfigError(
                "prefixes", f"at most {width}, the vectors' width", self.prefixes
            )

    def compute(self, batch: StepInputs) -> tf.Tensor:
        """See `similarity_kl`."""
        return vectors.similarity_kl(
            batch.teacher["logits"],
            batch.student["logits"],
            temperature=self.temperature,
            prefixes=self.prefixes,
            sample_weight=batch.sample_weight,
        )


class LabelSimilarity(Loss):
    """Texts of one label alike, texts of different labels at right angles: `label_similarity`.

    The student is a sentence encoder, the batch has class labels; there may be no teacher.

    Args:
      weight: Its weight in the sum.
    """

    tap = None

    def check(self, pair: ModelPair) -> None:
        """See `Loss.check`."""
        _check_encodes(pair.student, "student")

    def compute(self, batch: StepInputs) -> tf.Tensor:
        """See `label_similarity`."""
        if batch.labels is None:
            raise errors.ShapeError(
                "batch", "(features, labels)", "features only", "Use a labelled set."
            )
        return vectors.label_similarity(
            batch.student["logits"], batch.labels, sample_weight=batch.sample_weight
        )
