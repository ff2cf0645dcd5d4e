"""Names of quantizations, as recipes, Python and the command line take them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

import pydantic

SHORT_QUANTIZATIONS = {"int8": "dynamic_wi8_afp32", "int4": "dynamic_wi4_afp32"}
"""Short name -> the quantization of weights of so many bits for a CPU, of any width."""


def quantization_name(name: str) -> str:
    """The name of a quantization in the grammar of `export`; one that is not short stays."""
    return SHORT_QUANTIZATIONS.get(name, name)


def quantization_names(names: Iterable[str]) -> list[str]:
    """The full names of quantizations, each once."""
    return list(dict.fromkeys(map(quantization_name, names)))


RETIRED_QUANTIZATIONS = {
    "static_wi8_ai16": "16-bit activations take 20 to 30 times as long as float32 on a CPU",
    "static_wi8_ai8_integer_only": "where it was not refused, its file was that of static_wi8_ai8",
}
"""Quantization of an earlier version -> why static_wi8_ai8 takes its place."""


def _offered(name: object) -> object:
    if name in RETIRED_QUANTIZATIONS:
        expected = "a quantization that this version offers"
        raise ValueError(f"expected {expected}, received {name!r}. Take static_wi8_ai8.")
    return name


Quantize = Annotated[
    Literal[
        "float32",
        "float16",
        "weight_only_wi8_afp32",
        "dynamic_wi8_afp32",
        "static_wi8_ai8",
        "dynamic_wi4_afp32_block32",
        "dynamic_wi4_afp32_block64",
        "dynamic_wi4_afp32",
        "int8",
        "int4",
    ],
    pydantic.BeforeValidator(_offered),
    pydantic.AfterValidator(quantization_name),
]
"""A quantization of a recipe: its name or a short one, of which the full one is kept."""
