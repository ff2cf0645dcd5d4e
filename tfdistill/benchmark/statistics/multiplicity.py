"""Many comparisons at once: which of them may be believed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def discoveries(p_values: Sequence[float], rate: float = 0.05) -> list[bool]:
    """Chooses comparisons of which at most `rate` are chance, on average.

    Of m sorted p-values, those up to the last one with p_(i) <= rate i / m. Where nothing differs
    at all, the chance to choose anything is at most `rate`, however many comparisons there are.
    That holds for independent ones and for those that err together, as places of one run do.

    Args:
      p_values: One a comparison.
      rate: Of false discoveries.

    Returns:
      Whether each is chosen.

    Reference:
      Benjamini and Hochberg 1995, Controlling the False Discovery Rate.
    """
    values = np.asarray(p_values, dtype=np.float64)
    line = rate * np.arange(1, len(values) + 1) / max(len(values), 1)
    below = np.flatnonzero(np.sort(values) <= line)
    number = int(below[-1]) + 1 if len(below) else 0
    chosen = set(np.argsort(values, kind="stable")[:number].tolist())
    return [index in chosen for index in range(len(values))]
