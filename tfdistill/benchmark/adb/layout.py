"""What `benchmark_model` needs of a file: the tensors of one signature in its own order.

The tool binds inputs by position, in the order of the subgraph, and merely
warns where a name differs. It writes all outputs one after the other, in the subgraph's order.
Both orders are known from the file alone.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping

import numpy as np

from tfdistill import errors, files
from tfdistill.benchmark import modelfile
from tfdistill.tflite import reader

_DTYPES = {
    name: np.dtype(name).newbyteorder("<")
    for name in ("float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")
}


@dataclasses.dataclass(frozen=True)
class TensorLayout:
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
class SignatureLayout:
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
    inputs: tuple[TensorLayout, ...]
    outputs: tuple[TensorLayout, ...]


def read_layout(path: files.Path, entry: modelfile.EntryPoint) -> SignatureLayout:
    """Reads the order, types and shapes of an entry point's tensors.

    Args:
      path: A .tflite file that `modelfile.read_entry_points` could read.
      entry: One of its entry points.

    Returns:
      The layout.

    Raises:
      BenchmarkError: If the tool cannot be given the tensors: a type that it does not
        read from files, a dynamic shape, or a name with a comma.
    """
    model = reader.read(path)
    index, labels = 0, dict[int, str]()
    for signature in model.signatures:
        if signature.key == entry.signature:
            index = signature.subgraph
            labels = {at: name for name, at in (signature.inputs | signature.outputs).items()}
    graph = model.subgraphs[index]
    roles = {value.name: role for role, value in entry.inputs.items()}
    what = f"{pathlib.Path(path).name}, signature {entry.signature}"
    inputs = tuple(_tensor(graph, at, labels, roles, what) for at in graph.inputs)
    outputs = tuple(_tensor(graph, at, labels, {}, what) for at in graph.outputs)
    if {tensor.role for tensor in inputs} != set(entry.inputs) or len(inputs) != len(entry.inputs):
        raise errors.BenchmarkError(
            f"inputs of {what}",
            f"those of its signature ({', '.join(roles)})",
            ", ".join(tensor.name for tensor in inputs),
            "`benchmark_model` feeds all inputs of the graph. Export the file again.",
        )
    number = len(model.signatures)
    return SignatureLayout(entry.signature, number, index, len(graph.operators), inputs, outputs)


def _tensor(
    graph: reader.Subgraph,
    index: int,
    labels: Mapping[int, str],
    roles: Mapping[str, str],
    what: str,
) -> TensorLayout:
    tensor = graph.tensors[index]
    label = labels.get(index, tensor.name)
    dtype = _DTYPES.get(tensor.dtype)
    if dtype is None or "," in tensor.name or any(size < 1 for size in tensor.shape):
        raise errors.BenchmarkError(
            f"tensor {tensor.name!r} of {what}",
            "numbers of a static shape, and a name without a comma",
            f"{tensor.dtype}, shape {tensor.shape}",
            "`benchmark_model` cannot be given it. Export the file again.",
        )
    return TensorLayout(tensor.name, label, roles.get(label), dtype, tensor.shape)
