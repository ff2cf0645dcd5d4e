"""How a stage compresses the student, and in which order stages may."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

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


def stage_faults(stages: Mapping[str, Any]) -> list[str]:
    """Finds stages that cannot do what their `compress` says; plain values, see `order_faults`."""
    faults = []
    for name, stage in stages.items():
        method = _method_of(stage)
        if method is None:
            continue
        own_teacher = stage["compress"].get("teacher", "teacher") == "student"
        if own_teacher and stage.get("kind") == "labels":
            faults.append(
                f"stages.{name}.compress.teacher: a stage of kind labels has no teacher. Choose "
                "another kind, such as prediction"
            )
        if stage.get("reads") == "corpus":
            faults.append(
                f"stages.{name}.compress: expected a stage on the task, received one that reads a "
                "corpus. Compress in a later stage"
            )
        faults += [
            f"stages.{name}.{option}: while zeros come, the best epoch is an early one that has "
            "few. Leave it out"
            for option in ("keep_best", "patience")
            if method == "prune" and stage.get(option)
        ]
    return faults


def order_faults(variant: str, names: Sequence[str], stages: Mapping[str, Any]) -> list[str]:
    """Finds stages of a variant that would undo what an earlier one compressed.

    Args:
      variant: Its name.
      names: Its stages, in order.
      stages: Stage name -> its options as plain values; what is malformed is left out.

    Returns:
      One line for each.
    """
    faults = []
    order = list(METHODS)
    done: str | None = None
    for name in names:
        method = _method_of(stages.get(name))
        allowed = order if done is None else order[order.index(done) + 1 :]
        if done is not None and method not in allowed:
            expected = f"compress.method {' or '.join(allowed)}" if allowed else "no further stage"
            faults.append(
                f"variants.{variant}.stages: expected after a stage that does {done} {expected}, "
                f"received {name} ({method or 'no compress'}), which would undo it"
            )
        done = method or done
    return faults


def _method_of(stage: Any) -> str | None:
    compress = stage.get("compress") if isinstance(stage, Mapping) else None
    method = compress.get("method") if isinstance(compress, Mapping) else None
    return method if method in METHODS else None
