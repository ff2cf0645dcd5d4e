"""Distillers: `keras.Model`s whose train_step is the method."""

from tfdistill.distillers.answers import balanced_weights, gold_loss, soft_loss
from tfdistill.distillers.base import Distiller
from tfdistill.distillers.batch import StepInputs
from tfdistill.distillers.combination import CombinationDistiller
from tfdistill.distillers.distilbert import DistilBertDistiller
from tfdistill.distillers.joint import JointDistiller, hidden_term
from tfdistill.distillers.logit import LogitDistiller
from tfdistill.distillers.minilm import MiniLmDistiller
from tfdistill.distillers.mlm import mlm_loss, nsp_loss, row_weights
from tfdistill.distillers.mobilebert import MobileBertDistiller
from tfdistill.distillers.patient import PatientDistiller, patient_layer_map
from tfdistill.distillers.terms import Term, TermDistiller
from tfdistill.distillers.tinybert import TinyBertDistiller
from tfdistill.distillers.trainers import LabelTrainer, MaskedLmTrainer

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
    "StepInputs",
    "Term",
    "TermDistiller",
    "TinyBertDistiller",
    "balanced_weights",
    "gold_loss",
    "hidden_term",
    "mlm_loss",
    "nsp_loss",
    "patient_layer_map",
    "row_weights",
    "soft_loss",
]
