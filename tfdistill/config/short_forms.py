"""Short forms: students (``pruned:layers=3,ffn=384``, ``static:width=128``) and quantizations."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal, TypeVar, get_args

import pydantic

from tfdistill import errors

PREFIX, STATIC_PREFIX = "pruned:", "static:"
TEACHER = "teacher"
"""The preset of a student that is the teacher itself."""
Choice = Literal["uniform", "top", "bottom"]  # of layers, see `losses.layer_map`
CHOICES = get_args(Choice)
_Shape = TypeVar("_Shape")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrunedShape:
    """What a student keeps of its teacher; None keeps all.

    Attributes:
      layers: Transformer layers.
      ffn: Neurons of each feed-forward layer.
      heads: Attention heads of each layer.
      width: Width of the hidden states.
      head_size: Width of one attention head.
      embedding: Width of the word vectors in a factorised word table.
      choose: Which layers, one of `CHOICES`; None: evenly spaced ones.
    """

    layers: int | None = None
    ffn: int | None = None
    heads: int | None = None
    width: int | None = None
    head_size: int | None = None
    embedding: int | None = None
    choose: str | None = None

    def __str__(self) -> str:
        """The short form, which `parse_pruned` reads."""
        named = {key: value for key, value in dataclasses.asdict(self).items() if value is not None}
        return PREFIX + ",".join(f"{key}={value}" for key, value in named.items())


@dataclasses.dataclass(frozen=True, kw_only=True)
class StaticShape:
    """What a static student has instead of the preset's; None keeps that."""

    width: int | None = None  # of the word vectors
    dense: int | None = None  # of a hidden layer in front of the classifier


def is_pruned(text: str) -> bool:
    """Whether a student is given as a pruned shape, and not as a preset or a folder."""
    return text.startswith(PREFIX)


def is_checkpoint(text: str) -> bool:
    """Whether a student is given as a Hugging Face folder or hub id, and not by a shape.

    No preset has a slash or a hyphen in its name; a folder without them is written ``./NAME``.
    """
    return not is_pruned(text) and not is_static(text) and any(sign in text for sign in "/\\-")


def parse_pruned(text: str) -> PrunedShape:
    """Reads "pruned:" and, separated by commas, KEY=NUMBER of `PrunedShape`, and choose=NAME.

    What is left out is as in the teacher. An error lists every fault.
    """
    return _parse(text, PREFIX, PrunedShape, PrunedShape(layers=3, ffn=384, heads=6, width=384))


def is_static(text: str) -> bool:
    """Whether a static student is given with sizes of its own."""
    return text.startswith(STATIC_PREFIX)


def parse_static(text: str) -> StaticShape:
    """Reads a static shape, "static:" and KEY=NUMBER with the keys of `StaticShape`."""
    return _parse(text, STATIC_PREFIX, StaticShape, "static:width=128")


def short_form_faults(text: str) -> list[str]:
    """What is wrong with the short form of a student; nothing where it is none."""
    try:
        if is_pruned(text):
            parse_pruned(text)
        elif is_static(text):
            parse_static(text)
    except errors.ConfigError as error:
        return [str(error)]
    return []


def _parse(text: str, prefix: str, kind: type[_Shape], example: Any) -> _Shape:
    keys = tuple(field.name for field in dataclasses.fields(kind))  # pyright: ignore
    values: dict[str, Any] = {}
    faults = []
    for part in filter(None, (part.strip() for part in text.removeprefix(prefix).split(","))):
        key, _, number = (piece.strip() for piece in part.partition("="))
        if key not in keys:
            expected = f"one of {', '.join(keys)}"
            faults.append(errors.explain(text, expected, repr(key), errors.nearest(key, keys)))
        elif key in values:
            faults.append(errors.explain(text, f"{key} once", "it twice"))
        elif key == "choose":
            if number not in CHOICES:
                expected, near = f"one of {', '.join(CHOICES)}", errors.nearest(number, CHOICES)
                faults.append(errors.explain(f"{text}: choose", expected, repr(number), near))
            values[key] = number
        elif not (number.isascii() and number.isdigit() and int(number) > 0):
            faults.append(errors.explain(f"{text}: {key}", "a whole number above 0", repr(number)))
        else:
            values[key] = int(number)
    if not text.startswith(prefix) or not (values.keys() - {"choose"} or faults):
        what = f"{prefix.removesuffix(':')} student"
        faults.append(errors.explain(what, f"a shape such as {example}", repr(text)))
    if faults:
        raise errors.ConfigError("\n".join(faults))
    return kind(**values)


SHORT_QUANTIZATIONS = {"int8": "dynamic_wi8_afp32", "int4": "dynamic_wi4_afp32"}
"""Short name -> the quantization of weights of so many bits for a CPU, of any width."""


def quantization_name(name: str) -> str:
    """The name of a quantization in the grammar of `export`; one that is not short stays."""
    return SHORT_QUANTIZATIONS.get(name, name)


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
