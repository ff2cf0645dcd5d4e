"""Plants each fault in each number format of each network, and counts what is written."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any
from unittest import mock

import networks
import numpy as np
import planted
import planted_files
from networks import Network
from planted import Inapplicable

import export
from export.checking import outputs
from export.checking import verify as verifying
from export.checking.evidence import Evidence
from export.conversion import convert
from export.conversion import quantize as quantizing
from export.model import graph, signature
from export.targets import tflite
from tfdistill import errors
from tfdistill.io import files
from tfdistill.tflite import TfliteModel, agreement, editing

FORMATS = (
    "float32",
    "float16",
    "dynamic_wi8_afp32",
    "dynamic_wi4_afp32",
    "static_wi8_ai8",
    "weight_only_wi8_afp32",
    "dynamic_wi4_afp32_block32",
    "dynamic_wi8_afp32+layer_0_*=float32",  # mixed
    "static_wi8_ai8+layer_1_*=float32",
    "dynamic_wi8_afp32+word_embeddings=dynamic_wi4_afp32_block32",  # a file of limited size
)
CALIBRATION = "calibrated on one id"
# Whose file may be handed out for another's: nothing but the types in it are wrong.
OTHERS = {
    "float16": "float32",
    "dynamic_wi8_afp32": "weight_only_wi8_afp32",
    "weight_only_wi8_afp32": "dynamic_wi8_afp32",
    "dynamic_wi4_afp32": "dynamic_wi4_afp32_block32",
    "dynamic_wi4_afp32_block32": "dynamic_wi4_afp32",
    "static_wi8_ai8": "dynamic_wi8_afp32",
    "dynamic_wi8_afp32+layer_0_*=float32": "dynamic_wi8_afp32",
    "static_wi8_ai8+layer_1_*=float32": "static_wi8_ai8",
    "dynamic_wi8_afp32+word_embeddings=dynamic_wi4_afp32_block32": "dynamic_wi8_afp32",
}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of one export.

    Attributes:
      network: Its name.
      quantization: The number format, "+PATTERN=NAME" where some layers have another.
      fault: The fault; "" for an honest export.
      place: "graph", "file" or "".
      written: Whether a file was written.
      message: Why it was refused, the first line of the reasons.
      checks: The names of all checks that it fails; each is made, whatever the others find.
      bounds_alone: Whether the fixed bounds of the format, which decided before, would have
        written it.
      difference: SQNR of the faulty file against the honest one, in dB; None where equal.
    """

    network: str
    quantization: str
    fault: str
    place: str
    written: bool
    message: str
    checks: tuple[str, ...]
    bounds_alone: bool | None
    difference: float | None


