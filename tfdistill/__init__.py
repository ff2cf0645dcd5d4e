"""tfdistill: distil a BERT-family teacher into a phone-ready student, checked and measured.

The names below are the public entry points; they import TensorFlow when first used, so that
``import tfdistill`` and the command line stay quick.
"""

from __future__ import annotations

import importlib.util
import pathlib
import sys
from typing import TYPE_CHECKING

from tfdistill._version import __version__
from tfdistill.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from tfdistill import (  # noqa: F401
        benchmark,
        compress,
        config,
        data,
        distillers,
        errors,
        io,
        losses,
        manifest,
        models,
        predictor,
        pruning,
        report,
        run,
        tasks,
        tflite,
        tokenization,
        training,
        weights,
    )
    from tfdistill.config import (
        load_recipe,
    )
    from tfdistill.distillers import (
        DistilBertDistiller,
        Distiller,
        JointDistiller,
        LabelTrainer,
        LogitDistiller,
        MaskedLmTrainer,
        MiniLmDistiller,
        MobileBertDistiller,
        PatientDistiller,
        TinyBertDistiller,
    )
    from tfdistill.errors import (
        TfdistillError,
    )
    from tfdistill.losses import (
        methods,
    )
    from tfdistill.run import (
        run_recipe,
    )
    from tfdistill.run.initialise import (
        build_student,
    )
    from tfdistill.run.prepare import (
        load_data,
    )
    from tfdistill.run.stages import (
        distill,
    )
    from tfdistill.training import (
        adamw,
        evaluate,
        fit,
        initialise_from_layers,
        initialise_from_teacher,
        lamb,
        load_teacher,
        run_transfer,
        transfer_stages,
    )

__all__ = [
    "DistilBertDistiller",
    "Distiller",
    "JointDistiller",
    "LabelTrainer",
    "LogitDistiller",
    "MaskedLmTrainer",
    "MiniLmDistiller",
    "MobileBertDistiller",
    "PatientDistiller",
    "TfdistillError",
    "TinyBertDistiller",
    "__version__",
    "adamw",
    "build_student",
    "distill",
    "evaluate",
    "fit",
    "initialise_from_layers",
    "initialise_from_teacher",
    "lamb",
    "load_data",
    "load_recipe",
    "load_teacher",
    "methods",
    "run_recipe",
    "run_transfer",
    "transfer_stages",
]


def _refuse_other_export() -> None:
    """Refuses a module of somebody else that hides our package `export`.

    Raises:
      ImportError: If `import export` gives another module than the one next to this package.
    """
    own_file = pathlib.Path(__file__).resolve().parents[1] / "export" / "__init__.py"
    spec = importlib.util.find_spec("export")
    origin = None if spec is None or spec.origin is None else pathlib.Path(spec.origin).resolve()
    if origin is not None and origin != own_file and own_file.is_file():
        raise ImportError(
            f"module export: expected {own_file}, which belongs to tfdistill, received {origin}. "
            "Rename that file or folder, or start Python in another one."
        )


__getattr__, __dir__ = lazy_exports(__name__)

if sys.argv[:1] != ["-m"]:  # `python -m tfdistill`: __main__ takes the working directory out
    _refuse_other_export()
