"""Distillers: `keras.Model`s whose train_step is the method."""

from tfdistill.distillers.base import Distiller, StepInputs
from tfdistill.distillers.label import LabelTrainer
from tfdistill.distillers.tinybert import TinyBertDistiller

__all__ = ["Distiller", "LabelTrainer", "StepInputs", "TinyBertDistiller"]
