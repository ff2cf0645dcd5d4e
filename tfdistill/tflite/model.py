"""A .tflite file, ready to run: in this process, or in one of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import pathlib
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from ai_edge_litert import interpreter as litert

from tfdistill import errors
from tfdistill.io import files
from tfdistill.tflite import child, reader, roles, serving, xnnpack
from tfdistill.tflite.signature import Signature, SignatureRunner
from tfdistill.tflite.xnnpack import Delegation

_MODULE = "tfdistill.tflite.worker"


class TfliteModel(contextlib.AbstractContextManager["TfliteModel"]):
    """A .tflite file that answers: ``TfliteModel(path)(input_ids=ids, attention_mask=mask)``.

    Inputs and outputs are bound by their names in the signature, never by position: converters
    reorder them freely. Threads may share it; they are answered one after the other.

    Args:
      path: The file.
      threads: Threads of LiteRT.
      isolated: Whether the file runs in a process of its own, which ends with the block of `with`:
        a damaged or wrongly wired file may end the process that runs it.
      roles: What inputs are for whose names do not tell it: name, or position from 0, ->
        "input_ids", "attention_mask" or "token_type_ids". `predict` needs it.
      timeout_seconds: The longest wait for one answer of the other process.

    Attributes:
      path: The file.
      signatures: Its signatures by key; by None the graph of a file without signatures.

    Raises:
      ConfigError: If `threads` is no whole number of at least 1.
      ModelFileError: If the file is missing, no TFLite file or damaged, or LiteRT cannot open it.
    """

    def __init__(
        self,
        path: files.Path,
        *,
        threads: int = 1,
        isolated: bool = False,
        roles: Mapping[str, str] | None = None,
        timeout_seconds: float = 600.0,
    ) -> None:
        if not isinstance(threads, int | np.integer) or threads < 1:
            raise errors.ConfigError("threads", "a whole number of at least 1", repr(threads))
        self.path = pathlib.Path(path)
        self._roles = roles
        self._file = reader.read(self.path)
        self.signatures: dict[str | None, Signature] = {
            entry.key: entry for entry in self._file.runnable
        }
        self._lock = threading.Lock()  # an interpreter has one set of tensors
        self._opened: _Here | _Elsewhere
        if isolated:
            job = {"file": str(self.path.resolve()), "threads": threads}
            self._opened = _Elsewhere(self.path, job, timeout_seconds)
        else:
            self._opened = _Here(self.path, threads)

    def __call__(
        self, *, signature: str | None = None, **inputs: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Runs a signature.

        Args:
          signature: Its key; None for the only one.
          **inputs: An array for each input, by name; converted to its type.

        Returns:
          The outputs by name.

        Raises:
          ShapeError: If an input is missing, unknown or of another shape.
          ModelFileError: If the file has no such signature, or LiteRT cannot run it.
        """
        entry = self._signature(signature)
        names = [tensor.name for tensor in entry.inputs]
        if sorted(names) != sorted(inputs):
            raise errors.ShapeError(
                f"inputs of signature {entry.key}", ", ".join(names), ", ".join(inputs) or "none"
            )
        arrays = []
        for tensor in entry.inputs:
            value = np.asarray(inputs[tensor.name], tensor.dtype)
            fits = len(value.shape) == len(tensor.shape) and all(
                size in (-1, actual) for size, actual in zip(tensor.shape, value.shape, strict=True)
            )
            if not fits:
                raise errors.ShapeError(f"input {tensor.name}", tensor.shape, value.shape)
            arrays.append(value)
        outputs = self.run(entry, arrays)
        names = [tensor.name for tensor in entry.outputs]
        return dict(zip(names, outputs, strict=True))

    @functools.cached_property
    def by_length(self) -> dict[int, Signature]:
        """Its signatures by sequence length, shortest first; see `roles.read_signatures`."""
        return roles.by_length(self._file, f"model file {self.path}", self._roles)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Sequence lengths of the signatures, ascending."""
        return tuple(self.by_length)

    @property
    def outputs(self) -> dict[str, tuple[int, ...]]:
        """Shape of each output of the shortest signature by its name."""
        return {tensor.name: tensor.shape for tensor in self.by_length[self.lengths[0]].outputs}

    def length_for(self, num_tokens: int) -> int:
        """Returns the shortest length that holds `num_tokens` tokens.

        Raises:
          ShapeError: If none does.
        """
        for length in self.lengths:
            if num_tokens <= length:
                return length
        raise errors.ShapeError(
            "input_ids",
            f"at most {self.lengths[-1]} tokens, the longest signature",
            f"{num_tokens} tokens",
            "Truncate the text, or export with a longer length.",
        )

    def predict(
        self,
        input_ids: Sequence[int] | np.ndarray,
        token_type_ids: Sequence[int] | np.ndarray | None = None,
        *,
        length: int | None = None,
        pad_id: int = 0,
    ) -> np.ndarray:
        """Answers one example, without padding, through the shortest signature that holds it.

        Args:
          input_ids: Token ids with [CLS] and [SEP].
          token_type_ids: A type for each id; None for zeros. Ignored by a file without this input.
          length: The length to use instead of the shortest that fits.
          pad_id: The id that fills the signature up; masked, so it does not change the answer.

        Returns:
          float32, see `rows_of`.

        Raises:
          ShapeError: If the example does not fit.
          ModelFileError: If the file cannot be run on it.
        """
        ids = np.asarray(input_ids, np.int32)
        if ids.ndim != 1 or not len(ids):
            raise errors.ShapeError("input_ids", "a list of at least one id", f"shape {ids.shape}")
        fitting = self.length_for(len(ids))
        chosen = fitting if length is None else length
        if chosen not in self.by_length or chosen < fitting:
            raise errors.ShapeError(
                "length", f"one of {self.lengths} that holds {len(ids)} tokens", chosen
            )
        types = np.zeros_like(ids) if token_type_ids is None else np.asarray(token_type_ids)
        if types.shape != ids.shape:
            raise errors.ShapeError("token_type_ids", f"shape {ids.shape}", types.shape)
        entry = self.by_length[chosen]
        arrays = entry.padded(ids.tolist(), types.tolist(), pad_id=pad_id)
        return rows_of(entry, self.run(entry, arrays), len(ids))

    def run(self, signature: Signature, values: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Runs one of its signatures on arrays in the order of its inputs.

        Returns:
          The outputs in their order.

        Raises:
          ModelFileError: If LiteRT cannot run it on them.
        """
        try:
            with self._lock:
                return self._opened.run(signature, values)
        except (ValueError, RuntimeError) as error:  # such as an id outside the embedding
            if isinstance(error, errors.TfdistillError):
                raise
            raise errors.ModelFileError(
                f"model file {self.path}, signature {signature.key}",
                "an answer",
                error,
                "Check that the text was tokenized with the vocabulary of the model.",
            ) from error

    def delegations(self) -> dict[str | None, Delegation]:
        """Counts what XNNPACK takes over of each signature; see `xnnpack.delegations`.

        Raises:
          ModelFileError: If LiteRT cannot open it.
        """
        with self._lock:
            return self._opened.delegations()

    def close(self) -> None:
        """Ends the process that runs the file, if it has one of its own."""
        self._opened.close()

    def __exit__(self, *_: object) -> None:
        """Ends that process."""
        self.close()

    def _signature(self, key: str | None) -> Signature:
        if key is None and len(self.signatures) == 1:
            return next(iter(self.signatures.values()))
        if key not in self.signatures:
            raise errors.ModelFileError(
                f"signature of {self.path.name}",
                "one of " + (", ".join(map(str, self.signatures)) or "none"),
                key,
            )
        return self.signatures[key]


