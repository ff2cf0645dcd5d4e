"""TinyBERT's data augmentation: a training set of more sentences than were written.

Pure: `variants` (which words may be exchanged, and the draws). With TensorFlow: `candidates` (what
a masked language model or word vectors offer) and `dataset` (the file).
"""

from tfdistill.augmentation.candidates import CandidateFinder, load_finder
from tfdistill.augmentation.dataset import Augmented, augment_train, is_whole, load_augmented
from tfdistill.augmentation.variants import (
    STOP_WORDS,
    AugmentOptions,
    copies_for,
)

__all__ = [
    "STOP_WORDS",
    "AugmentOptions",
    "Augmented",
    "CandidateFinder",
    "augment_train",
    "copies_for",
    "is_whole",
    "load_augmented",
    "load_finder",
]
