"""Quantizations as named values: how numbers are stored, and how far a file may then differ.

One grammar: ``float32`` and ``float16`` store everything in that format; otherwise
``<method>_w<type><bits>_a<type><bits>[_<detail>]`` names when activations are quantized
(weight_only: never; dynamic: while the model runs; static: with ranges from calibration), then the
type of the weights (w) and of the activations (a), ``i`` for integers and ``fp`` for floating
point. ``block32``: 32 weights share a scale instead of a whole row.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Literal

from tfdistill import config, errors
from tfdistill.tflite import agreement
from tfdistill.tflite.agreement import Bounds

_GRAMMAR = re.compile(
    r"(weight_only|dynamic|static)_w(i2|i4|i8|i16|fp16|fp32)_a(i4|i8|i16|fp16|fp32)"
    r"(_block\d+)?"
)
# Smaller matrices stay float32 unless activations are static: they save nothing.
SMALLEST_QUANTIZED = 1024  # elements


@dataclasses.dataclass(frozen=True)
class Quantization:
    """A way to store a model's numbers."""

    name: str
    summary: str  # what it is good for, a phrase
    # when activations are quantized: "float" (never, nor are weights), "weight_only", "dynamic" or
    # "static"
    method: Literal["float", "weight_only", "dynamic", "static"]
    weight_bits: int  # bits of one element of a weight matrix or an embedding table
    bounds: Bounds  # how far a file may differ from its model
    block: int | None = None  # weights that share a scale; None for all of a row
    # what of a table of words shares a scale, where no block does: each "row", which
    # EMBEDDING_LOOKUP reads, or the whole "table", which GATHER reads as well
    table_scales: Literal["row", "table"] = "row"

    @property
    def least_bytes(self) -> int:
        """Bytes of one element of the others, biases, scales and positions, at the least."""
        return {"float": self.weight_bits // 8, "static": 1}.get(self.method, 4)

    @property
    def needs_calibration(self) -> bool:
        """Whether ranges are measured on examples, unless the model is quantization-aware."""
        return self.method == "static"

    @property
    def bytes_per_weight(self) -> float:
        """Bytes of one element of a matrix, with its part of a block's float16 scale."""
        return self.weight_bits / 8 + (2 / self.block if self.block else 0)


def _offer(
    name: str,
    summary: str,
    bounds: Bounds,
    table_scales: Literal["row", "table"] = "row",
) -> Quantization:
    """Makes a quantization from its name in the grammar."""
    parts = _GRAMMAR.fullmatch(name)
    if parts is None:  # float32 or float16
        bits = int(name.removeprefix("float"))
        return Quantization(name, summary, "float", bits, bounds)
    method, weights, _, block = parts.groups(default="")
    return Quantization(
        name,
        summary,
        method,  # pyright: ignore[reportArgumentType]
        int(weights.strip("ifp")),
        bounds,
        block=int(block.removeprefix("_block")) if block else None,
        table_scales=table_scales,
    )


_ALL = (
    _offer("float32", "nothing lost; the reference", agreement.FLOAT32),
    _offer(
        "float16",
        "half the size; computes in float32 on a CPU, in float16 on a GPU",
        agreement.FLOAT16,
    ),
    _offer(
        "weight_only_wi8_afp32",
        "a quarter of the size at float32's speed; only the weights lose precision",
        agreement.INT8,
    ),
    _offer(
        "dynamic_wi8_afp32",
        "a quarter of the size and the fastest on a CPU; weights int8, activations as they come",
        agreement.INT8,
        table_scales="table",
    ),
    _offer(
        "static_wi8_ai8",
        "for NPUs and DSPs; on a CPU slower than float32",
        agreement.COARSE,
        table_scales="table",
    ),
    _offer(
        "dynamic_wi4_afp32_block32",
        "an eighth of the size, a scale for each 32 weights; widths must be multiples of 32",
        agreement.COARSE,
    ),
    _offer(
        "dynamic_wi4_afp32_block64",
        "as block32 with half the scales; widths must be multiples of 64",
        agreement.COARSE,
    ),
    _offer(
        "dynamic_wi4_afp32",
        "an eighth of the size, a scale for each row: for any width",
        agreement.COARSE,
    ),
)
_BY_NAME = {quantization.name: quantization for quantization in _ALL}

# Tried, and why not. Measured on a 3 x 192 student, 64 tokens, one thread of a CPU.
_REFUSED = {
    "weight_only_wi4_afp32": (
        "LiteRT unpacks the weights at every call: 6.2 ms where dynamic_wi4_afp32, of the same "
        "size and error, takes 0.3",
        "dynamic_wi4_afp32",
    ),
    "dynamic_wi8_afp32_block32": (
        "the litert-quantizer has no int8 weights in blocks and leaves them float32",
        "dynamic_wi8_afp32",
    ),
    "dynamic_wi2_afp32": (
        "11 dB are left of the answers, and a class in twenty changes",
        "dynamic_wi4_afp32",
    ),
    "dynamic_wi2_afp32_block32": (
        "LiteRT has no FULLY_CONNECTED for int2 weights in blocks",
        "dynamic_wi4_afp32_block32",
    ),
    **{name: (why, "static_wi8_ai8") for name, why in config.RETIRED_QUANTIZATIONS.items()},
}


def quantizations() -> dict[str, Quantization]:
    """Returns the quantizations that `to_tflite` offers: name -> value, finest first.

    Examples:
      >>> export.quantizations()["dynamic_wi8_afp32"].weight_bits
      8
    """
    return dict(_BY_NAME)


def quantization(name: str) -> Quantization:
    """Returns the quantization of that name, or of a short one, see `config.quantization_name`."""
    if config.quantization_name(name) in _BY_NAME:
        return _BY_NAME[config.quantization_name(name)]
    offered = (*_BY_NAME, *config.SHORT_QUANTIZATIONS)
    if name in _REFUSED:
        why, instead = _REFUSED[name]
        expected, hint = "one that works", f"Not offered: {why}. Take {instead}."
    elif _GRAMMAR.fullmatch(str(name)):
        expected, hint = "one that this version offers", f"Choose from {', '.join(offered)}."
    else:
        expected, hint = "a known name", errors.nearest(name, offered)
    raise errors.ConfigError("quantize", expected, repr(name), hint)


def chosen(names: Sequence[str] | None) -> list[Quantization]:
    """Returns quantizations by name, each once and at least one; None for all that are offered."""
    full = list(dict.fromkeys(map(config.quantization_name, _BY_NAME if names is None else names)))
    if not full:
        raise errors.ConfigError("names", "at least one quantization", "none")
    return [quantization(name) for name in full]


def refused() -> dict[str, str]:
    """Returns the combinations that were tried and are not offered: name -> why."""
    return {name: why for name, (why, _) in _REFUSED.items()}
