"""TFLite flatbuffers as objects: read, changed, and written as the schema wants them."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.tools import flatbuffer_utils

from tfdistill import errors, files

IDENTIFIER = b"TFL3"
_ALIGNMENT = 16  # bytes: what the schema asks for the data of a buffer


def read(path: files.Path) -> Any:
    """Reads a file as a tree of objects (`schema_py_generated.ModelT`).

    Args:
      path: A .tflite file; constants that lie behind its flatbuffer are read too.

    Returns:
      The model. Names are bytes, the data of a buffer is a NumPy array or None.
    """
    return flatbuffer_utils.read_model(str(path))


def write(model: Any, path: files.Path) -> None:
    """Writes a tree of objects, its constants inside the flatbuffer and aligned to 16 bytes.

    The generated code writes them where they come to lie, against the schema; NEON and AVX load
    aligned numbers faster, and some delegates map them as they are.

    Args:
      model: What `read` returned, changed or not. It stays as it is.
      path: The file to write.
    """
    builder = flatbuffers.Builder(1024)
    buffers = model.buffers
    model.buffers = [_Buffer(buffer.data) for buffer in buffers]
    try:
        builder.Finish(model.Pack(builder), file_identifier=IDENTIFIER)
    finally:
        model.buffers = buffers
    pathlib.Path(path).write_bytes(builder.Output())


def keep_signature(model: Any, key: str) -> None:
    """Cuts a model down to the subgraph of one signature and the constants that it uses.

    Args:
      model: What `read` returned; changed in place.
      key: The signature to keep.

    Raises:
      ExportError: If the file has no such signature, or the subgraph runs others (loops do).
    """
    entries = {_text(entry.signatureKey): entry for entry in model.signatureDefs or []}
    if key not in entries:
        raise errors.ExportError(
            errors.explain("signature", f"one of {sorted(entries)}", repr(key))
        )
    graph = model.subgraphs[entries[key].subgraphIndex]
    for operator in graph.operators:
        options = vars(operator.builtinOptions) if operator.builtinOptions is not None else {}
        if any(name.endswith("SubgraphIndex") for name in options):
            raise errors.ExportError(
                errors.explain(
                    f"signature {key!r}",
                    "one subgraph",
                    "one that runs others, as loops do",
                    "It cannot be cut out of the file.",
                )
            )
    model.subgraphs, model.signatureDefs = [graph], [entries[key]]
    entries[key].subgraphIndex = 0
    holders = [*graph.tensors, *(model.metadata or [])]
    kept = sorted({0, *(holder.buffer for holder in holders)})
    places = {old: new for new, old in enumerate(kept)}
    model.buffers = [model.buffers[old] for old in kept]
    for holder in holders:
        holder.buffer = places[holder.buffer]


def add_input(model: Any, name: str, like: int) -> int:
    """Adds an input that no operator reads to a model's only subgraph, outside its signature.

    Args:
      model: What `read` returned; changed in place.
      name: Name of the tensor.
      like: Index of the tensor whose type and shape it takes.

    Returns:
      The index of the new tensor.
    """
    (graph,) = model.subgraphs
    graph.tensors.append(_tensor_like(graph.tensors[like], name))
    index = len(graph.tensors) - 1
    graph.inputs = [*graph.inputs, index]
    return index


def add_softmax(model: Any, name: str) -> None:
    """Puts softmax behind the only output of a model's only subgraph and its only signature.

    Args:
      model: What `read` returned; changed in place.
      name: New name of the output.
    """
    (graph,), (entry,) = model.subgraphs, model.signatureDefs
    (output,), (named,) = graph.outputs, entry.outputs
    code, operator = schema.OperatorCodeT(), schema.OperatorT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.SOFTMAX
    code.version = 1
    model.operatorCodes.append(code)
    graph.tensors.append(_tensor_like(graph.tensors[output], name))
    operator.opcodeIndex = len(model.operatorCodes) - 1
    operator.inputs, operator.outputs = [output], [len(graph.tensors) - 1]
    operator.builtinOptionsType = schema.BuiltinOptions.SoftmaxOptions
    operator.builtinOptions = schema.SoftmaxOptionsT()
    operator.builtinOptions.beta = 1.0
    graph.operators.append(operator)
    graph.outputs = list(operator.outputs)
    named.name, named.tensorIndex = name, operator.outputs[0]


def _tensor_like(other: Any, name: str) -> Any:
    tensor = schema.TensorT()
    tensor.name, tensor.buffer = name, 0  # by the schema buffer 0 is the empty one
    tensor.type, tensor.shape = other.type, other.shape
    tensor.shapeSignature, tensor.hasRank = other.shapeSignature, other.hasRank
    return tensor


def _text(value: bytes | str) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else value


@dataclasses.dataclass(frozen=True)
class _Buffer:
    """Stands in for BufferT while a model is packed."""

    data: Any

    def Pack(self, builder: flatbuffers.Builder) -> int:
        """Writes the buffer; returns where it is. The name is that of the generated code."""
        place = None
        if self.data is not None and len(self.data):
            content = np.asarray(bytearray(self.data), np.uint8)
            builder.StartVector(1, len(content), _ALIGNMENT)
            builder.head -= len(content)
            builder.Bytes[builder.head : builder.head + len(content)] = content.tobytes()
            place = builder.EndVector()
        schema.BufferStart(builder)
        if place is not None:
            schema.BufferAddData(builder, place)
        return schema.BufferEnd(builder)
