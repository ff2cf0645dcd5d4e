"""What may be chosen: the parts of a teacher that a Hugging Face folder can hold. Pure."""

from __future__ import annotations

import dataclasses
import re

from tfdistill import config, errors, models
from tfdistill.pruning.shape import pruned_config

_NARROWEST, _STEP = 96, 8
_PARTS = (1, 3 / 4, 1 / 2, 1 / 4, 1 / 8)  # of the teacher's width, neurons and heads


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A student that may be chosen: what is kept of the teacher, and the shape that has."""

    part: config.PrunedShape
    config: models.EncoderConfig

    @property
    def name(self) -> str:
        """Says the shape, such as ``4l_384d_12h_768f``; unique among the parts of a teacher."""
        shape = self.config
        return (
            f"{shape.num_layers}l_{shape.hidden_size}d_{shape.num_heads}h_"
            f"{shape.intermediate_size}f"
        )


def candidates(
    teacher: models.EncoderConfig, *, quantize: str = "dynamic_wi8_afp32"
) -> tuple[Candidate, ...]:
    """Lists fewer layers, neurons, heads and directions of a teacher, itself among them.

    Heads keep their size. With weights in blocks every width is a multiple of the block.
    """
    size, block = teacher.head_width, re.search(r"_block(\d+)$", quantize)
    multiple = int(block[1]) if block else 1
    parts = [
        config.PrunedShape(layers=depth, ffn=inner, heads=heads, width=width)
        for depth in range(1, teacher.num_layers + 1)
        for width in _parts_of(teacher.hidden_size, size)
        if width >= min(_NARROWEST, teacher.hidden_size)
        for heads in _parts_of(min(teacher.num_heads, width // size), 1)
        for inner in _parts_of(teacher.intermediate_size, _STEP)
        if all(n % multiple == 0 for n in (width, heads * size, inner))
    ]
    if not parts:
        raise errors.ConfigError(
            "students of this teacher",
            f"widths that are multiples of {multiple}",
            f"heads of {size}",
            "Use another --quantize.",
        )
    return tuple(Candidate(part, pruned_config(teacher, part)) for part in parts)


def _parts_of(whole: int, step: int) -> list[int]:
    """Parts of a size in multiples of `step`, the whole itself among them."""
    return sorted({whole, *(step * round(part * whole / step) for part in _PARTS)} - {0})
