"""One tensor of a Hugging Face checkpoint and the variable of ours that holds it."""

from __future__ import annotations

from typing import NamedTuple


class Variable(NamedTuple):
    """One variable: where it lives here, what the checkpoint calls it, how they relate."""

    layer: str  # name of our layer
    index: int  # place in that layer's get_weights()
    key: str  # canonical key in the checkpoint
    shape: tuple[int, ...]  # as in a PyTorch checkpoint
    transposed: bool  # whether ours is the transpose


def table(layer: str, key: str, rows: int, width: int) -> Variable:
    """Returns an embedding, or any matrix that both sides store alike."""
    return Variable(layer, 0, f"{key}.weight", (rows, width), False)


def dense(layer: str, key: str, units: int, width: int) -> list[Variable]:
    """Lists kernel and bias of a dense layer from `width` to `units`."""
    return [
        Variable(layer, 0, f"{key}.weight", (units, width), True),
        Variable(layer, 1, f"{key}.bias", (units,), False),
    ]


def norm(layer: str, key: str, width: int) -> list[Variable]:
    """Lists gamma and beta of a normalization."""
    return [
        Variable(layer, 0, f"{key}.weight", (width,), False),
        Variable(layer, 1, f"{key}.bias", (width,), False),
    ]
