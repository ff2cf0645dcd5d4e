"""Layers that stand inside a wrapper of the same name, as compression puts them."""

from __future__ import annotations

import tf_keras as keras


def layer_of(model: keras.Model, name: str) -> keras.layers.Layer:
    """Returns the layer of that name itself, without the wrapper that may be around it."""
    layer = model.get_layer(name)
    return layer.layer if isinstance(layer, keras.layers.Wrapper) else layer
