"""Distillers: `keras.Model`s whose train_step is the method."""

from tfdistill.distillers.base import Distiller
from tfdistill.distillers.method import (
    DistilBertDistiller,
    JointDistiller,
    LogitDistiller,
    MiniLmDistiller,
    PatientDistiller,
)
from tfdistill.distillers.mobilebert import MobileBertDistiller
from tfdistill.distillers.tinybert import TinyBertDistiller
from tfdistill.distillers.trainers import LabelTrainer, MaskedLmTrainer

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
    "TinyBertDistiller",
]
