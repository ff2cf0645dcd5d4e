"""The faults of the campaign, by name.

Three places lie between a trained model and its file: the inference graph that the export builds
(its weights, its layers, its inputs), and the converted file (its constants, its operators, its
ranges). A fault of the graph is the same in every number format; one of the file is planted in the
file alone, its float32 conversion stays right.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras
from networks import KNOWN_IDS, KNOWN_LENGTH

from tfdistill import compress, models
from tfdistill.models.heads import build_model, read_head
from tfdistill.tflite import editing
from tfdistill.tflite.reader import text

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
    """

    weights: Callable[[Weights], None] | None = None
    config: Callable[[Any], dict[str, Any]] | None = None
    features: Callable[[Features], Features] | None = None
    ranges: Callable[[dict[str, Any]], None] | None = None


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
        np.array_equal(mine, theirs)
        for name in before
        for mine, theirs in zip(before[name], weights[name], strict=True)
    )
    if same and not changes:
        raise Inapplicable("changes nothing")
    try:
        for layer in copy.layers:
            if layer.weights:
                layer.set_weights(weights[layer.name])
    except ValueError as error:  # two matrices of different shapes
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
        found = [variable for name, variable in variables.items() if name.endswith(end)]
        values = [variable.numpy() for variable in found]
        for variable, value in zip(found, values[1:] + values[:1], strict=True):
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
        found = [name for name in weights if name.startswith(f"layer_{target}_")]
        if not found:
            raise KeyError("no layers")
        for name in found:
            weights[name] = weights[name.replace(f"layer_{target}_", f"layer_{source}_")]

    return Graph(apply)


def _swap_layers(weights: Weights) -> None:
    found = [name for name in weights if name.startswith("layer_0_")]
    if not found:
        raise KeyError("no layers")
    for name in found:
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
    index: tuple[int, ...], change: Callable[[Any], Any]
) -> Callable[[np.ndarray], np.ndarray]:
    def apply(values: np.ndarray) -> np.ndarray:
        values[index] = change(values[index])
        return values

    return apply


def _head(values: np.ndarray) -> np.ndarray:
    values[..., : values.shape[-1] // 4] = 0
    return values


def _rounded(bits: int) -> Callable[[Weights], None]:
    def apply(weights: Weights) -> None:
        for name, found in weights.items():
            kind = tf.bfloat16 if bits == 16 else tf.float16
            weights[name] = [tf.cast(tf.cast(w, kind), tf.float32).numpy() for w in found]

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
    "range of one result doubled": _of_range("layer_0_attention_add/output", 2.0),
    "range of one result 1.1 times": _of_range("layer_1_query/output", 1.1),
    "range of one result halved": _of_range("layer_1_key/output", 0.5),
    "range of one matrix halved": _of_range("layer_0_value/kernel", 0.5),
    "range of one matrix doubled": _of_range("layer_1_value/kernel", 2.0),
    "range of the words doubled": _of_range("word_embeddings/embeddings", 2.0),
    "all ranges of another layer": Graph(ranges=_exchange_ranges),
}  # fmt: skip


@dataclasses.dataclass
class File:
    """A converted file in memory, with what the faults look for.

    Attributes:
      tree: `editing.read`.
      random: Chooses where there are several places.
    """

    tree: Any
    random: np.random.Generator

    def constants(self, *kinds: str, least: int = 0) -> list[tuple[Any, Any]]:
        """Returns (graph, tensor) of constants of some types; each buffer once."""
        found, seen = [], set()
        for graph in self.tree.subgraphs:
            for tensor in graph.tensors:
                data = editing.constant(self.tree, tensor)
                size = int(np.prod(tensor.shape)) if tensor.shape is not None else 1
                if data is None or editing.dtype_of(tensor) not in kinds or size < least:
                    continue
                if tensor.buffer not in seen:
                    seen.add(tensor.buffer)
                    found.append((graph, tensor))
        if not found:
            raise Inapplicable("no such constant")
        return found

    def choose(self, *kinds: str, least: int = 0) -> Any:
        """Returns one of them."""
        found = self.constants(*kinds, least=least)
        return found[int(self.random.integers(len(found)))][1]

    def bytes_of(self, tensor: Any) -> np.ndarray:
        """Returns a constant's bytes, which may be changed, one row for each of its own."""
        buffer = self.tree.buffers[tensor.buffer]
        buffer.data = np.array(bytearray(buffer.data), np.uint8)
        rows = int(tensor.shape[0]) if tensor.shape is not None and len(tensor.shape) > 1 else 1
        return buffer.data.reshape(rows, -1)

    def operators(self, name: str) -> list[tuple[Any, Any]]:
        """Returns (graph, operator) of one kind."""
        found = [
            (graph, operator)
            for graph in self.tree.subgraphs
            for operator in graph.operators
            if editing.name_of(self.tree, operator) == name
        ]
        if not found:
            raise Inapplicable(f"no {name}")
        return found

    def activations(self) -> list[Any]:
        """Returns the tensors that are computed and stored as integers with a scale."""
        found = [
            graph.tensors[index]
            for graph in self.tree.subgraphs
            for operator in graph.operators
            for index in operator.outputs
            if editing.dtype_of(graph.tensors[index]) in ("int8", "int16")
            and graph.tensors[index].quantization is not None
            and graph.tensors[index].quantization.scale is not None
            and len(graph.tensors[index].quantization.scale) == 1
        ]
        if not found:
            raise Inapplicable("no ranges")
        return found


