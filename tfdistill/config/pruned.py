"""The short form of a pruned student's shape: ``pruned:layers=3,ffn=384,heads=6,width=384``."""

from __future__ import annotations

import dataclasses

from tfdistill import errors

PREFIX = "pruned:"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrunedShape:
    """What a student keeps of its teacher; None keeps all.

    Attributes:
      layers: Transformer layers.
      ffn: Neurons of each feed-forward layer.
      heads: Attention heads of each layer.
      width: Width of the hidden states.
      head_size: Width of one attention head.
    """

    layers: int | None = None
    ffn: int | None = None
    heads: int | None = None
    width: int | None = None
    head_size: int | None = None

    def __str__(self) -> str:
        """The short form, which `parse_pruned` reads."""
        given = {key: value for key, value in dataclasses.asdict(self).items() if value is not None}
        return PREFIX + ",".join(f"{key}={value}" for key, value in given.items())


_KEYS = tuple(field.name for field in dataclasses.fields(PrunedShape))


def is_pruned(text: str) -> bool:
    """Whether a student is given as a pruned shape, and not as a preset or a folder."""
    return text.startswith(PREFIX)


def parse_pruned(text: str) -> PrunedShape:
    """Reads a pruned shape.

    Args:
      text: "pruned:" and, separated by commas, KEY=NUMBER with the keys of `PrunedShape`.

    Returns:
      The shape. What is left out is as in the teacher.

    Raises:
      ConfigError: If the text is not of this form; the message lists every fault.
    """
    values: dict[str, int] = {}
    faults = []
    for part in filter(None, (part.strip() for part in text.removeprefix(PREFIX).split(","))):
        key, _, number = (piece.strip() for piece in part.partition("="))
        if key not in _KEYS:
            expected = f"one of {', '.join(_KEYS)}"
            faults.append(errors.explain(text, expected, repr(key), errors.nearest(key, _KEYS)))
        elif key in values:
            faults.append(errors.explain(text, f"{key} once", "it twice"))
        elif not (number.isascii() and number.isdigit() and int(number) > 0):
            faults.append(errors.explain(f"{text}: {key}", "a whole number above 0", repr(number)))
        else:
            values[key] = int(number)
    if not is_pruned(text) or not (values or faults):
        example = PrunedShape(layers=3, ffn=384, heads=6, width=384)
        faults.append(errors.explain("pruned student", f"a shape such as {example}", repr(text)))
    if faults:
        raise errors.ConfigError("\n".join(faults))
    return PrunedShape(**values)
