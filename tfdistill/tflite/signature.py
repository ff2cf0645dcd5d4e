"""The signatures of a .tflite file: which tensors go in and come out, and what each is for.

The process that is measured imports this: it needs NumPy and nothing else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

ROLES = ("input_ids", "attention_mask", "token_type_ids")


@dataclasses.dataclass(frozen=True)
class Tensor:
    """An input or output of a signature.

    Attributes:
      name: Its name in the signature, or in the graph where there is no signature. Two tensors of
        a graph may have one name.
      dtype: For example "int32".
      shape: Its dimensions, -1 where one is only known when the model runs.
      index: Its index in the subgraph, which identifies it.
      graph_name: Its name in the graph.
      role: What it is for, one of `ROLES`; None where that is not known.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    index: int
    graph_name: str = ""
    role: str | None = None

    @property
    def num_bytes(self) -> int:
        """Bytes of its values; its shape must be static."""
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize


@dataclasses.dataclass(frozen=True)
class Signature:
    """One way to run a file.

    Attributes:
      key: Its key, such as "len32"; None for the first subgraph of a file without signatures.
      subgraph: Index of the subgraph that it runs.
      inputs: In the order of the subgraph.
      outputs: In the order of the subgraph.
      vocabulary_rows: Rows of the table that the ids are looked up in; None where not known.
    """

    key: str | None
    subgraph: int
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    vocabulary_rows: int | None = None

    def input_of(self, role: str) -> Tensor | None:
        """Returns the input with a role."""
        return next((tensor for tensor in self.inputs if tensor.role == role), None)

    @property
    def sequence_length(self) -> int:
        """Tokens of its ids, padding included; the roles of its inputs must be known."""
        ids = self.input_of("input_ids")
        assert ids is not None  # `roles.with_roles` saw to it
        return ids.shape[1]

    def padded(
        self, input_ids: Sequence[int], token_type_ids: Sequence[int], *, pad_id: int = 0
    ) -> list[np.ndarray]:
        """Pads one example to the length of the signature.

        Args:
          input_ids: At most `sequence_length` ids.
          token_type_ids: A type for each id.
          pad_id: The id that fills it up; its mask is 0.

        Returns:
          An array (1, sequence_length) for each input, in their order and of their types.
        """
        length, count = self.sequence_length, len(input_ids)
        values = {
            "input_ids": input_ids,
            "attention_mask": np.ones(count, np.int32),
            "token_type_ids": token_type_ids,
        }
        arrays = []
        for tensor in self.inputs:
            filler = pad_id if tensor.role == "input_ids" else 0
            array = np.full((1, length), filler, tensor.dtype)
            array[0, :count] = values[tensor.role or ""]
            arrays.append(array)
        return arrays

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Signature:
        """Makes a signature of what JSON made of `dataclasses.asdict`."""
        sides = {
            side: tuple(
                Tensor(**{**tensor, "shape": tuple(tensor["shape"])}) for tensor in content[side]
            )
            for side in ("inputs", "outputs")
        }
        return cls(**{**content, **sides})


class SignatureRunner:
    """Runs a signature in this process: arrays in the order of its inputs and outputs."""

    def __init__(self, interpreter: Any, signature: Signature) -> None:
        self.signature = signature
        self._interpreter = interpreter
        self._allocated = False
        if signature.key is not None:
            self._run = interpreter.get_signature_runner(signature.key)
            self._inputs = [tensor.name for tensor in signature.inputs]
            self._outputs = [tensor.name for tensor in signature.outputs]

    def __call__(self, values: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Writes the inputs, runs the model and copies its outputs."""
        if self.signature.key is not None:
            outputs = self._run(**dict(zip(self._inputs, values, strict=True)))
            return [outputs[name] for name in self._outputs]
        if not self._allocated:  # as a signature does: the first inference includes it
            for tensor, value in zip(self.signature.inputs, values, strict=True):
                if -1 in tensor.shape:
                    self._interpreter.resize_tensor_input(tensor.index, value.shape)
            self._interpreter.allocate_tensors()
            self._allocated = True
        for tensor, value in zip(self.signature.inputs, values, strict=True):
            self._interpreter.set_tensor(tensor.index, value)
        self._interpreter.invoke()
        return [self._interpreter.get_tensor(tensor.index) for tensor in self.signature.outputs]
