"""Whether an accelerator takes a file whole and answers as the CPU does."""

from __future__ import annotations

import json
import math
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence

import numpy as np

from tfdistill import errors, files, processes
from tfdistill.tflite import TfliteModel, agreement, child, reader, roles
from tfdistill.tflite.golden import GoldenExample
from tfdistill.tflite.model import rows_of

from . import comparison, examples, logs, vendors
from .comparison import AcceleratorAnswers
from .examples import SignatureInputs
from .outcome import AcceleratorReport, SignatureOnAccelerator, Verdict
from .vendors import Vendor

_WORKER = (sys.executable, "-m", "tfdistill.accelerators.worker")
_DISPATCH = "CUSTOM:DISPATCH_OP"
_SMALLEST_MATRIX = 1024  # elements; smaller constants stay floats in every format


def check(
    file: files.Path,
    accelerators: Sequence[tuple[str, str]],
    *,
    golden: Sequence[GoldenExample] = (),
    libraries: Mapping[str, pathlib.Path] | None = None,
    timeout_s: float = 300,
    worker: Sequence[str] = _WORKER,
    input_roles: Mapping[str, str] | None = None,
) -> list[AcceleratorReport]:
    """Compiles a file for accelerators, names and chips, and compares their answers with the CPU's.

    Its signatures take ids, (1, length); `libraries` are folders by name of the accelerator;
    `worker` is the command that runs a file on one; of `input_roles` see `roles.read_signatures`.
    Returns one report for each. Raises BenchmarkError if the CPU cannot run it, ExportError if
    `golden` is of another file.
    """
    path = pathlib.Path(file).resolve()
    signatures = roles.read_signatures(path, roles=input_roles)
    if any(signature.key is None for signature in signatures.values()):
        raise errors.BenchmarkError(
            f"model file {path}",
            "signatures, by which LiteRT runs a compiled file",
            "a graph without one",
            "Convert the model again with signatures.",
        )
    inputs = [examples.inputs_of(signature, golden) for signature in signatures.values()]
    with TfliteModel(path, isolated=True) as model:
        cpu = [
            [_by_name(of, model.run(of.signature, values)) for values in of.values] for of in inputs
        ]
        for of, outputs in zip(inputs, cpu, strict=True):
            _check_golden(of, outputs)
    return [
        _Check(path, name, soc, inputs, cpu, libraries or {}, timeout_s, tuple(worker)).run()
        for name, soc in accelerators
    ]


def _by_name(inputs: SignatureInputs, outputs: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    names = [tensor.name for tensor in inputs.signature.outputs]
    return dict(zip(names, outputs, strict=True))


def _check_golden(inputs: SignatureInputs, outputs: Sequence[dict[str, np.ndarray]]) -> None:
    """Refuses golden examples that the CPU does not answer as they say."""
    for expected, named in zip(inputs.golden, outputs):  # noqa: B905
        tokens = inputs.signature.sequence_length
        ordered = [named[tensor.name] for tensor in inputs.signature.outputs]
        rows = rows_of(inputs.signature, ordered, tokens)
        received = rows.reshape(-1)[: len(expected)].astype(np.float64)  # recorded without padding
        ratio: float | None = -math.inf
        if len(received) == len(expected):
            noise = float(np.square(received - expected).sum())
            ratio = agreement.ratio_db(float(np.square(expected).sum()), noise)
        if ratio is not None and ratio < agreement.GOLDEN_DB:
            raise errors.ExportError(
                f"golden examples of signature {inputs.signature.key}",
                "the answers of this file on the CPU",
                "others",
                "golden.json is of another file, or damaged: export again.",
            )


class _Fault(errors.TfdistillError):
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
    ) -> None:
        self._path, self._name, self._soc = path, name, soc
        self._vendor: Vendor = vendors.VENDORS[name]
        self._inputs, self._cpu = inputs, cpu
        self._libraries, self._timeout_s, self._worker = libraries, timeout_s, worker
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
            f"{signature.signature}, {signature.answers.fault}"
            for signature in signatures
            if signature.answers is not None and signature.answers.fault is not None
        ]
        if wrong:
            return AcceleratorReport(self._name, title, "wrong", signatures, "; ".join(wrong))
        verdict: Verdict = "whole" if self._vendor.runs else "compiled"
        if self._vendor.runs and any(
            signature.delegated != signature.operators or signature.partitions not in (None, 1)
            for signature in signatures
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
            file = scratch / "compiled.tflite"
            shares = self._compile(file, variables)
            dispatch = vendors.litert_folder() / "vendors" / self._vendor.plugin / "dispatch"
        if not self._vendor.runs:
            return tuple(self._described(of, shares, None) for of in self._inputs)
        answers, log, whole = self._answers(file, dispatch, variables, scratch)
        if self._vendor.kind == "gpu":
            shares = self._gpu_shares(log, whole)
        return tuple(
            self._described(of, shares, self._compared(of, expected, received))
            for of, expected, received in zip(self._inputs, self._cpu, answers, strict=True)
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
        divided = {}
        for entry in compiled.signatures:
            index = self._graphs[entry.key]
            names = [o.name for o in compiled.subgraphs[entry.subgraph].operators]
            left = dict.fromkeys((name for name in names if name != _DISPATCH), "")
            total = len(self._model.subgraphs[index].operators)
            taken = shares[index].delegated if index in shares else total - len(left)
            divided[index] = logs.Share(taken, names.count(_DISPATCH), left)
        return divided

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
        inputs, outputs = scratch / "inputs.npz", scratch / "outputs.npz"
        arrays = {
            f"{place}/{number}/{tensor.name}": value
            for place, of in enumerate(self._inputs)
            for number, values in enumerate(of.values)
            for tensor, value in zip(of.signature.inputs, values, strict=True)
        }
        np.savez(inputs, **arrays)  # pyright: ignore[reportArgumentType]
        job = {
            "file": str(file),
            "kind": self._vendor.kind,
            "dispatch": None if dispatch is None else str(dispatch),
            "signatures": [of.signature.key for of in self._inputs],
            "inputs": str(inputs),
            "outputs": str(outputs),
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
        with np.load(outputs, allow_pickle=False) as arrays:
            answers = [
                [
                    {
                        key.split("/", 2)[2]: arrays[key]
                        for key in arrays.files
                        if key.startswith(f"{place}/{number}/")
                    }
                    for number in range(len(of.values))
                ]
                for place, of in enumerate(self._inputs)
            ]
        return answers, done.stderr, bool(answer["whole"])

    def _child(
        self, command: Sequence[str], variables: dict[str, str], what: str
    ) -> subprocess.CompletedProcess[str]:
        return child.run(
            command,
            what=what,
            timeout_seconds=self._timeout_s,
            error=_Fault,
            remedy="",
            variables=variables,
        )

    def _compared(
        self,
        of: SignatureInputs,
        cpu: list[dict[str, np.ndarray]],
        received: list[dict[str, np.ndarray]],
    ) -> AcceleratorAnswers:
        graph = self._model.subgraphs[self._graphs[of.signature.key or ""]]
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
        of: SignatureInputs,
        shares: Mapping[int, logs.Share],
        answers: AcceleratorAnswers | None,
    ) -> SignatureOnAccelerator:
        key = of.signature.key or ""
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
