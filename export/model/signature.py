"""A model as a SavedModel with one signature for each sequence length.

Every signature has static shapes, (1, length), which is what phone delegates accept, and all of
them refer to the same variables, so that the converter stores each weight once.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tf_keras as keras

from tfdistill import errors
from tfdistill.io import files

from . import graph

PREFIX = "len"


def signature_name(length: int) -> str:
    """Returns the key of the signature for `length` tokens, for example "len32"."""
    return f"{PREFIX}{length}"


def check_lengths(lengths: Sequence[int], max_positions: int) -> tuple[int, ...]:
    """Returns the lengths in ascending order; each must be there once and fit the model."""
    chosen = tuple(lengths)
    whole = all(isinstance(length, int) and not isinstance(length, bool) for length in chosen)
    if not chosen or not whole or len(set(chosen)) != len(chosen):
        raise errors.ConfigError("lengths", "different whole numbers of tokens", lengths)
    if min(chosen) < 2 or max(chosen) > max_positions:
        raise errors.ConfigError(
            "lengths",
            f"2 (for [CLS] and [SEP]) to {max_positions} tokens, the model's positions",
            lengths,
            "Leave the others out; longer inputs need a model with more positions.",
        )
    return tuple(sorted(chosen))


def save(
    model: keras.Model, folder: files.Path, *, lengths: Sequence[int], softmax: bool = False
) -> None:
    """Writes the SavedModel that the converter reads; an OSError names `folder`.

    Each signature takes the model's inputs by name, int32 (1, length), and returns what
    `graph.forward` gives, by name.
    """
    run = graph.forward(model, softmax=softmax)
    module = tf.Module()
    # The variables alone: tracking the model would also trace and save each of its layers.
    module.variables_of_model = model.weights
    signatures: dict[str, Any] = {}
    for length in lengths:
        specs = {
            name: tf.TensorSpec((1, length), tf.int32, name=name) for name in model.input_names
        }

        @tf.function(input_signature=[specs], autograph=False)
        def entry(features: graph.Features) -> graph.Features:
            return run(features)

        signatures[signature_name(length)] = entry.get_concrete_function()
    try:
        tf.saved_model.save(module, str(folder), signatures=signatures)
    except (tf.errors.OpError, OSError) as error:
        fault = errors.errno_of(error)
        if fault is not None:
            raise OSError(fault, os.strerror(fault), str(folder)) from error
        raise errors.ExportError("SavedModel", f"it to be written to {folder}", error) from error
