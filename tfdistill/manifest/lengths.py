"""Lengths of a file that fit the texts it reads: their choice, and the expected time of a text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

STEP = 8  # tokens between candidates: matrix kernels take 4 to 16 rows at once
MOST = 8  # signatures of a file
# Texts that follow a start. LiteRT prepares every signature at the first inference, which takes
# about as long as one inference at the longest length: 1 to 4 ms of a student of 4 x 312, which
# answers 128 tokens in 3 ms.
TEXTS_OF_A_START = 250


def counted(tokens: Iterable[int]) -> dict[int, int]:
    """Counts texts by their number of tokens, the shortest first."""
    sizes, counts = np.unique(np.fromiter(tokens, np.int64), return_counts=True)
    return dict(zip(sizes.tolist(), counts.tolist(), strict=True))


def choose(
    texts: Mapping[int, int],
    longest: int,
    time: Callable[[int], float],
    *,
    most: int = MOST,
    step: int = STEP,
    signature: float | None = None,
) -> tuple[int, ...]:
    """Chooses the lengths of a file that minimize the expected time of a text.

    A text of n tokens runs at the shortest length that holds it; longer ones are cut to the longest
    length, which the file always has. Of all sets L of at most `most` candidates it is the one with
    the least

        1/N sum_n texts[n] time(min {l in L: l >= n}) + |L| signature,   N = sum_n texts[n].

    Exact, by dynamic programming: with candidates c_1 < ... < c_m and N_j texts of at most c_j
    tokens, k lengths of which the longest is c_j cost at least

        f_k(j) = min_{i < j} f_{k-1}(i) + (N_j - N_i) time(c_j),   f_0(0) = 0, N_0 = 0.

    Of equal costs the fewest lengths win.

    Args:
      texts: Number of texts by number of tokens, at least one text.
      longest: The longest length.
      time: Time of an inference at a length, in any unit: a measurement or the count of operations.
      most: The most lengths.
      step: Candidates are its multiples below `longest`, and `longest`.
      signature: What a further signature costs a text, in the unit of `time`. By default
        time(longest) / `TEXTS_OF_A_START`.

    Returns:
      The lengths, ascending.
    """
    candidates = [*range(step, longest, step), longest]
    if signature is None:
        signature = time(longest) / TEXTS_OF_A_START
    sizes = np.minimum(np.fromiter(texts, np.int64), longest)
    counts = np.fromiter(texts.values(), np.float64)
    held = np.array([counts[sizes <= n].sum() for n in (0, *candidates)])
    # Row i, column j: what the texts between candidates i and j cost at j.
    cost = (held[None, :] - held[:, None]) * np.array([0.0, *map(time, candidates)])
    cost[np.tril_indices(len(held))] = np.inf
    least = np.where(np.arange(len(held)) == 0, 0.0, np.inf)
    totals, before = [], []
    for number in range(1, min(most, len(candidates)) + 1):
        sums = least[:, None] + cost
        before.append(sums.argmin(axis=0))
        least = sums.min(axis=0)
        totals.append(least[-1] / held[-1] + number * signature)
    chosen, position = [], len(candidates)
    for arguments in reversed(before[: int(np.argmin(totals)) + 1]):
        chosen.append(candidates[position - 1])
        position = int(arguments[position])
    return tuple(reversed(chosen))


def describe(lengths: Iterable[int], texts: Mapping[int, int], usual: Iterable[int]) -> str:
    """Says in a line what lengths do to texts, in tokens with and without padding."""

    def padded(of_file: Iterable[int]) -> str:
        return f"{expected_time({n: float(n) for n in of_file}, texts):.1f}"

    tokens = sum(n * count for n, count in texts.items()) / sum(texts.values())
    return (
        f"{', '.join(map(str, lengths))}: texts of {tokens:.1f} tokens on average run at "
        f"{padded(lengths)}, padding included; at {', '.join(map(str, usual))} they would take "
        f"{padded(usual)}"
    )


def expected_time(
    times: Mapping[int, float], texts: Mapping[int, int], lengths: Iterable[int] | None = None
) -> float | None:
    """The mean time of a text, each at the shortest length that holds it, in the unit of `times`.

    `times` are those of an inference by length, `texts` numbers of texts by number of tokens;
    longer ones are cut to the longest of `lengths`, by default those of `times`. None without
    texts, or without the time of a length that one of them needs.
    """
    ascending = sorted(times if lengths is None else lengths)
    if not ascending or not texts:
        return None
    total = 0.0
    for tokens, count in texts.items():
        length = next((n for n in ascending if n >= tokens), ascending[-1])
        if length not in times:
            return None
        total += count * times[length]
    return total / sum(texts.values())
