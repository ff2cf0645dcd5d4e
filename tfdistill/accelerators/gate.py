"""Whether an accelerator takes a file whole and answers as the CPU does."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfdistill import errors, files, processes
from tfdistill.benchmark import modelfile
from tfdistill.benchmark.host import isolated
from tfdistill.tflite import reader, word_rows

from . import comparison, examples, logs, vendors
from .comparison import AcceleratorAnswers
from .examples import SignatureInputs
from .outcome import AcceleratorReport, SignatureOnAccelerator, Verdict
from .vendors import Vendor

_ROOT = pathlib.Path(__file__).parents[2]
_WORKER = (sys.executable, "-m", "tfdistill.accelerators.worker")
_DISPATCH = "CUSTOM:DISPATCH_OP"
_SMALLEST_MATRIX = 1024  # elements; smaller constants stay floats in every format
_GOLDEN_DB = 20.0  # golden answers of the same file on another CPU agree far better


def check(
    file: files.Path,
    accelerators: Sequence[tuple[str, str]],
    *,
    golden: dict[str, Any] | None = None,
    words: word_rows.WordTable | None = None,
    libraries: Mapping[str, pathlib.Path] | None = None,
    timeout_s: float = 300,
    worker: Sequence[str] = _WORKER,
    compiled: pathlib.Path | None = None,
) -> list[AcceleratorReport]:
    """Compiles a file for accelerators and compares their answers with the CPU's.

    Args:
      file: A .tflite file whose signatures take ids, (1, length).
      accelerators: Names and chips (`vendors.parse`).
      golden: The content of its golden.json, or None.
      words: The word table of a file that takes rows of words instead of ids.
      libraries: Folders of libraries by name of the accelerator.
      timeout_s: Seconds that each process may take.
      worker: The command that runs a file on an accelerator.
      compiled: Where the file that is compiled for an NPU is kept; of one accelerator.

    Returns:
      One report for each.

    Raises:
      ModelFileError: If the file is damaged.
      BenchmarkError: If its inputs are unknown ones, `words` is not their table, or the CPU cannot
        run it.
      ExportError: If `golden` is of another file.
    """
    path = pathlib.Path(file).resolve()
    entries = modelfile.read_entry_points(path)
    inputs = [examples.inputs_of(entry, golden, words) for entry in entries.values()]
    cpu = _cpu_answers(path, inputs)
    for own, answers in zip(inputs, cpu, strict=True):
        _check_golden(own, answers)
    return [
        _Check(
            path, name, soc, inputs, cpu, libraries or {}, timeout_s, tuple(worker), compiled
        ).run()
        for name, soc in accelerators
    ]


def _cpu_answers(
    path: pathlib.Path, inputs: Sequence[SignatureInputs]
) -> list[list[dict[str, np.ndarray]]]:
    with isolated.open_isolated(path) as interpreter:
        found = []
        for own in inputs:
            run = interpreter.get_signature_runner(own.entry.signature)
            found.append([run(**features) for features in own.features])
    return found


def _check_golden(own: SignatureInputs, answers: Sequence[dict[str, np.ndarray]]) -> None:
    """Refuses golden examples that the CPU does not answer as they say."""
    for expected, answer in zip(own.golden, answers):  # noqa: B905
        values = [np.asarray(value) for _, value in sorted(answer.items(), reverse=True)]
        tokens = own.entry.sequence_length
        # Outputs of tokens are recorded without padding, those of a span side by side.
        if len(values) > 1:
            values = [np.stack([value.reshape(tokens) for value in values], axis=-1)]
        received = values[0].reshape(-1)[: len(expected)]
        noise = np.square(received - expected).sum() if len(received) == len(expected) else np.inf
        if noise * 10 ** (_GOLDEN_DB / 10) > np.square(expected).sum():
            raise errors.ExportError(
                f"golden examples of signature {own.entry.signature}",
                "the answers of this file on the CPU",
                "others",
                "golden.json is of another file, or damaged: export again.",
            )


class _Fault(Exception):
    """The accelerator does not compile or run the file."""


class _Check:
    """One accelerator and one file."""

    def __init__(
        self,
        path: pathlib.Path,
        name: str,
        soc: str,
        inputs: Sequence[SignatureInputs],
        cpu: Sequence[list[dict[str, np.ndarray]]],
        libraries: Mapping[str, pathlib.Path],
        timeout_s: float,
        worker: tuple[str, ...],
        compiled: pathlib.Path | None = None,
    ) -> None:
        self._path, self._name, self._soc = path, name, soc
        self._vendor: Vendor = vendors.VENDORS[name]
        self._inputs, self._cpu = inputs, cpu
        self._libraries, self._timeout_s, self._worker = libraries, timeout_s, worker
        self._compiled = compiled
        self._model = reader.read(path)
        self._graphs = {entry.key: entry.subgraph for entry in self._model.signatures}

    def run(self) -> AcceleratorReport:
        """Compiles, runs, compares."""
        title = f"{self._vendor.title}{f', {self._soc}' if self._soc else ''}"
        try:
            folder = vendors.folder_of(self._name, self._libraries)
        except errors.EnvironmentFault as fault:
            return AcceleratorReport(self._name, title, "unavailable", (), str(fault))
        with files.temporary_folder("accelerator") as scratch:
            try:
                signatures = self._signatures(folder, scratch)
            except _Fault as fault:
                return AcceleratorReport(self._name, title, "failed", (), str(fault))
        wrong = [
            f"{found.signature}, {found.answers.fault}"
            for found in signatures
            if found.answers is not None and found.answers.fault is not None
        ]
        if wrong:
            return AcceleratorReport(self._name, title, "wrong", signatures, "; ".join(wrong))
        verdict: Verdict = "whole" if self._vendor.runs else "compiled"
        if self._vendor.runs and any(
            found.delegated != found.operators or found.partitions not in (None, 1)
            for found in signatures
        ):
            verdict = "partial"
        return AcceleratorReport(self._name, title, verdict, signatures, None)

    def _signatures(
        self, folder: pathlib.Path | None, scratch: pathlib.Path
    ) -> tuple[SignatureOnAccelerator, ...]:
        variables = vendors.variables(folder, scratch)
        shares: dict[int, logs.Share] = {}
        dispatch, file = None, self._path
        if self._vendor.kind == "npu":
            file = self._compiled or scratch / "compiled.tflite"
            shares = self._compile(file, variables)
            dispatch = vendors.litert_folder() / "vendors" / self._vendor.plugin / "dispatch"
        if not self._vendor.runs:
            return tuple(self._described(own, shares, None) for own in self._inputs)
        answers, log, whole = self._answers(file, dispatch, variables, scratch)
        if self._vendor.kind == "gpu":
            shares = self._gpu_shares(log, whole)
        return tuple(
            self._described(own, shares, self._compared(own, expected, received))
            for own, expected, received in zip(self._inputs, self._cpu, answers, strict=True)
        )

    def _compile(self, target: pathlib.Path, variables: dict[str, str]) -> dict[int, logs.Share]:
        """Compiles ahead of time for an NPU."""
        litert = vendors.litert_folder()
        vendor = self._vendor
        command = [
            str(litert / "tools" / "apply_plugin_main"),
            "--cmd=apply",
            f"--model={self._path}",
            f"--o={target}",
            f"--libs={litert / 'vendors' / vendor.plugin / 'compiler'}",
            f"--soc_manufacturer={vendor.manufacturer}",
            f"--soc_model={self._soc}",
            *vendor.flags,
        ]
        done = self._child(command, variables, "LiteRT's compiler")
        log = done.stdout + done.stderr
        if done.returncode or not target.is_file():
            raise _Fault(
                "LiteRT's compiler: expected a file, received "
                f"{processes.describe_exit(done.returncode)}. "
                f"Its last words: {logs.last_words(log)}"
            )
        shares = logs.npu_shares(log)
        compiled = reader.read(target)
        found = {}
        for entry in compiled.signatures:
            index = self._graphs[entry.key]
            kept = [o.name for o in compiled.subgraphs[entry.subgraph].operators]
            left = dict.fromkeys((name for name in kept if name != _DISPATCH), "")
            total = len(self._model.subgraphs[index].operators)
            taken = shares[index].delegated if index in shares else total - len(left)
            found[index] = logs.Share(taken, kept.count(_DISPATCH), left)
        return found

    def _gpu_shares(self, log: str, whole: bool) -> dict[int, logs.Share]:
        graphs = range(len(self._model.subgraphs))
        sizes = [len(self._model.subgraphs[index].operators) for index in graphs]
        said = logs.gpu_shares(log)
        if whole and not said:
            return {index: logs.Share(sizes[index], None, {}) for index in graphs}
        if len(said) == len(sizes):
            return dict(enumerate(said))
        return {}  # which of them it speaks of is not known

    def _answers(
        self,
        file: pathlib.Path,
        dispatch: pathlib.Path | None,
        variables: dict[str, str],
        scratch: pathlib.Path,
    ) -> tuple[list[list[dict[str, np.ndarray]]], str, bool]:
        given, taken = scratch / "inputs.npz", scratch / "outputs.npz"
        arrays = {
            f"{own.entry.signature}/{number}/{name}": value
            for own in self._inputs
            for number, features in enumerate(own.features)
            for name, value in features.items()
        }
        np.savez(given, **arrays)  # pyright: ignore[reportArgumentType]
        job = {
            "file": str(file),
            "kind": self._vendor.kind,
            "dispatch": None if dispatch is None else str(dispatch),
            "inputs": str(given),
            "outputs": str(taken),
        }
        described = scratch / "job.json"
        described.write_text(json.dumps(job), "utf-8")
        done = self._child([*self._worker, str(described)], variables, "the accelerator")
        try:
            answer = json.loads(done.stdout.strip().splitlines()[-1])
        except (ValueError, IndexError):
            raise _Fault(
                "the accelerator: expected answers, received "
                f"{processes.describe_exit(done.returncode)}. "
                f"Its last words: {logs.last_words(done.stderr)}"
            ) from None
        if "error" in answer:
            raise _Fault(f"the accelerator: expected answers, received {answer['error'][:400]}")
        with np.load(taken, allow_pickle=False) as outputs:
            found = [
                [
                    {
                        key.split("/", 2)[2]: outputs[key]
                        for key in outputs.files
                        if key.startswith(f"{own.entry.signature}/{number}/")
                    }
                    for number in range(len(own.features))
                ]
                for own in self._inputs
            ]
        return found, done.stderr, bool(answer["whole"])

    def _child(
        self, command: list[str], variables: dict[str, str], what: str
    ) -> subprocess.CompletedProcess[str]:
        paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        variables = {**variables, "PYTHONPATH": os.pathsep.join(paths)}
        try:
            return subprocess.run(
                command,
                cwd=_ROOT,
                env={**processes.child_environment(), **variables},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=self._timeout_s,
            )
        except subprocess.TimeoutExpired:
            raise _Fault(f"{what}: expected an end within {self._timeout_s:g} s") from None

    def _compared(
        self,
        own: SignatureInputs,
        cpu: list[dict[str, np.ndarray]],
        received: list[dict[str, np.ndarray]],
    ) -> AcceleratorAnswers:
        graph = self._model.subgraphs[self._graphs[own.entry.signature or ""]]
        dtypes = {
            tensor.dtype
            for tensor in graph.tensors
            if self._model.buffer_bytes[tensor.buffer] >= _SMALLEST_MATRIX
        }
        # With static activations products read integers.
        static = any(
            operator.name in ("FULLY_CONNECTED", "BATCH_MATMUL")
            and graph.tensors[operator.inputs[0]].dtype in ("int8", "int16")
            for operator in graph.operators
        )
        least = comparison.least_sqnr_db(dtypes, static=static, float16=self._vendor.float16)
        return comparison.compare(cpu, received, least)

    def _described(
        self,
        own: SignatureInputs,
        shares: Mapping[int, logs.Share],
        answers: AcceleratorAnswers | None,
    ) -> SignatureOnAccelerator:
        key = own.entry.signature or ""
        index = self._graphs[key]
        graph, share = self._model.subgraphs[index], shares.get(index)
        left = {} if share is None else share.reasons
        layers = dict.fromkeys(
            layer_of(graph.tensors[operator.outputs[0]].name)
            for operator in graph.operators
            if operator.name in left
        )
        return SignatureOnAccelerator(
            key,
            len(graph.operators),
            None if share is None else share.delegated,
            None if share is None else share.partitions,
            dict(left),
            tuple(layers),
            answers,
        )


def layer_of(tensor: str) -> str:
    """Returns the layer that a tensor belongs to, from its name: "model/pooler/add" -> "pooler"."""
    parts = [part for part in tensor.split(";")[0].split(":")[0].split("/") if part]
    return parts[-2] if len(parts) > 1 else tensor.split(":")[0]
