"""Distillers: `keras.Model`s whose train_step is the method."""

from tfdistill.distillers.base import Distiller
from tfdistill.distillers.distilbert import DistilBertDistiller
from tfdistill.distillers.joint import JointDistiller
from tfdistill.distillers.logit import LogitDistiller
from tfdistill.distillers.minilm import MiniLmDistiller
from tfdistill.distillers.mobilebert import MobileBertDistiller
from tfdistill.distillers.patient import PatientDistiller
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
