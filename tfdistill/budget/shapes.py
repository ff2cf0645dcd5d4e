"""What may be chosen: the parts of a teacher that a Hugging Face folder can hold. Pure."""

from __future__ import annotations

import dataclasses
import re

from tfdistill import config, errors, models
from tfdistill.pruning.shape import pruned_config

_NARROWEST, _STEP = 96, 8
_SHALLOWEST = 3  # layers, where the teacher has as many
_WIDEST = 4  # neurons of a feed-forward layer, in widths
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


def ladder(teacher: models.EncoderConfig, quantize: str) -> list[Candidate]:
    """The parts of a teacher with all heads that their width has, the most parameters first.

    Those of the word table count: width is worth more than neurons and layers that are narrow.
    Heads keep their size. With weights in blocks every width is a multiple of the block.
    """
    size, block = teacher.head_width, re.search(r"_block(\d+)$", quantize)
    multiple = int(block[1]) if block else 1
    parts = [
        config.PrunedShape(layers=depth, ffn=inner, heads=heads, width=width)
        for depth in range(min(_SHALLOWEST, teacher.num_layers), teacher.num_layers + 1)
        for width in _parts_of(teacher.hidden_size, size)
        if width >= min(_NARROWEST, teacher.hidden_size)
        for heads in [min(teacher.num_heads, width // size)]
        for inner in _parts_of(teacher.intermediate_size, _STEP)
        if 1 <= inner / width <= _WIDEST
        if all(n % multiple == 0 for n in (width, heads * size, inner))
    ]
    if not parts:
        raise errors.ConfigError(
            "students of this teacher",
            f"widths that are multiples of {multiple}",
            f"heads of {size}",
            "Use another --quantize.",
        )
    steps = [Candidate(part, pruned_config(teacher, part)) for part in parts]
    return sorted(steps, key=lambda step: -models.count_parameters(step.config))


def _parts_of(whole: int, step: int) -> list[int]:
    """Parts of a size in multiples of `step`, the whole itself among them."""
    parts = {min(whole, step * round(part * whole / step)) for part in _PARTS}
    return sorted({whole, *parts} - {0})
