"""A quantized file beside the float32 file of the same network: operator by operator.

Quantizers keep the operators and their order. They only put QUANTIZE and DEQUANTIZE between them,
and replace GATHER by EMBEDDING_LOOKUP, or by GATHER with ids (L,), between two RESHAPEs. So the two
networks are the same one exactly if, without these, each operator has the same kind, options and
inputs; what may differ is how constants and activations are stored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from tfdistill.tflite import editing
from tfdistill.tflite.reader import text

RECODING = ("QUANTIZE", "DEQUANTIZE")
_LOOKUP = "EMBEDDING_LOOKUP"
# Options that say how numbers are stored, not what is computed.
_OF_STORAGE = ("asymmetricQuantizeInputs", "quantizedBiasType", "weightsFormat")
_OF_SHAPE = ("keepNumDims",)
_MOST_FAULTS = 5  # of one signature: what follows a wrong operator is wrong, too


@dataclasses.dataclass(frozen=True)
class Constant:
    """A constant of the float file and the one that replaces it."""

    operator: str  # name of the operator's output in the float file, which has the layer's name
    kind: str  # the operator, "FULLY_CONNECTED"
    float_tensor: int  # index in the float file's subgraph
    tensor: int  # index in the quantized file's subgraph
    position: int  # which input of the operator it is
    recoded: bool  # whether the quantized file makes floats of it before the operator
    siblings: tuple[int, ...]  # the operator's inputs in the quantized file


@dataclasses.dataclass(frozen=True)
class Operation:
    """One operator in both files."""

    name: str  # name of its first output in the float file
    kind: str
    float_index: int  # among the operators of the float file's subgraph
    # for each of its inputs in the float file, the quantized file's tensor that it reads
    inputs: tuple[int, ...]
    # for each of its outputs in the float file, the quantized file's tensor
    outputs: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Pair:
    """One signature in both files."""

    key: str
    float_graph: Any  # the subgraph of the float file
    model: Any  # the quantized file
    graph: Any  # the quantized file's subgraph
    # all operators but those that only recode, and RESHAPE where it may move
    operations: tuple[Operation, ...]
    constants: tuple[Constant, ...]  # all constants that are floats in the float file
    # tensor of the quantized file -> the tensor that QUANTIZE or the like made it of
    recoded_from: Mapping[int, int]
    # tensor in the float file -> tensor in the quantized file, of the signature's outputs
    outputs: Mapping[int, int]
    faults: tuple[str, ...]  # where the networks differ, a line each


def chain(pairing: Pair, tensor: int) -> list[int]:
    """Returns a tensor of the quantized file and those that it was recoded from, the first last."""
    found_ones = [tensor]
    while found_ones[-1] in pairing.recoded_from:
        found_ones.append(pairing.recoded_from[found_ones[-1]])
    return found_ones


def pair(float_model: Any, model: Any, *, reshapes_move: bool = False) -> list[Pair]:
    """Pairs the signatures that both a float32 file and a quantized one have.

    With `reshapes_move`, RESHAPE may be before another operator or behind it; then shapes are
    compared, but for sides of 1.
    """
    entries = {text(entry.signatureKey): entry for entry in model.signatureDefs or []}
    pairs = []
    for entry in float_model.signatureDefs or []:
        key = text(entry.signatureKey)
        if key in entries:
            pairing = _Pairing(float_model, entry, model, entries[key], reshapes_move)
            pairs.append(pairing.run(key))
    return pairs


class _Pairing:
    """Follows both subgraphs of one signature in execution order."""

    def __init__(
        self, float_model: Any, float_entry: Any, model: Any, entry: Any, reshapes_move: bool
    ) -> None:
        self._float_model, self._model = float_model, model
        self._float_entry, self._entry = float_entry, entry
        self._float_graph = float_model.subgraphs[float_entry.subgraphIndex]
        self._graph = model.subgraphs[entry.subgraphIndex]
        self._same: dict[int, int] = {}  # tensor of the quantized file -> of the float file
        self._recoded: dict[int, int] = {}
        self._reshaped: dict[int, int] = {}  # tensor of the float file -> what it was made of
        self._reshapes_move = reshapes_move
        self._faults: list[str] = []
        self._constants: list[Constant] = []

    def run(self, key: str) -> Pair:
        """Pairs inputs, operators and outputs."""
        self._pair_inputs()
        operators = self._without_recoding()
        float_operators = list(enumerate(self._float_graph.operators))
        if self._reshapes_move:
            float_operators = self._without_reshapes(float_operators)
        names = [editing.name_of(self._float_model, operator) for _, operator in float_operators]
        others = [editing.name_of(self._model, operator) for operator in operators]
        done = []
        if len(float_operators) != len(operators):
            counts = len(float_operators), len(operators)
            self._faults.append("operators: expected {}, received {}".format(*counts))
        rows = zip(float_operators, operators, names, others)  # noqa: B905 (where one is longer)
        for (index, operator), other, name, received in rows:
            done.append(self._pair_operator(index, operator, other, name, received))
            if len(self._faults) >= _MOST_FAULTS:
                break
        outputs = {} if self._faults else self._pair_outputs()
        return Pair(
            key,
            self._float_graph,
            self._model,
            self._graph,
            tuple(done),
            tuple(self._constants),
            self._recoded,
            outputs,
            tuple(f"{key}, {fault}" for fault in self._faults),
        )

    def _pair_inputs(self) -> None:
        float_inputs = {text(item.name): item.tensorIndex for item in self._float_entry.inputs}
        inputs = {text(item.name): item.tensorIndex for item in self._entry.inputs}
        if set(float_inputs) != set(inputs):
            self._faults.append(
                f"inputs: expected {sorted(float_inputs)}, received {sorted(inputs)}"
            )
        both = float_inputs.keys() & inputs.keys()
        self._same.update({inputs[name]: float_inputs[name] for name in both})

    def _pair_outputs(self) -> dict[int, int]:
        float_outputs = {text(item.name): item.tensorIndex for item in self._float_entry.outputs}
        outputs = {text(item.name): item.tensorIndex for item in self._entry.outputs}
        for name in float_outputs:
            source = self._same.get(self._root(outputs.get(name, -1)))
            if source != self._float_root(float_outputs[name]):
                self._faults.append(f"output {name}: expected {self._name(float_outputs[name])}, "
                                    f"received {self._name(source)}")  # fmt: skip
        return {float_outputs[name]: outputs[name] for name in float_outputs if name in outputs}

    def _without_reshapes(self, operators: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
        """Returns the float file's other operators, and notes what RESHAPE makes of what."""
        others = []
        for index, operator in operators:
            if editing.name_of(self._float_model, operator) == "RESHAPE":
                self._reshaped[int(operator.outputs[0])] = int(operator.inputs[0])
            else:
                others.append((index, operator))
        return others

    def _float_root(self, tensor: int) -> int:
        while tensor in self._reshaped:
            tensor = self._reshaped[tensor]
        return tensor

    def _without_recoding(self) -> list[Any]:
        """Returns the operators that compute, and notes what the others recode."""
        computing = []
        names = [editing.name_of(self._model, operator) for operator in self._graph.operators]
        shaped = {
            int(operator.outputs[0])
            for operator, name in zip(self._graph.operators, names, strict=True)
            if name == "RESHAPE"
        }
        # The ids are the first input of a lookup, and the second of a GATHER.
        looked_up = {
            int(operator.inputs[0 if name == _LOOKUP else 1])
            for operator, name in zip(self._graph.operators, names, strict=True)
            if name == _LOOKUP or (name == "GATHER" and int(operator.inputs[1]) in shaped)
        }
        rows = set()
        for operator, name in zip(self._graph.operators, names, strict=True):
            source, target = int(operator.inputs[0]), int(operator.outputs[0])
            around = name == "RESHAPE" and (
                self._reshapes_move or target in looked_up or source in rows
            )
            flat = name == "GATHER" and int(operator.inputs[1]) in looked_up
            if name == _LOOKUP or flat or (name in RECODING and source in rows):
                rows.add(target)
            if name in RECODING or around:
                self._recoded[target] = source
            else:
                computing.append(operator)
        return computing

    def _root(self, tensor: int) -> int:
        while tensor in self._recoded:
            tensor = self._recoded[tensor]
        return tensor

    def _pair_operator(
        self, index: int, operator: Any, other: Any, name: str, received: str
    ) -> Operation:
        inputs = [int(i) for i in operator.inputs]
        other_inputs = [int(i) for i in other.inputs]
        label = text(self._float_graph.tensors[operator.outputs[0]].name)
        if name == "GATHER" and received == _LOOKUP:
            other_inputs = other_inputs[::-1]  # (ids, table), where GATHER has (table, ids)
        elif name != received:
            self._faults.append(f"{label}: expected {name}, received {received}")
        elif self._options(operator) != self._options(other):
            self._faults.append(
                f"options of {name} {label}: expected {self._options(operator)}, "
                f"received {self._options(other)}"
            )
        if len(inputs) != len(other_inputs) or len(operator.outputs) != len(other.outputs):
            received = f"received {len(other_inputs)}"
            self._faults.append(f"{label}: expected {len(inputs)} inputs, {received}")
        siblings = tuple(other_inputs)
        tensors = zip(inputs, other_inputs)  # noqa: B905 (where one is longer)
        for position, (float_tensor, other_tensor) in enumerate(tensors):
            self._pair_input(float_tensor, other_tensor, position, siblings, name, label)
        for float_tensor, other_tensor in zip(operator.outputs, other.outputs):  # noqa: B905
            self._same[int(other_tensor)] = int(float_tensor)
            both = ((self._float_graph, float_tensor), (self._graph, other_tensor))
            shapes = [editing.shape_of(graph.tensors[i]) for graph, i in both]
            sides = [[side for side in shape if side != 1] for shape in shapes]
            if self._reshapes_move and sides[0] != sides[1]:
                self._faults.append(f"shape of {label}: expected {sides[0]}, received {sides[1]}")
        return Operation(
            label, name, index, tuple(other_inputs), tuple(int(i) for i in other.outputs)
        )

    def _pair_input(
        self,
        float_index: int,
        index: int,
        position: int,
        siblings: tuple[int, ...],
        kind: str,
        label: str,
    ) -> None:
        root = self._root(index)
        if float_index < 0 or index < 0:
            if float_index != index:
                self._faults.append(f"{label}, input {position}: expected "
                                    f"{self._name(float_index)}, received {index}")  # fmt: skip
            return
        tensor, other = self._float_graph.tensors[float_index], self._graph.tensors[root]
        value = editing.constant(self._float_model, tensor)
        other_value = editing.constant(self._model, other)
        if (value is None) != (other_value is None):
            self._faults.append(f"{label}, input {position}: a constant in one file only")
        elif value is None:
            if self._same.get(root) != self._float_root(float_index):
                self._faults.append(
                    f"{label}, input {position}: expected {self._name(float_index)}, "
                    f"received {self._name(self._same.get(root))}"
                )
        elif editing.dtype_of(tensor) == "float32":
            recoded = root != index
            self._constants.append(
                Constant(label, kind, float_index, root, position, recoded, siblings)
            )  # fmt: skip
        elif tensor.type != other.type or not np.array_equal(value, other_value):
            self._faults.append(f"{label}, input {position}: another constant")

    def _options(self, operator: Any) -> dict[str, Any]:
        """Returns what an operator is told to compute."""
        left_out = _OF_STORAGE + (_OF_SHAPE if self._reshapes_move else ())
        compared: dict[str, Any] = {"type": operator.builtinOptionsType}
        options = operator.builtinOptions
        for name, value in (vars(options) if options is not None else {}).items():
            if name not in left_out:
                compared[name] = value.tolist() if isinstance(value, np.ndarray) else value
        return compared

    def _name(self, tensor: int | None) -> str:
        if tensor is None or tensor < 0:
            return "nothing of the float32 file"
        return text(self._float_graph.tensors[tensor].name)
