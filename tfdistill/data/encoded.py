"""Examples as token ids, stored flat: no padding until a batch is made."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfdistill import errors

if TYPE_CHECKING:
    from tfdistill.data.tasks import Examples
    from tfdistill.data.tokenize import Tokenizer


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedExamples:
    """n examples as token ids, one after the other.

    Attributes:
      ids: int32 (tokens,).
      offsets: int64 (n + 1,); example i has ``ids[offsets[i]:offsets[i + 1]]``.
      types: uint8 (tokens,), token type of each id.
      labels: (n,) int32 or float32, or None.
      weights: float32 (n,), sample weights, or None.
      pad_id: The id that pads a batch.
    """

    ids: np.ndarray
    offsets: np.ndarray
    types: np.ndarray
    labels: np.ndarray | None = None
    weights: np.ndarray | None = None
    pad_id: int = 0

    def __post_init__(self) -> None:
        """Checks that the arrays fit together.

        Raises:
          ShapeError: If they do not.
        """
        offsets = self.offsets
        if (
            offsets.ndim != 1
            or len(offsets) < 1
            or offsets[0] != 0
            or offsets[-1] != len(self.ids)
            or self.types.shape != self.ids.shape
            or (np.diff(offsets) <= 0).any()
        ):
            raise errors.ShapeError(
                errors.explain(
                    "encoded examples",
                    "offsets that rise from 0 to the number of ids, and a type for each id",
                    f"{len(self.ids)} ids, {len(self.types)} types, offsets {offsets!r}",
                )
            )
        for name in ("labels", "weights"):
            value = getattr(self, name)
            if value is not None and value.shape != (len(self),):
                raise errors.ShapeError(
                    errors.explain(
                        f"encoded examples, {name}", f"shape ({len(self)},)", value.shape
                    )
                )

    def __len__(self) -> int:
        """Returns n."""
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each example, int64 (n,)."""
        return np.diff(self.offsets)

    @property
    def num_tokens(self) -> int:
        """Tokens of all examples together."""
        return len(self.ids)

    def row(self, index: int) -> np.ndarray:
        """Returns the ids of one example, int32 (tokens,)."""
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def row_types(self, index: int) -> np.ndarray:
        """Returns the token types of one example, uint8 (tokens,)."""
        return self.types[self.offsets[index] : self.offsets[index + 1]]

    def select(self, indices: Sequence[int] | np.ndarray) -> EncodedExamples:
        """Returns the examples at `indices`, in that order."""
        index = np.asarray(indices, np.int64)
        lengths = self.lengths[index]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        places = spans(self.offsets[index], lengths)
        return dataclasses.replace(
            self,
            ids=self.ids[places],
            types=self.types[places],
            offsets=offsets,
            labels=None if self.labels is None else self.labels[index],
            weights=None if self.weights is None else self.weights[index],
        )


def spans(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Concatenates ``arange(start, start + length)`` over all pairs.

    Args:
      starts: int (n,).
      lengths: int (n,).

    Returns:
      int64 (sum of lengths,).
    """
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(np.sum(lengths)))


def encode_examples(
    examples: Examples,
    tokenizer: Tokenizer,
    max_length: int = 128,
    *,
    weights: np.ndarray | None = None,
) -> EncodedExamples:
    """Tokenizes examples.

    Args:
      examples: Texts or pairs, with labels where they are known.
      tokenizer: The tokenizer of the model.
      max_length: The most tokens of an example; longer ones are cut.
      weights: float (n,), sample weights, or None.

    Returns:
      The encoded examples, in the same order.

    Raises:
      DataError: If `max_length` has no room for the special tokens.
    """
    encoded = tokenizer.encode_batch(examples.texts, examples.pairs, max_length)
    return EncodedExamples(
        ids=encoded.ids,
        offsets=encoded.offsets,
        types=encoded.types,
        labels=examples.labels,
        weights=None if weights is None else np.asarray(weights, np.float32),
        pad_id=tokenizer.pad_id,
    )
