"""Trained models -> files for phones: converted, checked, written whole or not at all.

`to_tflite` writes one file with a signature per sequence length, `inspect` shows what a file holds
and `quantizations` names the number formats. Nothing heavy is imported before it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .inspection import inspect
    from .quantize import quantizations
    from .tflite import to_tflite

__all__ = ["inspect", "quantizations", "to_tflite"]

_HOMES = {"inspect": "inspection", "quantizations": "quantize", "to_tflite": "tflite"}


def __getattr__(name: str) -> Any:
    """Imports a public function at its first use."""
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    """Lists the public functions."""
    return sorted(__all__)
