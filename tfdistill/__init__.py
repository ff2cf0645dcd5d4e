"""tfdistill: distil a BERT-family teacher into a phone-ready student, checked and measured.

The names below are the public entry points; they import TensorFlow when first used, so that
``import tfdistill`` and the command line stay quick.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from tfdistill._version import __version__
from tfdistill.io import processes
from tfdistill.lazy_exports import lazy_exports, refuse_other_export

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
    from tfdistill.config import load_recipe
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
    from tfdistill.errors import TfdistillError
    from tfdistill.losses import methods
    from tfdistill.predictor import Predictor
    from tfdistill.run import run_recipe
    from tfdistill.run.initialise import build_student
    from tfdistill.run.prepare import load_data
    from tfdistill.run.stages import distill
    from tfdistill.training import (
        adamw,
        evaluate,
        fit,
        initialise_from_layers,
        initialise_from_teacher,
        lamb,
        load_teacher,
        predict,
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
    "Predictor",
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
    "predict",
    "run_recipe",
    "run_transfer",
    "transfer_stages",
]


__getattr__, __dir__ = lazy_exports(__name__)

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow's messages of a correct run
processes.ignore_dated_python()
if sys.argv[:1] != ["-m"]:  # `python -m tfdistill`: __main__ takes the working directory out
    refuse_other_export()
