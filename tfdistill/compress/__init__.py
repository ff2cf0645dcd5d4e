"""Smaller and faster students: pruned, clustered, quantization-aware, with fewer or narrower words.

tensorflow-model-optimization is imported when a name that needs it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfdistill.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from tfdistill.compress.clustering import cluster
    from tfdistill.compress.factorisation import can_factorise, factorise
    from tfdistill.compress.pruning import prune
    from tfdistill.compress.quantization_aware import check_ranges, observe, quantize_aware
    from tfdistill.compress.range_files import FLOAT_WEIGHTS, RANGES, save_ranges, with_ranges
    from tfdistill.compress.rebuild import float_weights, is_quantize_aware, strip
    from tfdistill.compress.vocabulary import PrunedVocabulary, VocabularyCoverage, prune_vocabulary

__all__ = [
    "FLOAT_WEIGHTS",
    "RANGES",
    "PrunedVocabulary",
    "VocabularyCoverage",
    "can_factorise",
    "check_ranges",
    "cluster",
    "factorise",
    "float_weights",
    "is_quantize_aware",
    "observe",
    "prune",
    "prune_vocabulary",
    "quantize_aware",
    "save_ranges",
    "strip",
    "with_ranges",
]

__getattr__, __dir__ = lazy_exports(__name__)
