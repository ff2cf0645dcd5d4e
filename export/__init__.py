"""Trained models -> files for phones: converted, checked, written whole or not at all.

`to_tflite` writes one file with a signature per sequence length, `auto` chooses its number format,
`sweep` lists what each of them costs and `quantizations` names them, `inspect` shows what a file
holds. Nothing heavy is imported before it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .conversion.quantize import quantizations
    from .file.inspection import inspect
    from .targets.android_bundle import to_android
    from .targets.keras3 import to_keras
    from .targets.keras_hub import to_keras_hub
    from .targets.mediapipe import to_mediapipe
    from .targets.saved_model import to_saved_model
    from .targets.tflite import to_tflite
    from .trials.automatic import auto
    from .trials.sweeping import sweep

__all__ = [
    "auto",
    "inspect",
    "quantizations",
    "sweep",
    "to_android",
    "to_keras",
    "to_keras_hub",
    "to_mediapipe",
    "to_saved_model",
    "to_tflite",
]

_HOMES = {
    "auto": "trials.automatic",
    "inspect": "file.inspection",
    "quantizations": "conversion.quantize",
    "sweep": "trials.sweeping",
    "to_android": "targets.android_bundle",
    "to_keras": "targets.keras3",
    "to_keras_hub": "targets.keras_hub",
    "to_mediapipe": "targets.mediapipe",
    "to_saved_model": "targets.saved_model",
    "to_tflite": "targets.tflite",
}


def __getattr__(name: str) -> Any:
    """Imports a public function at its first use."""
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    """Lists the public functions."""
    return sorted(__all__)
