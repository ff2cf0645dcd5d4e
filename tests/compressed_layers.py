"""What compression leaves of the matrices of a model."""

import fnmatch

import numpy as np

from tfdistill.compress import clustering, pruning


def chosen(model, layers, matrices):
    named = (layer for layer in model.layers if any(fnmatch.fnmatch(layer.name, p) for p in layers))
    for layer in named:
        for kind, attribute in matrices.items():
            if isinstance(layer, kind):
                yield layer.name, getattr(layer, attribute).numpy()


def sparsity_of(model, layers=pruning.LAYERS):
    return {n: float(np.mean(w == 0)) for n, w in chosen(model, layers, pruning.MATRICES)}


def clusters_of(model):
    matrices = chosen(model, clustering.LAYERS, clustering._MATRICES)
    return {name: len(np.unique(weights)) for name, weights in matrices}
