"""What `benchmark_model` has to know of a file: the tensors of one signature in its own order.

The tool binds what it is told about inputs by position, in the order of the subgraph, and merely
warns where a name differs. It writes all outputs one after the other, in the subgraph's order.
Both orders stand in the file and nowhere else.
"""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as flat

from tfdistill import errors, files
from tfdistill.benchmark import modelfile

_DTYPES = {
    flat.TensorType.FLOAT32: np.dtype("<f4"),
    flat.TensorType.FLOAT16: np.dtype("<f2"),
    flat.TensorType.INT32: np.dtype("<i4"),
    flat.TensorType.INT64: np.dtype("<i8"),
    flat.TensorType.INT16: np.dtype("<i2"),
    flat.TensorType.INT8: np.dtype("i1"),
    flat.TensorType.UINT8: np.dtype("u1"),
    flat.TensorType.BOOL: np.dtype("?"),
}


@dataclasses.dataclass(frozen=True)
class Tensor:
    """An input or output.

    Attributes:
      name: Of the tensor in the graph, such as "len32_input_ids:0".
      label: Its name in the signature; the tensor's where there is no signature.
      role: Of an input: input_ids, attention_mask or token_type_ids; of an output None.
      dtype: Little-endian, as on every Android device.
      shape: Static.
    """

    name: str
    label: str
    role: str | None
    dtype: np.dtype
    shape: tuple[int, ...]

    @property
    def num_bytes(self) -> int:
        """Of one value."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


@dataclasses.dataclass(frozen=True)
class Layout:
    """One entry point of a file, as the tool sees it.

    Attributes:
      signature: Key; None where the file has no signature.
      num_signatures: How many the file has.
      subgraph: Its index.
      num_nodes: Operators of the subgraph.
      inputs: In the subgraph's order.
      outputs: In the subgraph's order.
    """

    signature: str | None
    num_signatures: int
    subgraph: int
    num_nodes: int
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


def read_layout(path: files.Path, entry: modelfile.EntryPoint) -> Layout:
    """Reads the order, types and shapes of an entry point's tensors.

    Args:
      path: A .tflite file that `modelfile.read_entry_points` could read.
      entry: One of its entry points.

    Returns:
      The layout.

    Raises:
      BenchmarkError: If the tool could not be told about the tensors: a type that it does not
        read from files, a dynamic shape, or a name with a comma.
    """
    model: Any = flat.Model.GetRootAsModel(pathlib.Path(path).read_bytes(), 0)
    number = model.SignatureDefsLength()
    index = 0
    labels: dict[int, str] = {}
    for i in range(number):
        signature = model.SignatureDefs(i)
        if signature.SignatureKey().decode() == entry.signature:
            index = signature.SubgraphIndex()
            for maps, count in (
                (signature.Inputs, signature.InputsLength()),
                (signature.Outputs, signature.OutputsLength()),
            ):
                labels |= {maps(j).TensorIndex(): maps(j).Name().decode() for j in range(count)}
    graph = model.Subgraphs(index)
    roles = {value.name: role for role, value in entry.inputs.items()}
    what = f"{pathlib.Path(path).name}, signature {entry.signature}"
    inputs = tuple(
        _tensor(graph, graph.Inputs(j), labels, roles, what) for j in range(graph.InputsLength())
    )
    outputs = tuple(
        _tensor(graph, graph.Outputs(j), labels, {}, what) for j in range(graph.OutputsLength())
    )
    if {tensor.role for tensor in inputs} != set(entry.inputs) or len(inputs) != len(entry.inputs):
        raise errors.BenchmarkError(
            errors.explain(
                f"inputs of {what}",
                f"those of its signature ({', '.join(roles)})",
                ", ".join(tensor.name for tensor in inputs),
                "`benchmark_model` feeds all inputs of the graph. Export the file again.",
            )
        )
    return Layout(entry.signature, number, index, graph.OperatorsLength(), inputs, outputs)


def _tensor(
    graph: Any, index: int, labels: dict[int, str], roles: dict[str, str], what: str
) -> Tensor:
    tensor = graph.Tensors(index)
    name = tensor.Name().decode()
    label = labels[index] if index in labels else str(name)
    dtype = _DTYPES.get(tensor.Type())
    shape = _shape(tensor)
    if dtype is None or "," in name or any(size < 1 for size in shape):
        raise errors.BenchmarkError(
            errors.explain(
                f"tensor {name!r} of {what}",
                "numbers of a static shape, and a name without a comma",
                f"type {tensor.Type()}, shape {shape}",
                "`benchmark_model` cannot be told about it. Export the file again.",
            )
        )
    return Tensor(name, label, roles.get(label), dtype, shape)


def _shape(tensor: Any) -> tuple[int, ...]:
    """The declared shape: -1 where a dimension is dynamic."""
    if tensor.ShapeSignatureLength():
        return tuple(tensor.ShapeSignature(i) for i in range(tensor.ShapeSignatureLength()))
    return tuple(tensor.Shape(i) for i in range(tensor.ShapeLength()))