def rows_of(signature: Signature, outputs: Sequence[np.ndarray], num_tokens: int) -> np.ndarray:
    """Brings the outputs of a signature for one example, batches of 1, into the form of metrics.

    Returns float32 (num_labels,); of outputs for each token (tokens, num_labels); of starts and
    ends of spans (tokens, 2), without padding. Of several other outputs the first.
    """
    sides = {
        side_of(tensor.name): np.asarray(outputs[i]) for i, tensor in enumerate(signature.outputs)
    }
    if set(sides) == {"start", "end"}:
        pair = [sides[side][0] for side in ("start", "end")]
        return np.stack(pair, axis=-1)[:num_tokens].astype(np.float32)
    first = np.asarray(outputs[0][0], np.float32)
    return first[:num_tokens] if first.ndim > 1 else np.atleast_1d(first)


def side_of(name: str) -> str:
    """Says which end of a span an output is for, from its name; "" for another output."""
    return next((side for side in ("start", "end") if side in name.lower()), "")


class _Here:
    """A file that LiteRT has opened in this process."""

    def __init__(self, path: pathlib.Path, threads: int) -> None:
        self._path = path
        self._runners: dict[str | None, SignatureRunner] = {}
        try:
            self._interpreter = litert.Interpreter(os.fsencode(path), num_threads=threads)
        except (ValueError, RuntimeError, OSError) as error:
            raise _unusable(path, error) from error

    def run(self, signature: Signature, values: Sequence[np.ndarray]) -> list[np.ndarray]:
        if signature.key not in self._runners:
            self._runners[signature.key] = SignatureRunner(self._interpreter, signature)
        return self._runners[signature.key](values)

    def delegations(self) -> dict[str | None, Delegation]:
        try:
            return xnnpack.delegations(str(self._path))
        except (ValueError, RuntimeError) as error:
            raise _unusable(self._path, error) from error

    def close(self) -> None:
        pass


