"""How a stage compresses the student, and in which order stages may."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import pydantic

from tfdistill import errors
from tfdistill.config.section import Section, described, section_of, union_of


class CompressConfig(Section):
    """What a stage does to the student's weights while it trains.

    Attributes:
      method: "prune" prunes by magnitude to `sparsity`, from the share `begin` of the stage's steps
        to `end`; with "cluster" each matrix is made of `clusters` numbers; "quantize" is
        quantization-aware training: the export as static_wi8_ai8 needs no calibration then.
      teacher: The model that the stage learns from: "teacher", or "student", the float student as
        it enters the stage.
      layers: Patterns of layer names; None: the method's own.
    """

    method: str
    teacher: Literal["teacher", "student"] = "teacher"
    layers: tuple[str, ...] | None = None
    sparsity: float = described(0.5, "share of weights that become zero, with prune", gt=0, lt=1)
    begin: float = pydantic.Field(default=0.0, ge=0, lt=1)
    end: float = pydantic.Field(default=0.7, gt=0, le=1)
    block_size: tuple[pydantic.PositiveInt, pydantic.PositiveInt] = (1, 1)
    clusters: int = described(16, "different values in each matrix, with cluster", ge=2, le=256)
    start: Literal["linear", "density", "kmeans++"] = "linear"

    @pydantic.model_validator(mode="after")
    def _begins_before_it_ends(self) -> CompressConfig:
        if self.begin >= self.end:
            raise ValueError(errors.explain("begin", f"a share below end ({self.end})", self.begin))
        return self


METHODS: Mapping[str, tuple[str, ...]] = {
    "prune": ("sparsity", "begin", "end", "block_size"),
    "cluster": ("clusters", "start"),
    "quantize": (),
}
"""Compressions in the order in which a student may go through them, and the options of each.

A later one keeps what an earlier one made.
"""
_METHOD_READERS = {option: [method] for method, keys in METHODS.items() for option in keys}
COMPRESS_SECTIONS = {
    method: section_of(
        CompressConfig,
        "method",
        method,
        readers=_METHOD_READERS,
        what="with method",
        defaults={},
        types={},
    )
    for method in METHODS
}
"""Method -> its section."""
if TYPE_CHECKING:
    Compress = CompressConfig
else:
    Compress = union_of(CompressConfig, "method", COMPRESS_SECTIONS, ())
