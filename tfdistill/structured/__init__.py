"""Structured pruning: students cut out of their teacher, as dense as any other model.

`initialise_by_pruning` does it all. Its parts are pure functions of arrays, and each can be
used by itself: `measure` (one pass over a sample of texts), `choose_layers`, `pruned_weights`,
`refit`.
"""

from tfdistill.structured.importance import Measurements, measure
from tfdistill.structured.layers import choose_layers, leave_one_out
from tfdistill.structured.refitting import refit
from tfdistill.structured.sample import take_sample
from tfdistill.structured.shape import check_prunable, pruned_config
from tfdistill.structured.start import PrunedStart, initialise_by_pruning
from tfdistill.structured.weights import Kept, choose, pruned_weights

__all__ = [
    "Kept",
    "Measurements",
    "PrunedStart",
    "check_prunable",
    "choose",
    "choose_layers",
    "initialise_by_pruning",
    "leave_one_out",
    "measure",
    "pruned_config",
    "pruned_weights",
    "refit",
    "take_sample",
]
