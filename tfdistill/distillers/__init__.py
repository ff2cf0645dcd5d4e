"""Distillers: `keras.Model`s whose train_step is the method."""

from tfdistill.distillers.answers import soft_loss
from tfdistill.distillers.base import Distiller
from tfdistill.distillers.combination import CombinationDistiller
from tfdistill.distillers.distilbert import DistilBertDistiller
from tfdistill.distillers.label import LabelTrainer, gold_loss
from tfdistill.distillers.logit import LogitDistiller
from tfdistill.distillers.minilm import MiniLmDistiller
from tfdistill.distillers.mlm import MaskedLmTrainer, mlm_loss, nsp_loss, row_weights
from tfdistill.distillers.mobilebert import MobileBertDistiller
from tfdistill.distillers.patient import PatientDistiller, patient_layer_map
from tfdistill.distillers.step import StepInputs
from tfdistill.distillers.tinybert import TinyBertDistiller

__all__ = [
    "CombinationDistiller",
    "DistilBertDistiller",
    "Distiller",
    "LabelTrainer",
    "LogitDistiller",
    "MaskedLmTrainer",
    "MiniLmDistiller",
    "MobileBertDistiller",
    "PatientDistiller",
    "StepInputs",
    "TinyBertDistiller",
    "gold_loss",
    "mlm_loss",
    "nsp_loss",
    "patient_layer_map",
    "row_weights",
    "soft_loss",
]
