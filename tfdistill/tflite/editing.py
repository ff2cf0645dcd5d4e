"""TFLite flatbuffers as trees of objects: read, changed, and written as the schema requires."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.tools import flatbuffer_utils

from tfdistill import errors
from tfdistill.io import files
from tfdistill.tflite.reader import CONTROL_FLOW, IDENTIFIER, dtype_name, operator_name, text

_ALIGNMENT = 16  # bytes: what the schema asks for the data of a buffer


def read(path: files.Path) -> Any:
    """Reads a .tflite file as a tree of objects (`schema_py_generated.ModelT`).

    Names are bytes, the data of a buffer is a NumPy array or None; constants that follow the
    flatbuffer are read too.
    """
    return flatbuffer_utils.read_model(str(path))


def write(model: Any, path: files.Path) -> None:
    """Writes a tree of objects, its constants inside the flatbuffer and aligned to 16 bytes.

    The generated code does not align them, against the schema; NEON and AVX load aligned numbers
    faster, and some delegates map them as they are. Names, scales and operators that several
    signatures have are stored once: 0.18 MB less for each further signature of a student of 4 x 312
    in int8. The tree stays as it is.
    """
    builder = _SharingBuilder(1024)
    written: dict[Any, int] = {}
    tensors = [tensor for graph in model.subgraphs for tensor in graph.tensors]
    stand_ins = [
        (model, "buffers", [_Buffer(buffer.data) for buffer in model.buffers]),
        *(
            (graph, "operators", [_Once(operator, written) for operator in graph.operators])
            for graph in model.subgraphs
        ),
        *(
            (tensor, "quantization", _Once(tensor.quantization, written))
            for tensor in tensors
            if tensor.quantization is not None
        ),
    ]
    originals = [(owner, name, getattr(owner, name)) for owner, name, _ in stand_ins]
    try:
        for owner, name, value in stand_ins:
            setattr(owner, name, value)
        builder.Finish(model.Pack(builder), file_identifier=IDENTIFIER)
    finally:
        for owner, name, value in originals:
            setattr(owner, name, value)
    pathlib.Path(path).write_bytes(builder.Output())


def name_of(model: Any, operator: Any) -> str:
    """Returns an operator's name, such as "GATHER"."""
    return name_of_code(model.operatorCodes[operator.opcodeIndex])


def name_of_code(code: Any) -> str:
    """Returns the name of the operators of a code."""
    return operator_name(max(code.builtinCode, code.deprecatedBuiltinCode), code.customCode)


def dtype_of(tensor: Any) -> str:
    """Returns the type of a tensor's elements, such as "int4"."""
    return dtype_name(tensor.type)


def shape_of(tensor: Any) -> tuple[int, ...]:
    """Returns a tensor's dimensions; none of a scalar, whose shape may not be written."""
    return () if tensor.shape is None else tuple(int(size) for size in tensor.shape)


def step_of(tensor: Any) -> tuple[float, int] | None:
    """Returns scale and zero point of a tensor with one scale; None of any other."""
    stored = tensor.quantization
    if stored is None or stored.scale is None or len(stored.scale) != 1:
        return None
    zero_points = stored.zeroPoint
    zero_point = 0 if zero_points is None or not len(zero_points) else int(zero_points[0])
    return float(stored.scale[0]), zero_point


def constant(model: Any, tensor: Any) -> Any:
    """Returns the data of a constant, or None."""
    data = model.buffers[tensor.buffer].data
    return data if data is not None and len(data) else None


def keep_signature(model: Any, key: str) -> None:
    """Cuts a model down to the subgraph of one signature and the constants that it uses, in place.

    Refuses a subgraph that runs others, as loops do.
    """
    entries = {text(entry.signatureKey): entry for entry in model.signatureDefs or []}
    if key not in entries:
        raise errors.ExportError("signature", f"one of {sorted(entries)}", repr(key))
    graph = model.subgraphs[entries[key].subgraphIndex]
    if any(name_of(model, operator) in CONTROL_FLOW for operator in graph.operators):
        raise errors.ExportError(
            f"signature {key!r}",
            "one subgraph",
            "one that runs others, as loops do",
            "It cannot be cut out of the file.",
        )
    model.subgraphs, model.signatureDefs = [graph], [entries[key]]
    entries[key].subgraphIndex = 0
    holders = [*graph.tensors, *(model.metadata or [])]
    used_indices = sorted({0, *(holder.buffer for holder in holders)})
    renumbered = {old: new for new, old in enumerate(used_indices)}
    model.buffers = [model.buffers[old] for old in used_indices]
    for holder in holders:
        holder.buffer = renumbered[holder.buffer]


def drop_unused_buffers(model: Any) -> None:
    """Empties the buffers that no tensor has: they would be written, too."""
    tensors = [tensor for graph in model.subgraphs for tensor in graph.tensors]
    used = {holder.buffer for holder in (*tensors, *(model.metadata or []))}
    for index, buffer in enumerate(model.buffers):
        if index not in used:
            buffer.data = None


def add_input(model: Any, name: str, like: int) -> int:
    """Adds an input that no operator reads to a model's only subgraph, outside its signature.

    Type and shape are those of tensor `like`. Returns its index.
    """
    (graph,) = model.subgraphs
    index = add_tensor_like(graph, name, like)
    graph.inputs = [*graph.inputs, index]
    return index


