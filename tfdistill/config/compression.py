"""How a stage compresses the student, and in which order stages may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pydantic

from tfdistill import errors
from tfdistill.config import unions
from tfdistill.config.training import Section, described


class CompressConfig(Section):
    """What a stage does to the student's weights while it trains.

    Attributes:
      method: Which class of this module it is.
      teacher: The model that the stage learns from: "teacher", or "student", the float student as
        it enters the stage.
      layers: Patterns of layer names; None: the method's own.
    """

    method: str
    teacher: Literal["teacher", "student"] = "teacher"
    layers: tuple[str, ...] | None = None


class PruneConfig(CompressConfig):
    """Magnitude pruning to `sparsity`, from the share `begin` of the stage's steps to `end`."""

    method: Literal["prune"] = "prune"
    sparsity: float = described(0.5, "share of weights that become zero, with prune", gt=0, lt=1)
    begin: float = pydantic.Field(default=0.0, ge=0, lt=1)
    end: float = pydantic.Field(default=0.7, gt=0, le=1)
    block_size: tuple[pydantic.PositiveInt, pydantic.PositiveInt] = (1, 1)

    @pydantic.model_validator(mode="after")
    def _begins_before_it_ends(self) -> PruneConfig:
        if self.begin >= self.end:
            raise ValueError(errors.explain("begin", f"a share below end ({self.end})", self.begin))
        return self


class ClusterConfig(CompressConfig):
    """Each matrix is made of `clusters` numbers."""

    method: Literal["cluster"] = "cluster"
    clusters: int = described(16, "different values in each matrix, with cluster", ge=2, le=256)
    start: Literal["linear", "density", "kmeans++"] = "linear"


class QuantizeConfig(CompressConfig):
    """Quantization-aware training: the export as static_wi8_ai8 needs no calibration then."""

    method: Literal["quantize"] = "quantize"


METHODS: dict[str, type[CompressConfig]] = {
    "prune": PruneConfig,
    "cluster": ClusterConfig,
    "quantize": QuantizeConfig,
}
"""Compressions in the order in which a student may go through them.

A later one keeps what an earlier one made.
"""
if TYPE_CHECKING:
    Compress = CompressConfig
else:
    Compress = unions.union_of("AnyCompress", "method", METHODS)