class _Elsewhere:
    """A file that LiteRT has opened in a process of its own; see `serve_model`."""

    def __init__(self, path: pathlib.Path, job: dict[str, Any], timeout_seconds: float) -> None:
        self._child = child.Child(
            job,
            _MODULE,
            what=f"model file {path}",
            timeout_seconds=timeout_seconds,
            error=errors.ModelFileError,
        )

    def run(self, signature: Signature, values: Sequence[np.ndarray]) -> list[np.ndarray]:
        inputs = [np.asarray(value).tolist() for value in values]
        answer = self._child.ask({"signature": signature.key, "inputs": inputs})
        return [np.array(output["values"], output["dtype"]) for output in answer["outputs"]]

    def delegations(self) -> dict[str | None, Delegation]:
        rows = self._child.ask({"delegations": True})["delegations"]
        return {row.pop("signature"): Delegation(**row) for row in rows}

    def close(self) -> None:
        self._child.close()


def _unusable(path: pathlib.Path, error: Exception) -> errors.ModelFileError:
    return errors.ModelFileError(
        f"model file {path}",
        "a file that LiteRT runs",
        str(error).strip().rstrip("."),
        "It is no TFLite file, or a damaged one: copy or export it again.",
    )


def serve_model(job: dict[str, Any]) -> tuple[dict[str, Any], serving.Answer]:
    """Opens a file in a child, the side of the child; the job has file and threads."""
    opened = _Here(pathlib.Path(job["file"]), job["threads"])
    signatures = {entry.key: entry for entry in reader.read(job["file"]).runnable}

    def answer(question: dict[str, Any]) -> dict[str, Any]:
        if "delegations" in question:
            rows = opened.delegations().items()
            return {"delegations": [{"signature": k, **dataclasses.asdict(r)} for k, r in rows]}
        entry = signatures[question["signature"]]
        pairs = zip(entry.inputs, question["inputs"], strict=True)
        outputs = opened.run(entry, [np.array(value, tensor.dtype) for tensor, value in pairs])
        values = [np.asarray(output) for output in outputs]
        return {"outputs": [{"dtype": str(v.dtype), "values": v.tolist()} for v in values]}

    return {}, answer
