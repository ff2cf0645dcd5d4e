"""tfdistill: distil a BERT-family teacher into a phone-ready student, checked and measured.

The names below are the public entry points; they import TensorFlow when first used, so that
``import tfdistill`` and the command line stay quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tfdistill._version import __version__

if TYPE_CHECKING:
    from tfdistill.config import load_recipe
    from tfdistill.distillers import Distiller, LabelTrainer, TinyBertDistiller
    from tfdistill.errors import TfdistillError
    from tfdistill.run import run_recipe
    from tfdistill.training import adamw, build_student, evaluate, load_teacher

_HOMES = {
    "Distiller": "tfdistill.distillers",
    "LabelTrainer": "tfdistill.distillers",
    "TfdistillError": "tfdistill.errors",
    "TinyBertDistiller": "tfdistill.distillers",
    "adamw": "tfdistill.training",
    "build_student": "tfdistill.training",
    "evaluate": "tfdistill.training",
    "load_recipe": "tfdistill.config",
    "load_teacher": "tfdistill.training",
    "run_recipe": "tfdistill.run",
}
_PACKAGES = (
    "benchmark",
    "config",
    "data",
    "distillers",
    "errors",
    "files",
    "manifest",
    "models",
    "objectives",
    "report",
    "run",
    "search",
    "training",
    "weights",
)

__all__ = [
    "Distiller",
    "LabelTrainer",
    "TfdistillError",
    "TinyBertDistiller",
    "__version__",
    "adamw",
    "build_student",
    "evaluate",
    "load_recipe",
    "load_teacher",
    "run_recipe",
]


def __getattr__(name: str) -> Any:
    """Imports a public name or a package when it is first used."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _PACKAGES:
        return importlib.import_module(f"tfdistill.{name}")
    raise AttributeError(f"module 'tfdistill' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names and the packages."""
    return sorted({*__all__, *_PACKAGES})
