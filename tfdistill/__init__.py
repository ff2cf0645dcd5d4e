"""tfdistill: distil a BERT-family teacher into a phone-ready student, checked and measured.

The names below are the public entry points; they import TensorFlow when first used, so that
``import tfdistill`` and the command line stay quick.
"""

from __future__ import annotations

import importlib
import importlib.util
import pathlib
import sys
from typing import TYPE_CHECKING, Any

from tfdistill._version import __version__

if TYPE_CHECKING:
    from tfdistill.config import (
        load_recipe,
    )
    from tfdistill.distillers import (
        CombinationDistiller,
        DistilBertDistiller,
        Distiller,
        JointDistiller,
        LabelTrainer,
        LogitDistiller,
        MaskedLmTrainer,
        MiniLmDistiller,
        MobileBertDistiller,
        PatientDistiller,
        TermDistiller,
        TinyBertDistiller,
    )
    from tfdistill.errors import (
        TfdistillError,
    )
    from tfdistill.run import (
        run_recipe,
    )
    from tfdistill.structured import (
        build_pruned_student,
    )
    from tfdistill.training import (
        adamw,
        build_student,
        evaluate,
        fit,
        initialise_from_layers,
        initialise_from_teacher,
        lamb,
        load_teacher,
        run_transfer,
        transfer_stages,
    )

_NAMES_OF_MODULES = {
    "tfdistill.config": ("load_recipe",),
    "tfdistill.distillers": (
        "CombinationDistiller",
        "DistilBertDistiller",
        "Distiller",
        "JointDistiller",
        "LabelTrainer",
        "LogitDistiller",
        "MaskedLmTrainer",
        "MiniLmDistiller",
        "MobileBertDistiller",
        "PatientDistiller",
        "TermDistiller",
        "TinyBertDistiller",
    ),
    "tfdistill.errors": ("TfdistillError",),
    "tfdistill.run": ("run_recipe",),
    "tfdistill.structured": ("build_pruned_student",),
    "tfdistill.training": (
        "adamw",
        "build_student",
        "evaluate",
        "fit",
        "initialise_from_layers",
        "initialise_from_teacher",
        "lamb",
        "load_teacher",
        "run_transfer",
        "transfer_stages",
    ),
}
_MODULE_OF = {name: module for module, names in _NAMES_OF_MODULES.items() for name in names}
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
    "structured",
    "training",
    "weights",
)

__all__ = [
    "CombinationDistiller",
    "DistilBertDistiller",
    "Distiller",
    "JointDistiller",
    "LabelTrainer",
    "LogitDistiller",
    "MaskedLmTrainer",
    "MiniLmDistiller",
    "MobileBertDistiller",
    "PatientDistiller",
    "TermDistiller",
    "TfdistillError",
    "TinyBertDistiller",
    "__version__",
    "adamw",
    "build_pruned_student",
    "build_student",
    "evaluate",
    "fit",
    "initialise_from_layers",
    "initialise_from_teacher",
    "lamb",
    "load_recipe",
    "load_teacher",
    "run_recipe",
    "run_transfer",
    "transfer_stages",
]


def _refuse_other_export() -> None:
    """Refuses a module of somebody else that hides our package `export`.

    Raises:
      ImportError: If `import export` gives another module than the one next to this package.
    """
    own = pathlib.Path(__file__).resolve().parents[1] / "export" / "__init__.py"
    spec = importlib.util.find_spec("export")
    found = None if spec is None or spec.origin is None else pathlib.Path(spec.origin).resolve()
    if found is not None and found != own and own.is_file():
        raise ImportError(
            f"module export: expected {own}, which belongs to tfdistill, received {found}. "
            "Rename that file or folder, or start Python in another one."
        )


def __getattr__(name: str) -> Any:
    """Imports a public name or a package when it is first used."""
    if name in _MODULE_OF:
        return getattr(importlib.import_module(_MODULE_OF[name]), name)
    if name in _PACKAGES:
        return importlib.import_module(f"tfdistill.{name}")
    raise AttributeError(f"module 'tfdistill' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names and the packages."""
    return sorted({*__all__, *_PACKAGES})


if sys.argv[:1] != ["-m"]:  # `python -m tfdistill`: __main__ takes the working directory out
    _refuse_other_export()
