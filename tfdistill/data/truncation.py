"""How many tokens of a text, or of each half of a pair, fit into an example."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tfdistill import errors


class Lengths(NamedTuple):
    """Tokens that are kept, special tokens not counted.

    Attributes:
      first: int64 (n,), of the first texts.
      second: int64 (n,), of the second texts; 0 where there is none.
    """

    first: np.ndarray
    second: np.ndarray


def check_max_length(max_length: int, *, paired: bool) -> None:
    """Checks that an example can hold its special tokens.

    Args:
      max_length: The most tokens of an example.
      paired: Whether there are pairs: [CLS] and two [SEP] instead of one.

    Raises:
      DataError: If it cannot.
    """
    least = 3 if paired else 2
    if isinstance(max_length, bool) or not isinstance(max_length, (int, np.integer)):
        raise errors.DataError("max_length", "a whole number", repr(max_length))
    if max_length < least:
        names = "[CLS], [SEP] and [SEP]" if paired else "[CLS] and [SEP]"
        raise errors.DataError("max_length", f"at least {least}, room for {names}", max_length)


def truncated_lengths(
    first: np.ndarray, second: np.ndarray, has_pair: np.ndarray, max_length: int
) -> Lengths:
    """Cuts the longer text of a pair first, until both fit ("longest first").

    With a budget of ``b = max_length - 3`` tokens for a pair: a text of at most ``b // 2`` tokens
    stays whole and the other one gets the rest; if both are longer, the longer one gets
    ``b - b // 2`` and the shorter one ``b // 2``. At equal lengths the second counts as the longer.

    The last rule is that of the fast Hugging Face tokenizers. BERT's first code drops token after
    token and so always leaves the odd token to the first text: one token of difference, only
    where the budget is odd and both texts are cut.

    Args:
      first: int (n,), tokens of the first texts.
      second: int (n,), tokens of the second texts.
      has_pair: bool (n,), whether there is a second text (it may have no token).
      max_length: The most tokens of an example, special ones included.

    Returns:
      The tokens to keep of each text: its first ones.
    """
    first, second = first.astype(np.int64), np.where(has_pair, second, 0).astype(np.int64)
    budget = max_length - 2 - has_pair.astype(np.int64)
    swapped = first > second
    short, long = np.minimum(first, second), np.maximum(first, second)
    fits = short + long <= budget
    long_cut = np.maximum(short, budget - short)  # the shorter one stays whole
    both = short + long_cut > budget
    short_cut = np.where(both, budget // 2, short)
    long_cut = np.where(both, budget - budget // 2, long_cut)
    short = np.where(fits, short, short_cut)
    long = np.where(fits, long, long_cut)
    return Lengths(np.where(swapped, long, short), np.where(swapped, short, long))
