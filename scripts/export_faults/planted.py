"""The faults of the inference graph, by name.

Two places lie between a trained model and its file: the inference graph that the export builds (its
weights, its layers, its inputs), and the converted file (`planted_files`). A fault of the graph is
the same in every number format.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras
from networks import KNOWN_IDS, KNOWN_LENGTH, LENGTHS, VOCAB_SIZE

from tfdistill import compress, models
from tfdistill.models.heads import build_model, read_head

Features = dict[str, tf.Tensor]
Weights = dict[str, list[np.ndarray]]


class Inapplicable(Exception):
    """The network or file has nothing that the fault could be planted in."""


@dataclasses.dataclass(frozen=True)
class Graph:
    """A fault of the inference graph.

    Attributes:
      weights: Changes the weights by layer in place, or None.
      config: Changes the architecture, or None.
      features: Changes the inputs, or None.
      ranges: Changes the variables of a quantization-aware model's ranges in place, or None.
      layers: Changes the layers of the copy in place, or None.
    """

    weights: Callable[[Weights], None] | None = None
    config: Callable[[Any], dict[str, Any]] | None = None
    features: Callable[[Features], Features] | None = None
    ranges: Callable[[dict[str, Any]], None] | None = None
    layers: Callable[[keras.Model], None] | None = None

    @property
    def of_model(self) -> bool:
        """Whether it lies in the model that the graph is made of."""
        return any((self.weights, self.config, self.ranges, self.layers))


def faulty(model: keras.Model, fault: Graph) -> keras.Model:
    """Returns a copy of a model with a fault in its weights or its architecture.

    Raises:
      Inapplicable: If the model has nothing of the kind.
    """
    if compress.is_quantize_aware(model):
        return _aware(model, fault)
    if fault.ranges is not None:
        raise Inapplicable("no ranges")
    config = models.config_of(model)
    try:
        changes = {} if fault.config is None else fault.config(config)
    except AttributeError as error:
        raise Inapplicable(str(error)) from error
    copy = build_model(config.replace(**changes), read_head(model))
    weights: Weights = {layer.name: layer.get_weights() for layer in model.layers}
    if fault.weights is not None:
        try:
            fault.weights(weights)
        except (KeyError, IndexError) as error:
            raise Inapplicable(str(error)) from error
    before = {layer.name: layer.get_weights() for layer in model.layers}
    same = all(
        np.array_equal(first, second)
        for name in before
        for first, second in zip(before[name], weights[name], strict=True)
    )
    if same and not changes and not fault.layers:
        raise Inapplicable("changes nothing")
    try:
        for layer in copy.layers:
            if layer.weights:
                layer.set_weights(weights[layer.name])
        if fault.layers is not None:
            fault.layers(copy)
    except ValueError as error:  # two matrices of different shapes, no such layer
        raise Inapplicable(str(error)) from error
    return copy


def _aware(model: keras.Model, fault: Graph) -> keras.Model:
    """Plants a fault below the ranges of a quantization-aware model, or in them."""
    plain = compress.strip(model)
    wrong = compress.quantize_aware(plain if fault.ranges else faulty(plain, fault))
    carried = {weight.name: weight for weight in wrong.weights}
    for weight in model.weights:
        if weight.name.endswith(("_min:0", "_max:0", "_batches:0")):
            carried[weight.name].assign(weight)
    if fault.ranges is not None:
        before = [weight.numpy() for weight in wrong.weights]
        try:
            fault.ranges(carried)
        except KeyError as error:
            raise Inapplicable(str(error)) from error
        if all(map(np.array_equal, before, [weight.numpy() for weight in wrong.weights])):
            raise Inapplicable("changes nothing")
    return wrong


def _of_range(name: str, factor: float) -> Graph:
    """A range is wider or narrower: "layer_0_key/output", or "/kernel" for the matrix."""

    def apply(variables: dict[str, Any]) -> None:
        for end in ("_min:0", "_max:0"):
            variables[name + end].assign(factor * variables[name + end])

    return Graph(ranges=apply)


def _exchange_ranges(variables: dict[str, Any]) -> None:
    for end in ("output_min:0", "output_max:0"):
        ends = [variable for name, variable in variables.items() if name.endswith(end)]
        values = [variable.numpy() for variable in ends]
        for variable, value in zip(ends, values[1:] + values[:1], strict=True):
            variable.assign(value)


def _set(name: str, index: int, change: Callable[[np.ndarray], np.ndarray]) -> Graph:
    def apply(weights: Weights) -> None:
        weights[name][index] = change(weights[name][index].copy())

    return Graph(apply)


def _swap(first: str, second: str) -> Graph:
    def apply(weights: Weights) -> None:
        weights[first], weights[second] = weights[second], weights[first]

    return Graph(apply)


def _of_layers(change: Callable[[Weights], None]) -> Graph:
    return Graph(change)


def _of_head(change: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]) -> Graph:
    def apply(weights: Weights) -> None:
        names = ("classifier", "token_classifier", "span_classifier", "vector_dense")
        name = next((name for name in names if name in weights), "classifier")
        kernel, bias = weights[name]
        weights[name] = [np.asarray(new, np.float32) for new in change(kernel, bias)]

    return Graph(apply)


def _copy_layer(source: int, target: int) -> Graph:
    def apply(weights: Weights) -> None:
        names = [name for name in weights if name.startswith(f"layer_{target}_")]
        if not names:
            raise KeyError("no layers")
        for name in names:
            weights[name] = weights[name.replace(f"layer_{target}_", f"layer_{source}_")]

    return Graph(apply)


def _swap_layers(weights: Weights) -> None:
    names = [name for name in weights if name.startswith("layer_0_")]
    if not names:
        raise KeyError("no layers")
    for name in names:
        other = name.replace("layer_0_", "layer_1_")
        weights[name], weights[other] = weights[other], weights[name]


def _skip_layer(number: int) -> Graph:
    """Its two outputs add nothing: what is left is the normalisation of its input."""

    def apply(weights: Weights) -> None:
        for part in ("attention_output", "output"):
            name = f"layer_{number}_{part}"
            weights[name] = [np.zeros_like(weight) for weight in weights[name]]

    return Graph(apply)


def _rows(first: int, last: int | None, value: float = 0.0) -> Callable[[np.ndarray], np.ndarray]:
    def change(table: np.ndarray) -> np.ndarray:
        table[first:last] = value
        return table

    return change


def _one(
    index: tuple[int | slice, ...], change: Callable[[Any], Any]
) -> Callable[[np.ndarray], np.ndarray]:
    def apply(values: np.ndarray) -> np.ndarray:
        values[index] = change(values[index])
        return values

    return apply


def _neighbour(table: np.ndarray) -> np.ndarray:
    table[KNOWN_IDS + 50] = table[KNOWN_IDS + 51]
    return table


def _exchanged_rows(table: np.ndarray) -> np.ndarray:
    first = KNOWN_IDS + 20
    table[[first, first + 1]] = table[[first + 1, first]]
    return table


def _dropped(values: np.ndarray) -> np.ndarray:
    """The rows of a tenth of the neurons are 0, the others larger: dropout that was traced."""
    values *= np.float32(1 / 0.9)
    values[::10] = 0
    return values


def _head(values: np.ndarray) -> np.ndarray:
    values[..., : values.shape[-1] // 4] = 0
    return values


def _rounded(bits: int) -> Callable[[Weights], None]:
    def apply(weights: Weights) -> None:
        for name, arrays in weights.items():
            kind = tf.bfloat16 if bits == 16 else tf.float16
            weights[name] = [tf.cast(tf.cast(w, kind), tf.float32).numpy() for w in arrays]

    return apply


def _inputs(name: str, change: Callable[[tf.Tensor], tf.Tensor]) -> Graph:
    def apply(features: Features) -> Features:
        if name not in features:
            raise Inapplicable(f"no {name}")
        return {**features, name: change(features[name])}

    return Graph(features=apply)


def _last_token(mask: tf.Tensor) -> tf.Tensor:
    return mask * tf.concat([mask[:, 1:], tf.zeros_like(mask[:, :1])], axis=1)


def _scale(factor: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda values: values * np.float32(factor)


def _zero(values: np.ndarray) -> np.ndarray:
    return np.zeros_like(values)


def _of_last(length: int, change: Callable[[tf.Tensor], tf.Tensor]) -> Graph:
    """A fault of the last place of the mask, in the signature of one length."""

    def apply(mask: tf.Tensor) -> tf.Tensor:
        if mask.shape[1] != length:
            return mask
        return tf.concat([mask[:, :-1], change(mask[:, -1:])], axis=1)

    return _inputs("attention_mask", apply)


def _leak(model: keras.Model) -> None:
    """Padding has 6 millionths of the attention: no bound of the outputs shows that."""
    model.get_layer("attention_mask_scores").value = -12.0


def _cut_gate(values: np.ndarray) -> np.ndarray:
    values[:, : values.shape[1] // 4] = 0
    return values


_ATTENTION = "layer_0_attention_layer_norm"
GRAPH: dict[str, Graph] = {
    "ReLU for GELU": Graph(config=lambda c: {"hidden_act": {"gelu": "relu"}[c.hidden_act]}
                           if c.hidden_act == "gelu" else {"hidden_act": "gelu"}),
    "GELU by tanh": Graph(config=lambda c: {"hidden_act": "gelu_tanh"}
                          if c.hidden_act == "gelu" else {}),
    "normalisation eps 1e-3": Graph(config=lambda c: {"layer_norm_eps": 1e-3}
                                    if getattr(c, "normalization", "") != "no_norm" else {}),
    "normalisation eps 1e-2": Graph(config=lambda c: {"layer_norm_eps": 1e-2}
                                    if getattr(c, "normalization", "") != "no_norm" else {}),
    "no trigrams' neighbours": Graph(weights=lambda w: w["embedding_projection"][0].__setitem__(
        slice(0, 32), 0)),
    "token types ignored": _inputs("token_type_ids", tf.zeros_like),
    "token types exchanged": _inputs("token_type_ids", lambda types: 1 - types),
    "mask ignored": _inputs("attention_mask", tf.ones_like),
    "last token masked": _inputs("attention_mask", _last_token),
    "ids shifted by one": _inputs("input_ids", lambda ids: tf.maximum(ids - 1, 0)),
    "tokens reversed": _inputs("input_ids", lambda ids: ids[:, ::-1]),
    "attention scale lost": _set("layer_0_query", 0, _scale(8**0.5)),
    "queries and keys exchanged": _swap("layer_0_query", "layer_0_key"),
    "keys and values exchanged": _swap("layer_1_key", "layer_1_value"),
    "a head zeroed": _set("layer_0_value", 0, _head),
    "heads in another order": _set("layer_0_value", 0, lambda v: np.roll(v, v.shape[1] // 4, 1)),
    "heads of the last layer's queries": _set(
        "layer_1_query", 0, lambda v: np.roll(v, v.shape[1] // 4, 1)),
    "bias of the attention output lost": _set("layer_0_attention_output", 1, _zero),
    "bias of the values lost": _set("layer_1_value", 1, _zero),
    "bias of the intermediate lost": _set("layer_0_intermediate", 1, _zero),
    "bias of the classifier lost": _of_head(lambda kernel, bias: (kernel, 0 * bias)),
    "bias of the pooler lost": _set("pooler", 1, _zero),
    "gamma lost": _set(_ATTENTION, 0, np.ones_like),
    "beta lost": _set(_ATTENTION, 1, _zero),
    "gamma of the embeddings lost": _set("embeddings_layer_norm", 0, np.ones_like),
    "beta of the last layer lost": _set("layer_1_layer_norm", 1, _zero),
    "labels exchanged": _of_head(lambda kernel, bias: (kernel[:, ::-1], bias[::-1])),
    "first layer dropped": _skip_layer(0),
    "last layer dropped": _skip_layer(1),
    "first layer twice": _copy_layer(0, 1),
    "layers exchanged": _of_layers(_swap_layers),
    "unseen words zeroed": _set("word_embeddings", 0, _rows(KNOWN_IDS, None)),
    "one unseen word zeroed": _set("word_embeddings", 0, _rows(KNOWN_IDS + 37, KNOWN_IDS + 38)),
    "one number of one word": _set("word_embeddings", 0, _one((KNOWN_IDS + 3, 5), lambda x: -x)),
    "unseen positions zeroed": _set("position_embeddings", 0, _rows(KNOWN_LENGTH, None)),
    "last position zeroed": _set("position_embeddings", 0, _rows(11, 12)),
    "positions shifted": _set("position_embeddings", 0, lambda t: np.roll(t, 1, 0)),
    "second token type zeroed": _set("token_type_embeddings", 0, _rows(1, 2)),
    "token types' rows exchanged": _set("token_type_embeddings", 0, lambda t: t[::-1]),
    "one weight's sign": _set("layer_0_intermediate", 0, _one((3, 4), lambda x: -x)),
    "one weight of the values": _set("layer_1_value", 0, _one((0, 1), lambda x: x + 0.1)),
    "a column of the output zeroed": _set("layer_1_output", 0, lambda v: np.where(
        np.arange(v.shape[1]) == 2, 0, v).astype(np.float32)),
    "matrix transposed": _set("layer_0_key", 0, lambda v: v.T if v.shape[0] == v.shape[1]
                              else _zero(v)),
    "weights in bfloat16": _of_layers(_rounded(16)),
    "weights in float16": _of_layers(_rounded(10)),
    "pooler's matrix scaled": _set("pooler", 0, _scale(1.1)),
    "classifier scaled": _of_head(lambda kernel, bias: (1.02 * kernel, bias)),
    "temperature": _of_head(lambda kernel, bias: (0.5 * kernel, 0.5 * bias)),
    "a gate of the LSTM": _set("lstm_forward", 0, _cut_gate),
    "forward and backward exchanged": _swap("lstm_forward", "lstm_backward"),
    "bias of the LSTM lost": _set("lstm_backward", 2, _zero),
    "recurrence scaled": _set("lstm_forward", 1, _scale(1.05)),
    "two labels' biases exchanged": _of_head(lambda kernel, bias: (
        kernel, np.concatenate([bias[1::-1], bias[2:]]))),
    "gamma of the last layer in another order": _set(
        "layer_1_layer_norm", 0, lambda v: np.roll(v, 3)),
    "attention scale of one head lost": _set("layer_0_query", 0, _one(
        (slice(None), slice(0, 8)), lambda v: v * np.float32(8**0.5))),
    "one word has its neighbour's row": _set("word_embeddings", 0, _neighbour),
    "two words' rows exchanged": _set("word_embeddings", 0, _exchanged_rows),
    "one factor of the words scaled": _set("embedding_projection", 0, _scale(1.05)),
    "directions of one factor reversed": _set("embedding_projection", 0, lambda v: v[::-1]),
    "last place's mask inverted": _of_last(max(LENGTHS), lambda last: 1 - last),
    "last token of the long signature dropped": _of_last(max(LENGTHS), tf.zeros_like),
    "last id of the vocabulary cut off": _inputs(
        "input_ids", lambda ids: tf.minimum(ids, VOCAB_SIZE - 2)),
    "masked tokens seen": Graph(layers=_leak),
    "a frozen mask of dropout": _set("layer_0_output", 0, _dropped),
    "range of one result doubled": _of_range("layer_0_attention_add/output", 2.0),
    "range of one result 1.1 times": _of_range("layer_1_query/output", 1.1),
    "range of one result halved": _of_range("layer_1_key/output", 0.5),
    "range of one matrix halved": _of_range("layer_0_value/kernel", 0.5),
    "range of one matrix doubled": _of_range("layer_1_value/kernel", 2.0),
    "range of the words doubled": _of_range("word_embeddings/embeddings", 2.0),
    "all ranges of another layer": Graph(ranges=_exchange_ranges),
}  # fmt: skip