INTEGERS = ("int4", "int8")


def _zero_row(file: File) -> None:
    rows = file.bytes_of(file.choose(*INTEGERS, "float16", least=1024))
    _change(rows[int(file.random.integers(len(rows)))], np.zeros_like)


def _change(row: np.ndarray, change: Callable[[np.ndarray], np.ndarray]) -> None:
    new = change(row.copy())
    if np.array_equal(new, row):
        raise Inapplicable("changes nothing")
    row[:] = new


def _one_step(file: File) -> None:
    tensor = file.choose(*INTEGERS, least=1024)
    row = file.bytes_of(tensor)[0]
    nibble = editing.dtype_of(tensor) == "int4"

    def change(values: np.ndarray) -> np.ndarray:
        signed = values.view(np.int8).astype(int)
        index = int(np.abs(signed).argmin())
        values[index] = (int(values[index]) + (0x20 if nibble else 2)) % 256
        return values

    _change(row, change)


def _exchange_rows(file: File) -> None:
    rows = file.bytes_of(file.choose(*INTEGERS, "float16", least=1024))
    copy = rows.copy()
    if len(rows) < 2 or np.array_equal(copy[0], copy[1]):
        raise Inapplicable("one row")
    rows[0], rows[1] = copy[1], copy[0]


def _unseen_row(file: File) -> None:
    tables = [t for _, t in file.constants(*INTEGERS, "float16", least=1024) if t.shape[0] == 200]
    if not tables:
        raise Inapplicable("no table")
    _change(file.bytes_of(tables[0])[KNOWN_IDS + 50], np.zeros_like)


def _scales(factor: float, all_of: bool) -> Callable[[File], None]:
    def apply(file: File) -> None:
        tensor = file.choose(*INTEGERS, least=1024)
        scale = np.array(tensor.quantization.scale, np.float32)
        scale[slice(None) if all_of else slice(0, 1)] *= np.float32(factor)
        tensor.quantization.scale = scale

    return apply


def _bias(file: File) -> None:
    found = [
        graph.tensors[operator.inputs[2]]
        for graph, operator in file.operators("FULLY_CONNECTED")
        if len(operator.inputs) > 2 and operator.inputs[2] >= 0
    ]
    found = [tensor for tensor in found if editing.constant(file.tree, tensor) is not None]
    found = [tensor for tensor in found if np.any(editing.constant(file.tree, tensor))]
    if not found:
        raise Inapplicable("no bias")
    _change(file.bytes_of(found[0]).reshape(-1), np.zeros_like)


