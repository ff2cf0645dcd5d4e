"""Trained models -> files for phones: converted, checked, written whole or not at all.

`to_tflite` writes one file with a signature per sequence length, `auto` chooses its number format,
`fit_size` makes it as small as it must be, `sweep` lists what each format costs and `quantizations`
names them, `inspect` shows what a file holds. Nothing heavy is imported before it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfdistill.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from tfdistill.tflite.inspection import inspect

    from .conversion.quantize import quantizations
    from .model.options import ExportOptions
    from .targets.android_bundle import to_android
    from .targets.keras3 import to_keras
    from .targets.mediapipe import to_mediapipe
    from .targets.saved_model import to_saved_model
    from .targets.tflite import to_tflite
    from .trials.automatic import auto
    from .trials.sizing import SizeChoice, fit_size
    from .trials.sweeping import sweep

__all__ = [
    "ExportOptions",
    "SizeChoice",
    "auto",
    "fit_size",
    "inspect",
    "quantizations",
    "sweep",
    "to_android",
    "to_keras",
    "to_mediapipe",
    "to_saved_model",
    "to_tflite",
]

__getattr__, __dir__ = lazy_exports(__name__)
