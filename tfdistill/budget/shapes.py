"""What may be chosen: the parts of a teacher that a Hugging Face folder can hold. Pure."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from tfdistill import config, errors, models
from tfdistill.pruning.shape import pruned_config

_NARROWEST, _STEP = 96, 8
_SHALLOWEST = 3  # layers, where the teacher has as many
_WIDEST = 4  # neurons of a feed-forward layer, in widths
_WIDTHS = (1, 3 / 4, 1 / 2, 1 / 4, 1 / 8)  # in parts of the teacher's
_NEURONS = tuple(eighths / 8 for eighths in range(1, 9))


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

    @property
    def worth(self) -> float:
        """The parameters, of which those of neurons count half: layers are worth more.

        Those of the word table count: width is worth more than layers that are narrow. Of
        ten parts of multilingual-e5-small, fine-tuned on SIB-200, this is the order of the
        divergences of their answers from the teacher's before any training, from 0.04 of 12
        layers x 1152 neurons over 0.16 of 12 x 512 and 0.23 of 10 x 768, of the same size, to
        0.55 of 5 x 768.
        """
        shape = self.config
        neurons = 2 * shape.num_layers * shape.hidden_size * shape.intermediate_size
        return models.count_parameters(shape) - neurons / 2


def ladder(teacher: models.EncoderConfig, quantize: str) -> list[Candidate]:
    """The parts of a teacher with all heads that their width has, those worth most first.

    Heads keep their size. With weights in blocks every width is a multiple of the block.
    """
    size, block = teacher.head_width, re.search(r"_block(\d+)$", quantize)
    multiple = int(block[1]) if block else 1
    parts = [
        config.PrunedShape(layers=depth, ffn=inner, heads=heads, width=width)
        for depth in range(min(_SHALLOWEST, teacher.num_layers), teacher.num_layers + 1)
        for width in _parts_of(teacher.hidden_size, size, _WIDTHS)
        if width >= min(_NARROWEST, teacher.hidden_size)
        for heads in [min(teacher.num_heads, width // size)]
        for inner in _parts_of(teacher.intermediate_size, _STEP, _NEURONS)
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
    return sorted(steps, key=lambda step: -step.worth)


def _parts_of(whole: int, step: int, parts: Sequence[float]) -> list[int]:
    """Parts of a size in multiples of `step`, the whole itself among them."""
    sizes = {min(whole, step * round(part * whole / step)) for part in parts}
    return sorted({whole, *sizes} - {0})
