"""Texts on a GPU for `small_students.py`: batches of like lengths, and noise in them.

Runs with PyTorch and NumPy. Shapes: S models, B texts of a batch, L tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import torch  # pyright: ignore[reportMissingImports]

Tensor: TypeAlias = torch.Tensor
SEEDS = (1, 2, 3)
BATCH = 32
ROUNDED_TO = 8  # tokens
_HIGHEST_NOISE = 0.5


class Rows:
    """Padded texts on a device: ids, types and mask (n, L), lengths and labels (n,)."""

    def __init__(self, arrays: Mapping[str, np.ndarray], key: str, device: str) -> None:
        self.lengths = arrays[f"{key}.lengths"]
        self.ids = torch.as_tensor(arrays[f"{key}.ids"], device=device)
        lengths, first = (
            torch.as_tensor(arrays[f"{key}.{field}"], device=device)[:, None]
            for field in ("lengths", "first")
        )
        places = torch.arange(self.ids.shape[1], device=device)
        self.mask = (places < lengths).long()
        self.types = self.mask * (places >= first) * (first > 0)
        self.labels = torch.as_tensor(arrays[f"{key}.labels"], device=device)

    def batch(self, index: Any, length: int) -> tuple[Tensor, Tensor, Tensor]:
        """Ids, types and mask of some texts, cut to a length."""
        ids, types, mask = (x[index][..., :length] for x in (self.ids, self.types, self.mask))
        return ids.contiguous(), types.contiguous(), mask.contiguous()


def plan(lengths: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Batches of like lengths: indices (steps, seeds, B), and the length of each step."""
    shared = np.random.default_rng(99)
    orders = [np.random.default_rng(1000 + seed) for seed in SEEDS]
    starts = [min(start, max(len(lengths) - BATCH, 0)) for start in range(0, len(lengths), BATCH)]
    indices, widths = [], []
    while len(indices) < steps:
        shuffled = [order.permutation(len(lengths)) for order in orders]
        rows = [row[np.argsort(lengths[row], kind="stable")] for row in shuffled]
        for start in shared.permutation(starts):
            chosen = np.stack([row[start : start + BATCH] for row in rows])
            indices.append(chosen)
            widths.append(-(-lengths[chosen].max() // ROUNDED_TO) * ROUNDED_TO)
    return np.stack(indices[:steps]), np.array(widths[:steps])


def pair_noise(
    batch: tuple[Tensor, Tensor, Tensor], shares: Tensor, separator: int
) -> tuple[Tensor, Tensor, Tensor]:
    """`data.noise.PairNoise` of models (S, B, L) with shares (S,)."""
    ids, types, mask = batch
    count, rows, width = ids.shape
    seconds = (types * mask).sum(-1)
    firsts = mask.sum(-1) - seconds
    partners = torch.rand(count, rows, device=ids.device).argsort(1)
    drawn, third = torch.rand(count, rows, device=ids.device), shares[:, None] / 3
    changed = (drawn < shares[:, None]) & (seconds > 0) & (seconds.gather(1, partners) > 0)
    unrelated, equal = drawn < third, (drawn >= third) & (drawn < 2 * third)
    same_first = unrelated | equal
    start = torch.where(same_first, torch.ones_like(firsts), firsts)
    length = torch.where(same_first, firsts - 2, seconds - 1)
    sources = torch.where(unrelated, partners, torch.arange(rows, device=ids.device))
    other_start = torch.where(unrelated, firsts.gather(1, partners), torch.ones_like(firsts))
    other = torch.where(unrelated, seconds.gather(1, partners) - 1, firsts - 2)
    places = torch.arange(width, device=ids.device)
    middle = 1 + length[..., None]
    end = middle + 1 + torch.minimum(other, width - 3 - length)[..., None]
    first = ids.gather(2, (start[..., None] + places - 1).clamp(0, width - 1))
    partner = ids.gather(1, sources[..., None].expand_as(ids))
    second = partner.gather(2, (other_start[..., None] + places - middle - 1).clamp(0, width - 1))
    new = torch.where(places < middle, first, second)
    new = torch.where((places == middle) | (places == end), separator, new)
    new = torch.where(places > end, 0, torch.where(places == 0, ids[..., :1], new))
    new_types, new_mask = ((places > middle) & (places <= end)).long(), (places <= end).long()
    values = zip((new, new_types, new_mask), batch, strict=True)
    ids, types, mask = (torch.where(changed[..., None], other, before) for other, before in values)
    return ids, types, mask


def token_noise(ids: Tensor, mask: Tensor, shares: Tensor, special: Tensor) -> Tensor:
    """`data.noise.TokenNoise` of models (S, B, L); the draws of a seed's models are the same."""
    count, rows, width = ids.shape
    ordinary = (mask > 0) & ~torch.isin(ids, special)

    def draw(*shape: int) -> Tensor:
        numbers = torch.rand(len(SEEDS), 1, *shape, device=ids.device)
        return numbers.expand(-1, count // len(SEEDS), *shape).reshape(count, *shape)

    rates = torch.where(draw(rows) < shares[:, None], _HIGHEST_NOISE * draw(rows), 0.0)
    replaced = ordinary & (draw(rows, width) < rates[..., None])
    ranks = ordinary.view(count, -1).long().cumsum(1)
    drawn = (draw(rows * width) * ranks[:, -1:]).long().clamp(max=ranks[:, -1:] - 1) + 1
    places = torch.searchsorted(ranks, drawn).clamp(max=rows * width - 1)
    return torch.where(replaced, ids.view(count, -1).gather(1, places).view_as(ids), ids)
