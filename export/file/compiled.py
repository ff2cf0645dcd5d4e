"""A file's signatures with one copy of the weights in memory.

XNNPACK rearranges the weights of a subgraph into the order in which it reads them, and keeps the
result. LiteRT's Interpreter does this for each signature by itself, so that a file with three
lengths takes the memory of three. Its CompiledModel can be given a cache of rearranged weights,
where each is kept once; a name instead of a file keeps the cache in memory. On Android this is
``CompiledModel.Options`` with ``CpuOptions(xnnPackWeightCachePath = ...)``.
"""

from __future__ import annotations

import math

import numpy as np
from ai_edge_litert import compiled_model, cpu_options, options

from tfdistill import errors, files

_IN_MEMORY = ":memory:"  # what LiteRT calls a cache without a file


class CompiledFile:
    """A TFLite file in LiteRT's CompiledModel, on the CPU.

    Attributes:
      signatures: Keys of the signatures, in the order of the file.
    """

    def __init__(self, path: files.Path, threads: int = 1, *, share_weights: bool = True) -> None:
        """Opens the file.

        Args:
          path: The .tflite file.
          threads: Threads.
          share_weights: Whether the signatures share rearranged weights.

        Raises:
          ExportError: If it cannot be opened.
        """
        cpu = cpu_options.CpuOptions(
            num_threads=threads, xnnpack_weight_cache_path=_IN_MEMORY if share_weights else ""
        )
        try:
            self._model = compiled_model.CompiledModel.from_file(
                str(path), options=options.Options(cpu_options=cpu)
            )
        except (ValueError, RuntimeError, OSError) as error:
            raise errors.ExportError(
                f"model file {path}", "a file that LiteRT opens", error
            ) from error
        self.signatures = tuple(self._model.get_signature_list())
        self._buffers: dict[str, tuple[dict, dict, dict]] = {}

    def answer(self, signature: str, **features: np.ndarray) -> dict[str, np.ndarray]:
        """Runs a signature.

        Args:
          signature: Its key.
          **features: Its inputs by name, in their shapes and types.

        Returns:
          Its outputs by name.

        Raises:
          ExportError: If there is no such signature, or an input is missing or of another shape.
        """
        if signature not in self._buffers:
            self._buffers[signature] = self._allocate(signature)
        inputs, outputs, shapes = self._buffers[signature]
        wanted = self._model.get_input_tensor_details(signature)
        expected = {name: (t["dtype"], tuple(t["shape"])) for name, t in sorted(wanted.items())}
        found = {name: (v.dtype.name, v.shape) for name, v in sorted(features.items())}
        if found != expected:
            raise errors.ExportError(f"inputs of {signature}", expected, found)
        for name, buffer in inputs.items():
            buffer.write(features[name])
        self._model.run_by_name(signature, inputs, outputs)
        return {
            name: buffer.read(math.prod(shape), dtype).reshape(shape)
            for (name, buffer), (shape, dtype) in zip(outputs.items(), shapes.values(), strict=True)
        }

    def ones(self, signature: str) -> dict[str, np.ndarray]:
        """Returns inputs of a signature to try it with: ones in its shapes and types.

        Raises:
          ExportError: If there is no such signature.
        """
        self._check(signature)
        return {
            name: np.ones(tensor["shape"], tensor["dtype"])
            for name, tensor in self._model.get_input_tensor_details(signature).items()
        }

    def _check(self, signature: str) -> None:
        if signature not in self.signatures:
            raise errors.ExportError("signature", f"one of {self.signatures}", repr(signature))

    def _allocate(self, signature: str) -> tuple[dict, dict, dict]:
        self._check(signature)
        names = self._model.get_signature_list()[signature]
        details = self._model.get_output_tensor_details(signature)
        inputs = {
            name: self._model.create_input_buffer_by_name(signature, name)
            for name in names["inputs"]
        }
        outputs = {
            name: self._model.create_output_buffer_by_name(signature, name)
            for name in names["outputs"]
        }
        shapes = {
            name: (tuple(details[name]["shape"]), np.dtype(details[name]["dtype"]))
            for name in outputs
        }
        return inputs, outputs, shapes
