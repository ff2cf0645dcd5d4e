"""golden.json: a few examples with the outputs that any runtime has to reproduce."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from tfdistill import errors
from tfdistill.io import files, reading

FORMAT_VERSION = 1


@dataclasses.dataclass(frozen=True)
class Example:
    """One input: ids without padding, and the text that they came from where it is known."""

    input_ids: tuple[int, ...]
    token_type_ids: tuple[int, ...]
    text: str | None = None
    pair: str | None = None


@dataclasses.dataclass(frozen=True)
class GoldenExample(Example):
    """An example of golden.json."""

    signature: str = ""  # key of the shortest signature that holds it
    # the model's, a number for each output; of tokens a list for each token
    logits: tuple[Any, ...] = ()
    # the file's on the host that exported it, in the same form; empty where the file lacks them
    outputs: tuple[Any, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Returns what golden.json holds of it, in the order of its keys there."""
        keys = ("text", "pair", "signature", "input_ids", "token_type_ids", "logits", "outputs")
        values = {key: getattr(self, key) for key in keys}
        return {key: list(v) if isinstance(v, tuple) else v for key, v in values.items()}


def read_golden(path: files.Path) -> tuple[GoldenExample, ...]:
    """Reads the examples of a golden.json."""
    content = reading.read_json(path, error=errors.ModelFileError, remedy="Export again.")
    return examples_of(content, f"golden examples {path}")


def examples_of(content: Any, what: str = "golden examples") -> tuple[GoldenExample, ...]:
    """Does what `read_golden` does, of the content of the file; `what` names it in messages."""
    try:
        return tuple(_example(example) for example in content["examples"])
    except (KeyError, TypeError, ValueError) as error:
        raise errors.ModelFileError(
            what, "what `tfdistill export` writes", repr(error), "Export again."
        ) from error


def _example(content: dict[str, Any]) -> GoldenExample:
    ids = _numbers(content["input_ids"], "i", 1)
    types = _numbers(content.get("token_type_ids") or [0] * len(ids), "i", 1)
    if not ids or len(types) != len(ids):
        raise ValueError(f"{len(ids)} ids and {len(types)} token types")
    texts = [content.get(key) for key in ("text", "pair")]
    signature = content.get("signature", "")
    if not all(isinstance(text, str | None) for text in texts) or not isinstance(signature, str):
        raise TypeError(f"text, pair and signature: {[*texts, signature]}")
    logits, outputs = (_numbers(content.get(key, ())) for key in ("logits", "outputs"))
    return GoldenExample(ids, types, *texts, signature=signature, logits=logits, outputs=outputs)


def _numbers(values: Any, kinds: str = "if", most_axes: int = 2) -> tuple[Any, ...]:
    """A list of numbers, or of equally long lists of them; ValueError for anything else."""
    array = np.asarray(values)
    if len(values) and (array.dtype.kind not in kinds or array.ndim > most_axes):
        raise ValueError(f"numbers: {errors.shortened(repr(values))}")
    return tuple(values)
