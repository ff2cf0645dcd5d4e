"""Smaller and faster students: pruned, clustered, quantization-aware, with fewer words."""

from tfdistill.compress.clustering import cluster, clusters_of
from tfdistill.compress.pruning import prune, sparsity_of
from tfdistill.compress.quantization_aware import (
    check_ranges,
    float_weights,
    is_quantize_aware,
    observe,
    quantize_aware,
)
from tfdistill.compress.range_files import RANGES, save_ranges, with_ranges
from tfdistill.compress.rebuild import strip
from tfdistill.compress.vocabulary import PrunedVocabulary, VocabularyCoverage, prune_vocabulary

__all__ = [
    "RANGES",
    "PrunedVocabulary",
    "VocabularyCoverage",
    "check_ranges",
    "cluster",
    "clusters_of",
    "float_weights",
    "is_quantize_aware",
    "observe",
    "prune",
    "prune_vocabulary",
    "quantize_aware",
    "save_ranges",
    "sparsity_of",
    "strip",
    "with_ranges",
]
