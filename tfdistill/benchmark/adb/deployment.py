"""A folder on a device with everything that `benchmark_model` needs, and runs of it there."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfdistill import errors, files
from tfdistill.benchmark import schema
from tfdistill.benchmark.adb import output, tool
from tfdistill.benchmark.adb.adb_process import Completed
from tfdistill.benchmark.adb.benchmark_model import BenchmarkModelTool
from tfdistill.benchmark.adb.layout import SignatureLayout
from tfdistill.benchmark.adb.phone import Phone
from tfdistill.benchmark.subjects import Subject

Feed = Mapping[str, Sequence[int]]
_TIDY_SECONDS = 30.0  # beyond the tool's own limit, for what it does before and after


@dataclasses.dataclass(frozen=True)
class Deployed:
    """A file at one length, with examples, on the device.

    Attributes:
      graph: The model file's name there.
      layout: Of the entry point.
      values: Prefix of the files that hold the examples.
      num_examples: How many.
      vocabulary_rows: Of the table that the ids are looked up in, if known.
    """

    graph: str
    layout: SignatureLayout
    values: str
    num_examples: int
    vocabulary_rows: int | None = None


class Deployment:
    """What has been pushed to a folder of a device.

    Args:
      phone: The device.
      folder: An empty folder of its own there; who made it removes it.
      timeout_seconds: The longest wait for one run.
    """

    def __init__(self, phone: Phone, folder: str, *, timeout_seconds: float) -> None:
        self._phone, self._folder, self._timeout = phone, folder, timeout_seconds
        self._compiled = False
        self._graphs: dict[str, str] = {}
        self._sets = 0

    def install(self, binary: BenchmarkModelTool) -> None:
        """Pushes the tool and the scripts that run it.

        Raises:
          BenchmarkError: If that does not work.
        """
        self._compiled = binary.compiled
        self._phone.push(binary.path, f"{self._folder}/{tool.BINARY}")
        self._phone.shell(["chmod", "755", f"{self._folder}/{tool.BINARY}"])
        self._write(tool.RUN_FILE, tool.RUN_SCRIPT.encode())
        self._write(tool.ANSWER_FILE, tool.ANSWER_SCRIPT.encode())

    def put(self, subject: Subject, layout: SignatureLayout, feeds: Sequence[Feed]) -> Deployed:
        """Pushes a model, if it is not there yet, and examples for one of its lengths.

        Args:
          subject: The model.
          layout: Of the entry point.
          feeds: input_ids and token_type_ids without padding, at least one.

        Returns:
          What to run.

        Raises:
          BenchmarkError: If that does not work.
        """
        if subject.name not in self._graphs:
            graph = f"model{len(self._graphs)}.tflite"
            self._phone.push(subject.file, f"{self._folder}/{graph}")
            self._graphs[subject.name] = graph
        values, self._sets = f"values{self._sets}", self._sets + 1
        rows = [feed_of(layout, feed) for feed in feeds]
        for i in range(len(layout.inputs)):
            content = b"".join(row[i].tobytes() for row in rows)
            self._write(f"{values}-{i}.bin.all", content)
        entries = subject.entries.values()
        known = {entry.signature: entry.vocabulary_rows for entry in entries}.get(layout.signature)
        return Deployed(self._graphs[subject.name], layout, values, len(rows), known)

    def command(
        self, deployed: Deployed, case: schema.BenchmarkCase, **options: Any
    ) -> tool.ToolCommand:
        """Returns what runs something deployed; `options` are fields of `tool.ToolCommand`."""
        return tool.ToolCommand(
            graph=deployed.graph,
            layout=deployed.layout,
            values=deployed.values,
            threads=case.threads,
            delegate=case.delegate,
            affinity=case.affinity,
            max_seconds=self._timeout,
            compiled=self._compiled,
            vocabulary_rows=deployed.vocabulary_rows,
            **options,
        )

    def run(self, command: tool.ToolCommand, example: int, *, what: str) -> output.Output:
        """Runs the tool once.

        Args:
          command: What to run.
          example: Which of the examples, from 0.
          what: How messages call it.

        Returns:
          What it printed.

        Raises:
          DeviceLostError: If the device went away.
          BenchmarkError: If the tool fails, takes too long, or prints nothing that can be read.
        """
        done = self._shell(tool.run_arguments(command, self._folder, example))
        return output.parse(_printed(done), what=what, exit_code=done.exit_code)

    def answers(
        self, command: tool.ToolCommand, first: int, last: int, *, what: str
    ) -> list[list[np.ndarray]]:
        """Runs the tool once for each of some examples.

        Args:
          command: What to run; it dumps its outputs.
          first: The first example.
          last: The one behind the last.
          what: How messages call it.

        Returns:
          For each example its outputs, in the layout's order, of their full shapes.

        Raises:
          DeviceLostError: If the device went away.
          BenchmarkError: As `run`; also if answers are missing.
        """
        remote = f"{self._folder}/{tool.ANSWERS_FILE}"
        self._phone.shell(["rm", "-f", remote])
        done = self._shell(tool.answer_arguments(command, self._folder, first, last))
        printed = output.parse(_printed(done), what=what, exit_code=done.exit_code)
        layout = command.layout
        output.coverage(printed, command.delegate, layout, what=what)
        content = self.fetch(tool.ANSWERS_FILE)
        size = sum(tensor.num_bytes for tensor in layout.outputs)
        if len(content) != size * (last - first):
            raise errors.BenchmarkError(
                f"outputs of {what}",
                f"{last - first} times {size} bytes",
                f"{len(content)} bytes",
                "Is the storage of the device full?",
            )
        return [
            split_outputs(layout, content[at : at + size]) for at in range(0, len(content), size)
        ]

    def fetch(self, name: str) -> bytes:
        """Returns the content of a file of the folder.

        Raises:
          BenchmarkError: If there is no such file.
        """
        with files.temporary_folder("pull") as folder:
            local = folder / "file"
            self._phone.pull(f"{self._folder}/{name}", local)
            return local.read_bytes()

    def _shell(self, arguments: Sequence[str]) -> Completed:
        timeout = self._timeout + _TIDY_SECONDS if self._timeout >= _TIDY_SECONDS else self._timeout
        return self._phone.shell(arguments, timeout_s=timeout, check=False)

    def _write(self, name: str, content: bytes) -> None:
        with files.temporary_folder("pull") as folder:
            local = folder / name
            local.write_bytes(content)
            self._phone.push(local, f"{self._folder}/{name}")


def feed_of(layout: SignatureLayout, feed: Feed) -> list[np.ndarray]:
    """Pads one example to the length of an entry point.

    Args:
      layout: Of the entry point.
      feed: input_ids and token_type_ids without padding, no longer than the entry point.

    Returns:
      One array an input, in the layout's order, of its dtype and shape.

    Raises:
      BenchmarkError: If the example is longer.
    """
    ids = feed["input_ids"]
    longest = min(tensor.shape[-1] for tensor in layout.inputs)
    if len(ids) > longest:
        raise errors.BenchmarkError(
            f"example for signature {layout.signature}",
            f"at most {longest} tokens",
            len(ids),
            "Encode the examples for the file's own length.",
        )
    known = {
        "input_ids": ids,
        "attention_mask": [1] * len(ids),
        "token_type_ids": feed["token_type_ids"],
    }
    arrays = []
    for tensor in layout.inputs:
        array = np.zeros(tensor.shape, tensor.dtype)
        assert tensor.role is not None  # `read_layout` saw to it
        array[0, : len(ids)] = known[tensor.role]
        arrays.append(array)
    return arrays


def split_outputs(layout: SignatureLayout, content: bytes) -> list[np.ndarray]:
    """Splits what the tool dumped into outputs, in the layout's order, of their full shapes."""
    arrays, at = [], 0
    for tensor in layout.outputs:
        part = content[at : at + tensor.num_bytes]
        arrays.append(np.frombuffer(part, tensor.dtype).reshape(tensor.shape))
        at += tensor.num_bytes
    return arrays


def _printed(done: Completed) -> str:
    return f"{done.stdout}\n{done.stderr}"
