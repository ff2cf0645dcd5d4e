"""LiteRT in a worker process: a damaged or hostile file ends the worker, never the program.

The program side is `open_isolated`, the worker's side `open_answers_job` (see `worker`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from tfdistill import files
from tfdistill.benchmark.host.worker_process import WorkerProcess

_TIMEOUT_S = 600.0  # of one answer: sequences of 512 tokens on a slow core take seconds


class IsolatedInterpreter:
    """The part of LiteRT's interpreter that answers need, served by a worker process."""

    def __init__(self, worker: WorkerProcess) -> None:
        self._worker = worker

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """Returns the names of inputs and outputs by signature."""
        return self._worker.report["signatures"]

    def get_signature_runner(self, key: str | None) -> IsolatedRunner:
        """Returns what runs a signature; None: the only graph of a file without any."""
        return IsolatedRunner(self._worker, key)


class IsolatedRunner:
    """Runs one signature in the worker."""

    def __init__(self, worker: WorkerProcess, key: str | None) -> None:
        self._worker, self._key = worker, key

    def get_output_details(self) -> dict[str, dict[str, Any]]:
        """Returns the shape of each output by its name."""
        return self._worker.report["outputs"][self._key]

    def __call__(self, **features: np.ndarray) -> dict[str, np.ndarray]:
        """Runs the file on named inputs; returns its outputs by name.

        Raises:
          BenchmarkError: If the file cannot be run on them, or the worker ended.
        """
        given = {name: np.asarray(value).tolist() for name, value in features.items()}
        answer = self._worker.answer(self._key, given)
        return {name: np.array(found["values"], found["dtype"]) for name, found in answer.items()}


@contextlib.contextmanager
def open_isolated(path: files.Path, *, threads: int = 1) -> Iterator[IsolatedInterpreter]:
    """Opens a file in a worker process, which ends with the block.

    Args:
      path: A .tflite file.
      threads: Threads of the interpreter.

    Yields:
      The interpreter.

    Raises:
      BenchmarkError: If LiteRT cannot open the file, or crashes on it.
    """
    job = {"kind": "answers", "file": str(path), "threads": threads, "delegate": "xnnpack"}
    what = f"model file {path}"
    with WorkerProcess(job, what=what, timeout_seconds=_TIMEOUT_S) as worker:
        yield IsolatedInterpreter(worker)


def open_answers_job(interpreter: Any) -> tuple[dict[str, Any], Callable[..., dict[str, Any]]]:
    """Serves answers: the worker's side.

    Args:
      interpreter: LiteRT's, opened.

    Returns:
      The signatures of the file, and a function from a signature's key and nested lists by name of
      the input to the outputs.
    """
    signatures = interpreter.get_signature_list()
    runners = {key: interpreter.get_signature_runner(key) for key in signatures}
    outputs = {
        key: {
            name: {"shape": [int(size) for size in detail["shape"]]}
            for name, detail in runner.get_output_details().items()
        }
        for key, runner in runners.items()
    }

    def answer(signature: str | None, features: Mapping[str, Any]) -> dict[str, Any]:
        run = _run_graph if signature is None else _run_signature
        found = run(interpreter if signature is None else runners[signature], features)
        return {
            name: {"dtype": str(value.dtype), "values": value.tolist()}
            for name, value in found.items()
        }

    return {"signatures": signatures, "outputs": outputs}, answer


def _run_signature(runner: Any, features: Mapping[str, Any]) -> dict[str, np.ndarray]:
    types = {name: detail["dtype"] for name, detail in runner.get_input_details().items()}
    return runner(**{name: np.array(value, types[name]) for name, value in features.items()})


def _run_graph(interpreter: Any, features: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Runs a file without signatures; the names are those of its tensors."""
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        value = np.array(features[detail["name"]], detail["dtype"])
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return {
        detail["name"]: interpreter.get_tensor(detail["index"])
        for detail in interpreter.get_output_details()
    }