class Campaign:
    """Exports of one network; the honest files are converted once.

    Args:
      network: The network.
      folder: A folder for its files.
      seed: Chooses the places of the faults.
    """

    def __init__(self, network: Network, folder: pathlib.Path, seed: int = 0) -> None:
        self._network, self._folder, self._seed = network, folder, seed
        self._folder.mkdir(parents=True, exist_ok=True)

    @property
    def name(self) -> str:
        """The name of the network."""
        return self._network.name

    @property
    def is_aware(self) -> bool:
        """Whether the network carries its ranges."""
        return self._network.family.endswith("-aware")

    def formats(self, names: Iterable[str] = FORMATS) -> list[str]:
        """Returns the formats that the network has."""
        if self.is_aware:
            return [name for name in names if name == "static_wi8_ai8"]
        formats = list(names)
        if self._network.family == "bilstm":
            formats = [
                name for name in formats if not name.startswith("static") and "+" not in name
            ]
        if self._network.family.startswith(("bilstm", "electra")):  # widths below a block
            formats = [name for name in formats if "block" not in name]
        return formats

    def honest(self, quantization: str) -> Outcome:
        """Exports without a fault, and keeps the file."""
        with self._as_converted(quantization):
            return self._outcome(quantization, "", "")

    def graph_fault(self, name: str, quantization: str) -> Outcome:
        """Exports with a fault in the inference graph.

        Raises:
          Inapplicable: If the network cannot have it.
        """
        fault = planted.GRAPH[name]
        model = self._network.model
        wrong = model
        if fault.of_model:
            wrong = planted.faulty(model, fault)
        elif fault.features is not None:
            inputs = dict.fromkeys(model.input_names, np.zeros((1, 2), np.int32))
            fault.features({key: _tensor(value) for key, value in inputs.items()})
        save, forward = signature.save, graph.forward

        def save_wrong(_: Any, folder: Any, **options: Any) -> None:
            save(wrong, folder, **options)

        def forward_wrong(exported_model: Any, **options: Any) -> Any:
            run = forward(exported_model, **options)
            return lambda features: run(fault.features(features) if fault.features else features)

        with (
            mock.patch.object(signature, "save", save_wrong),
            mock.patch.object(graph, "forward", forward_wrong),
            mock.patch.object(convert, "run_in_child", _here),
        ):
            return self._outcome(quantization, name, "graph")

    def file_fault(self, name: str, quantization: str) -> Outcome:
        """Exports with a fault in the converted file alone.

        Raises:
          Inapplicable: If the file cannot have it.
        """
        with tempfile.TemporaryDirectory() as temporary:
            wrong = pathlib.Path(temporary) / "wrong.tflite"
            tree = editing.read(self._honest_file(quantization))
            random = np.random.default_rng((self._seed, sum(map(ord, name))))
            planted_files.FILE[name](planted_files.File(tree, random))
            editing.write(tree, wrong)
            with self._as_converted(quantization, wrong):
                return self._outcome(quantization, name, "file")

    def format_fault(self, quantization: str) -> Outcome:
        """Exports with the file of another format.

        Raises:
          Inapplicable: If the network has no other.
        """
        other = OTHERS.get(quantization)
        if self.is_aware or other not in self.formats([other or ""]):
            raise Inapplicable("no other format")
        self._honest_file(quantization)
        with self._as_converted(quantization, self._honest_file(other)):
            return self._outcome(quantization, f"made as {other}", "file")

    def calibration_fault(self, quantization: str) -> Outcome:
        """Exports with ranges that were measured on texts of one id."""
        calibration = self._network.calibrate_on
        same = dataclasses.replace(calibration, ids=np.full_like(calibration.ids, 7))
        plain = convert.convert

        def convert_wrong(plan: Any, *places: Any) -> convert.Converted:
            converted = plain(dataclasses.replace(plan, calibration=same), *places)
            return dataclasses.replace(converted, plan=plan)

        with (
            mock.patch.object(convert, "convert", convert_wrong),
            mock.patch.object(convert, "run_in_child", _here),
        ):
            return self._outcome(quantization, CALIBRATION, "file")

    def _honest_file(self, quantization: str) -> pathlib.Path:
        path = self._folder / f"{quantization}.tflite"
        if not path.is_file():
            with self._as_converted(quantization):
                self._outcome(quantization, "", "")
        return path

    @contextlib.contextmanager
    def _as_converted(self, quantization: str, wrong: pathlib.Path | None = None) -> Iterator[None]:
        """Converts in this process, each format once; hands out `wrong` instead of the file."""

        def run(todo: convert.Conversion, **_: Any) -> None:
            file = self._folder / f"{quantization}.tflite"
            floats = self._folder / "float32.tflite"
            if not file.is_file():
                conversion = dataclasses.replace(todo, file=str(file))
                if quantization != "float32":
                    conversion = dataclasses.replace(conversion, float_file=str(floats))
                convert.run(conversion)
            shutil.copyfile(wrong or file, todo.file)
            if todo.float_file is not None:
                shutil.copyfile(floats, todo.float_file)

        with mock.patch.object(convert, "run_in_child", run):
            yield

    def _outcome(self, quantization: str, fault: str, place: str) -> Outcome:
        network = self._network
        name, _, layers = quantization.partition("+")
        calibrated = name.startswith("static") and not self.is_aware
        failed: dict[str, list[str]] = {}
        before: tuple[bool | None, float | None] = None, None
        verify, converts = verifying.verify, False

        def collect(converted: convert.Converted, shared: Any = None) -> verifying.Verified:
            nonlocal before, converts
            converts = True
            with files.temporary_folder("evidence") as temporary:
                evidence = Evidence(converted, temporary)
                failed.update(_all_verdicts(evidence))
                if "network" not in failed:
                    before = self._as_before(evidence, quantization)
            return verify(converted, shared)

        with (
            tempfile.TemporaryDirectory() as target,
            mock.patch.object(tflite, "verify", collect),
        ):
            message = ""
            try:
                export.to_tflite(
                    network.model,
                    pathlib.Path(target) / "model.tflite",
                    quantize=name,
                    layers=dict([layers.split("=")]) if layers else None,
                    softmax=network.softmax,
                    lengths=networks.LENGTHS,
                    check_on=network.check_on,
                    calibrate_on=network.calibrate_on if calibrated else None,
                )
            except errors.ExportError as error:
                message = str(error).split("\n  - ")[-1 if "\n" not in str(error) else 1][:300]
        message = without_folders(message)
        written = not message
        if message and not converts:  # the quantizer does not take such a file
            failed["conversion"] = [message]
        if written == bool(failed):
            raise AssertionError(f"{fault} in {quantization}: {failed or message}")
        return Outcome(
            network.name, quantization, fault, place, written, message, tuple(failed), *before
        )

    def _as_before(self, evidence: Evidence, quantization: str) -> tuple[bool | None, float | None]:
        """Returns what the fixed bounds say of a file, and how far it is from the honest one."""
        try:
            received = outputs.file_outputs(evidence.opened, self._network.check_on)
            measured = agreement.compare(evidence.expected_outputs, received)
        except errors.TfdistillError:
            return None, None
        bounds = quantizing.quantization(quantization.partition("+")[0]).bounds
        difference = None
        honest = self._folder / f"{quantization}.tflite"
        if honest.is_file() and np.isfinite(received).all():
            of_honest = outputs.file_outputs(TfliteModel(honest), self._network.check_on)
            difference = agreement.compare(of_honest, received).sqnr_db
        return not agreement.violations(measured, bounds), difference


def without_folders(message: str) -> str:
    """A message that names files of temporary folders by their names alone."""
    return re.sub(rf"{re.escape(tempfile.gettempdir())}/[^\s:,;]*/", "", message)


def _all_verdicts(evidence: Evidence) -> dict[str, list[str]]:
    """Makes every check, whatever the others find; of what is wired wrongly none that runs it."""
    failed: dict[str, list[str]] = {}
    for check in (*verifying.STATIC, *verifying.RUNNING):
        runs = "network" in check.needs or (check in verifying.RUNNING and not check.of_float)
        if runs and "network" in failed:
            continue
        try:
            lines = check.run(evidence)
        except errors.TfdistillError as error:
            lines = [str(error)]
        if lines:
            failed[check.name] = lines
    return failed


def _here(todo: convert.Conversion, **_: Any) -> None:
    """Runs in this process what the converter's process runs."""
    convert.run(todo)


def _tensor(value: np.ndarray) -> Any:
    import tensorflow as tf

    return tf.constant(value)
