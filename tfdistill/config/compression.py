"""How a stage compresses the student, and in which order stages may."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pydantic

from tfdistill import errors

# In this order a student may go through them: a later one keeps what an earlier one made.
METHODS = ("prune", "cluster", "quantize")
# Option -> the method that reads it.
_READERS = {
    "sparsity": "prune",
    "begin": "prune",
    "end": "prune",
    "block_size": "prune",
    "clusters": "cluster",
    "start": "cluster",
}


class CompressConfig(pydantic.BaseModel):
    """What a stage does to the student's weights while it trains.

    `method` is "prune" (magnitude pruning to `sparsity`, rising from the share `begin` of the
    stage's steps to `end`), "cluster" (each matrix made of `clusters` numbers) or "quantize"
    (quantization-aware training: the export as static_wi8_ai8 needs no calibration then).

    `teacher` is the model that the stage learns from: "teacher", or "student", the float student
    as it enters the stage.
    """

    model_config = pydantic.ConfigDict(extra="forbid", protected_namespaces=(), frozen=True)

    method: Literal["prune", "cluster", "quantize"]
    teacher: Literal["teacher", "student"] = "teacher"
    layers: tuple[str, ...] | None = None  # patterns of names; None: the method's own
    sparsity: float = pydantic.Field(
        default=0.5, gt=0, lt=1, description="share of weights that become zero, with prune"
    )
    begin: float = pydantic.Field(default=0.0, ge=0, lt=1)
    end: float = pydantic.Field(default=0.7, gt=0, le=1)
    block_size: tuple[int, int] = (1, 1)
    clusters: int = pydantic.Field(
        default=16, ge=2, le=256, description="different values in each matrix, with cluster"
    )
    start: Literal["linear", "density", "kmeans++"] = "linear"

    @pydantic.model_validator(mode="after")
    def _options_fit(self) -> CompressConfig:
        fields = type(self).model_fields
        faults = [
            errors.explain(option, f"none with method {self.method}", getattr(self, option))
            for option, method in _READERS.items()
            if method != self.method and getattr(self, option) != fields[option].default
        ]
        if self.begin >= self.end:
            faults.append(errors.explain("begin", f"a share below end ({self.end})", self.begin))
        if min(self.block_size) < 1:
            faults.append(errors.explain("block_size", "two sizes of at least 1", self.block_size))
        if faults:
            raise ValueError("; ".join(faults))
        return self


def stage_faults(stages: Mapping[str, Any]) -> list[str]:
    """Finds stages that cannot do what their `compress` says; plain values, see `order_faults`."""
    faults = []
    for name, stage in stages.items():
        if _method_of(stage) is None:
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
        for option in ("keep_best", "patience"):
            if _method_of(stage) == "prune" and stage.get(option):
                faults.append(
                    f"stages.{name}.{option}: while zeros come, the best epoch is an early one "
                    "that has few. Leave it out"
                )
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
    done: str | None = None
    for name in names:
        method = _method_of(stages.get(name))
        allowed = METHODS if done is None else METHODS[METHODS.index(done) + 1 :]
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
