"""Hugging Face checkpoints of BERT, TinyBERT and DistilBERT <-> our models, both directions."""

from tfdistill.weights.checkpoint import Checkpoint, open_checkpoint
from tfdistill.weights.load import (
    LoadedClassifier,
    LoadedEncoder,
    LoadReport,
    load_classifier,
    load_encoder,
    open_encoder,
)
from tfdistill.weights.save import save_hf

__all__ = [
    "Checkpoint",
    "LoadReport",
    "LoadedClassifier",
    "LoadedEncoder",
    "load_classifier",
    "load_encoder",
    "open_checkpoint",
    "open_encoder",
    "save_hf",
]
