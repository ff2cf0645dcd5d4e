"""A .tflite file: read, run, inspected, compared. Needs LiteRT and no TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfdistill.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .inspection import ModelReport, inspect
    from .model import TfliteModel
    from .signature import Signature, Tensor

__all__ = ["ModelReport", "Signature", "Tensor", "TfliteModel", "inspect"]

__getattr__, __dir__ = lazy_exports(__name__)
