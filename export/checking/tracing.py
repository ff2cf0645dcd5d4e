"""The tensors that a signature of a file computes on the way to its outputs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from ai_edge_litert import interpreter as litert

from tfdistill import errors
from tfdistill.io import files
from tfdistill.tasks.encoded import EncodedExamples, pad
from tfdistill.tflite import editing

from ..model import signature


class SignatureTrace:
    """A signature's `graph`, cut out and run with every tensor kept; `details` are LiteRT's."""

    def __init__(self, source: files.Path, length: int, copy: files.Path) -> None:
        model = editing.read(source)
        editing.keep_signature(model, signature.signature_name(length))
        editing.write(model, copy)
        (self.graph,) = model.subgraphs
        self._length = length
        try:
            self._interpreter = litert.Interpreter(
                str(copy),
                experimental_preserve_all_tensors=True,
                # XNNPACK does not give out the tensors inside its partitions.
                experimental_op_resolver_type=(
                    litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
                ),
            )
            self._runner = self._interpreter.get_signature_runner()
        except (ValueError, RuntimeError) as error:
            what = f"model file {source}"
            raise errors.ExportError(what, "a file that LiteRT runs", error) from error
        details: list[dict[str, Any]] = self._interpreter.get_tensor_details()
        self.details = {int(detail["index"]): detail for detail in details}

    def run(self, encoded: EncodedExamples) -> Iterator[Callable[[int], np.ndarray]]:
        """Runs one example after the other; yields what gives a copy of a tensor of it."""
        for example in range(len(encoded)):
            features = pad(encoded, [example], self._length)
            names = self._runner.get_input_details()
            self._runner(**{name: features[name] for name in names})
            yield self._interpreter.get_tensor


@contextlib.contextmanager
def trace(source: files.Path, length: int) -> Iterator[SignatureTrace]:
    """Opens the signature of so many tokens."""
    with files.temporary_folder("trace") as folder:
        yield SignatureTrace(source, length, folder / "signature.tflite")