def add_softmax(model: Any, name: str, temperature: float = 1.0) -> None:
    """Puts softmax with the output `name` behind the only output of a model's only signature.

    The temperature divides the logits. There is one subgraph; it changes in place.
    """
    (graph,), (entry,) = model.subgraphs, model.signatureDefs
    (output,), (named,) = graph.outputs, entry.outputs
    scores = add_tensor_like(graph, name, output)
    operator = new_operator(model, schema.BuiltinOperator.SOFTMAX, 1, [output], [scores])
    operator.builtinOptionsType = schema.BuiltinOptions.SoftmaxOptions
    operator.builtinOptions = schema.SoftmaxOptionsT()
    operator.builtinOptions.beta = 1.0 / temperature
    graph.operators.append(operator)
    graph.outputs = list(operator.outputs)
    named.name, named.tensorIndex = name, scores


def add_constant(model: Any, graph: Any, name: str, value: np.ndarray) -> int:
    """Adds a constant, float32 or int32, to a subgraph in place and returns its index."""
    kinds = {"float32": schema.TensorType.FLOAT32, "int32": schema.TensorType.INT32}
    index = add_tensor(graph, name, list(value.shape), kinds[value.dtype.name])
    graph.tensors[index].buffer = add_buffer(model, value)
    return index


def add_buffer(model: Any, value: np.ndarray) -> int:
    """Adds a buffer with the bytes of an array and returns its index."""
    buffer = schema.BufferT()
    buffer.data = np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8)
    model.buffers.append(buffer)
    return len(model.buffers) - 1


def add_tensor(graph: Any, name: str, shape: list[int], kind: int) -> int:
    """Adds a tensor without data, of a `schema.TensorType`, to a subgraph; returns its index."""
    tensor = schema.TensorT()
    tensor.name, tensor.shape, tensor.type = name.encode(), shape, kind
    tensor.buffer, tensor.hasRank = 0, True  # by the schema buffer 0 is the empty one
    graph.tensors.append(tensor)
    return len(graph.tensors) - 1


def add_tensor_like(graph: Any, name: str, like: int) -> int:
    """Adds a tensor without data, of another one's type and shape, and returns its index."""
    other = graph.tensors[like]
    index = add_tensor(graph, name, other.shape, other.type)
    graph.tensors[index].shapeSignature = other.shapeSignature
    graph.tensors[index].hasRank = other.hasRank
    return index


def new_operator(
    model: Any, builtin: int, version: int, inputs: list[int], outputs: list[int]
) -> Any:
    """Makes an operator without options, of a `schema.BuiltinOperator` and a kernel's version.

    Its code is added to the model where that has none. It reads and writes tensors by their
    indices.
    """
    operator = schema.OperatorT()
    operator.opcodeIndex = _operator_code(model, builtin, version)
    operator.inputs, operator.outputs = inputs, outputs
    return operator


def _operator_code(model: Any, builtin: int, version: int) -> int:
    for index, code in enumerate(model.operatorCodes):
        if max(code.builtinCode, code.deprecatedBuiltinCode) == builtin:
            code.version = max(code.version, version)
            return index
    code = schema.OperatorCodeT()
    code.builtinCode, code.deprecatedBuiltinCode, code.version = builtin, min(builtin, 127), version
    model.operatorCodes.append(code)
    return len(model.operatorCodes) - 1


class _SharingBuilder(flatbuffers.Builder):
    """Writes equal strings and equal vectors of numbers once."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._written: dict[tuple[str, bytes], int] = {}

    def CreateString(self, s: Any, *args: Any) -> int:
        key = ("text", s.encode() if isinstance(s, str) else bytes(s))
        if key not in self._written:
            self._written[key] = super().CreateString(s, *args)
        return self._written[key]

    def CreateNumpyVector(self, x: np.ndarray) -> int:
        key = (x.dtype.str, x.tobytes())
        if key not in self._written:
            self._written[key] = super().CreateNumpyVector(x)
        return self._written[key]


@dataclasses.dataclass(frozen=True)
class _Once:
    """Replaces a part of a model while it is packed: equal ones are written once."""

    part: Any
    written: dict[Any, int]

    def Pack(self, builder: flatbuffers.Builder) -> int:
        """Writes the part, unless an equal one is there, and returns its offset."""
        key = _content(self.part)
        if key not in self.written:
            self.written[key] = self.part.Pack(builder)
        return self.written[key]


def _content(value: Any) -> Any:
    """The content of a part of the tree, as a key."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.tobytes()
    if isinstance(value, list):
        return tuple(map(_content, value))
    if hasattr(value, "__dict__"):
        return type(value).__name__, tuple((k, _content(v)) for k, v in vars(value).items())
    return value


@dataclasses.dataclass(frozen=True)
class _Buffer:
    """Replaces BufferT while a model is packed."""

    data: Any

    def Pack(self, builder: flatbuffers.Builder) -> int:
        """Writes the buffer and returns its offset. The name is the generated code's."""
        offset = None
        if self.data is not None and len(self.data):
            content = np.asarray(bytearray(self.data), np.uint8)
            builder.StartVector(1, len(content), _ALIGNMENT)
            builder.head -= len(content)
            builder.Bytes[builder.head : builder.head + len(content)] = content.tobytes()
            offset = builder.EndVector()
        schema.BufferStart(builder)
        if offset is not None:
            schema.BufferAddData(builder, offset)
        return schema.BufferEnd(builder)