def _gamma(file: File) -> None:
    for graph, operator in file.operators("MUL"):
        for index in operator.inputs:
            tensor = graph.tensors[index]
            data = editing.constant(file.tree, tensor)
            if data is not None and len(tensor.shape if tensor.shape is not None else ()) == 1:
                row = file.bytes_of(tensor).reshape(-1)
                _change(row, lambda values: np.roll(values, len(values) // 2))
                return
    raise Inapplicable("no gamma")


def _exchange_matrices(file: File) -> None:
    found: dict[Any, Any] = {}
    for _, tensor in file.constants(*INTEGERS, "float16", least=1024):
        key = (*tensor.shape, tensor.type)
        if key in found and found[key].buffer != tensor.buffer:
            buffers = file.tree.buffers
            first, second = buffers[found[key].buffer], buffers[tensor.buffer]
            first.data, second.data = second.data, first.data
            return
        found[key] = tensor
    raise Inapplicable("no two of one shape")


def _option(name: str, option: str, value: Any) -> Callable[[File], None]:
    def apply(file: File) -> None:
        for _, operator in file.operators(name):
            if getattr(operator.builtinOptions, option) == value:
                raise Inapplicable("is so already")
            setattr(operator.builtinOptions, option, value)
            return

    return apply


def _rewire(name: str) -> Callable[[File], None]:
    """An operator is left out: its readers read its first input of the same shape."""

    def apply(file: File) -> None:
        for graph, operator in file.operators(name):
            output = int(operator.outputs[0])
            for given in operator.inputs:
                tensor, made = graph.tensors[given], graph.tensors[output]
                alike = tensor.type == made.type and list(tensor.shape) == list(made.shape)
                if given >= 0 and alike and editing.constant(file.tree, tensor) is None:
                    graph.operators = [o for o in graph.operators if o is not operator]
                    for other in graph.operators:
                        other.inputs = [given if i == output else i for i in other.inputs]
                    return
        raise Inapplicable("none to leave out")

    return apply


def _exchange_outputs(file: File) -> None:
    """The second signature has the first one's positions."""
    tables: dict[int, Any] = {}
    for _, tensor in file.constants("float32", "float16", "int8", "int16"):
        shape = [] if tensor.shape is None else list(tensor.shape)
        if len(shape) == 3 and shape[0] == 1 and shape[2] in (32, 64):
            tables[shape[1]] = tensor
    if len(tables) < 2:
        raise Inapplicable("no positions")
    rows = file.bytes_of(tables[max(tables)]).reshape(max(tables), -1)
    if np.array_equal(rows[-1], rows[0]):
        raise Inapplicable("changes nothing")
    rows[-1] = rows[0]


def _ranges(factor: float, every: bool) -> Callable[[File], None]:
    def apply(file: File) -> None:
        found = file.activations()
        if not every:
            wide = [tensor for tensor in found if "MatMul" in text(tensor.name)] or found
            found = wide[:1]
        changed = set()
        for tensor in found:
            if id(tensor.quantization) not in changed:
                changed.add(id(tensor.quantization))
                scale = np.asarray(tensor.quantization.scale, np.float32) * np.float32(factor)
                tensor.quantization.scale = scale

    return apply


def _one_range(factor: float) -> Callable[[File], None]:
    """One range of a product in every signature, which share it."""

    def apply(file: File) -> None:
        places = [
            number
            for number, operator in enumerate(file.tree.subgraphs[0].operators)
            if editing.name_of(file.tree, operator) in ("FULLY_CONNECTED", "BATCH_MATMUL")
        ]
        for graph in file.tree.subgraphs:
            tensor = graph.tensors[graph.operators[places[len(places) // 2]].outputs[0]]
            if all(tensor is not other for other in file.activations()):
                raise Inapplicable("no range")
            own = copy.copy(tensor.quantization)
            own.scale = np.asarray(own.scale, np.float32) * np.float32(factor)
            tensor.quantization = own

    return apply


def _operands(file: File) -> None:
    for _, operator in file.operators("SUB"):
        operator.inputs = list(operator.inputs)[::-1]


FILE: dict[str, Callable[[File], None]] = {
    "a row zeroed": _zero_row,
    "one number two steps off": _one_step,
    "two rows exchanged": _exchange_rows,
    "an unseen word's row zeroed": _unseen_row,
    "a row's scale 1.1 times": _scales(1.1, False),
    "all scales of a matrix doubled": _scales(2.0, True),
    "all scales of a matrix halved": _scales(0.5, True),
    "a bias zeroed": _bias,
    "gamma in another order": _gamma,
    "two matrices exchanged": _exchange_matrices,
    "softmax with beta 0.5": _option("SOFTMAX", "beta", 0.5),
    "GELU approximated": _option("GELU", "approximate", True),
    "a ReLU behind a product": _option("FULLY_CONNECTED", "fusedActivationFunction", 1),
    "an addition left out": _rewire("ADD"),
    "an activation left out": _rewire("GELU"),
    "operands of differences exchanged": _operands,
    "last position of the long signature": _exchange_outputs,
    "one range 32 times as wide": _ranges(32.0, False),
    "one range 1.5 times as wide": _one_range(1.5),
    "one range doubled": _one_range(2.0),
    "one range halved": _ranges(0.5, False),
    "all ranges halved": _ranges(0.5, True),
    "all ranges 16 times as wide": _ranges(16.0, True),
}
