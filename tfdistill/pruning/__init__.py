"""Structured pruning: students cut out of their teacher, as dense as any other model.

`initialise_by_pruning` does it all. Its parts are pure functions of arrays, and each can be
used by itself: `measure` (one pass over a sample of texts), `pruned_weights`, `refit`.
"""

from tfdistill.pruning.importance import Measurements, measure
from tfdistill.pruning.refitting import refit
from tfdistill.pruning.sample import take_sample
from tfdistill.pruning.shape import check_prunable, pruned_config
from tfdistill.pruning.start import PrunedStart, initialise_by_pruning
from tfdistill.pruning.weights import Selection, choose, pruned_weights

__all__ = [
    "Measurements",
    "PrunedStart",
    "Selection",
    "check_prunable",
    "choose",
    "initialise_by_pruning",
    "measure",
    "pruned_config",
    "pruned_weights",
    "refit",
    "take_sample",
]
