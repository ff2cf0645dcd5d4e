"""SavedModel -> TFLite in a process of its own.

TensorFlow's converter writes float32 and float16 files and those of quantization-aware models;
every quantization to integers is made from its float32 file by the litert-quantizer.

The converter leaks memory at each call and a fault in it ends its process, so every conversion
gets a fresh one: ``python -m export.conversion.convert CONVERSION.json``.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfdistill import errors
from tfdistill.io import files, processes
from tfdistill.tflite import child, editing

from ..file import metadata
from ..model import signature
from . import calibrate, device_form, prepare
from . import quantize as quantizing
from .prepare import ExportPlan
from .quantize import Quantization

# Lines of TensorFlow's log (I0000, 2026-01-01 ...) that say nothing about a failure.
_NOISE = ("I0000", "W0000", "INFO:", "WARNING:")


@dataclasses.dataclass(frozen=True)
class Conversion:
    """A conversion: the input, the output and the options of the converter."""

    saved_model: str
    file: str  # the one to write, inside an existing folder
    quantize: str  # name of a quantization
    signatures: Sequence[str]  # keys of the signatures to keep
    # layers with another quantization: name of the layer -> name of the quantization
    layers: dict[str, str] = dataclasses.field(default_factory=dict)
    # names of the layers that have a weight matrix, in the order of the model
    matrices: Sequence[str] = ()
    # an npz file of what the ranges of a static quantization are measured on, or None
    examples: str | None = None
    quantize_aware: bool = False  # whether the SavedModel has the ranges in it
    device: str = "cpu"  # name of the processor that the file is for, see `device_form`
    # where the float32 conversion of the SavedModel goes, unless it is there already; None where it
    # is not asked for
    float_file: str | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Converted:
    """A file that was converted and is not checked yet."""

    plan: ExportPlan
    file: pathlib.Path
    float_file: pathlib.Path  # the float32 conversion of the same SavedModel


def convert(
    plan: ExportPlan, folder: pathlib.Path, float_file: pathlib.Path | None = None
) -> Converted:
    """Converts the model of a plan into one TFLite file, with metadata where they are wanted.

    The float32 conversion of the same SavedModel goes to `float_file`, in the folder by default,
    and is used as it is where it exists.
    """
    float_file = float_file or folder / "float32" / "model.tflite"
    float_file.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / plan.paths.model.name
    if plan.is_float and plan.device.flat_ids:  # no file of other formats is made of this one
        float_file = file
        convert_to(plan, file)
    elif plan.is_float:
        if not float_file.exists():
            convert_to(plan, float_file)
        shutil.copyfile(float_file, file)
    else:
        convert_to(plan, file, float_file)
    if plan.metadata and plan.tokenizer is not None:
        name = plan.request.manifest_name
        metadata.attach(file, name=name, tokenizer=plan.tokenizer, labels=plan.labels)
    return Converted(plan, file, float_file)


def convert_to(plan: ExportPlan, file: files.Path, float_file: files.Path | None = None) -> None:
    """Converts the model of a plan, and keeps its float32 conversion where that has a path."""
    with files.temporary_folder("model") as folder:
        saved, examples = folder / "saved_model", folder / "examples.npz"
        is_there = float_file is not None and os.path.exists(float_file)
        if not is_there or _is_direct(plan.quantize_aware, plan.quantization, plan.layers):
            signature.save(plan.model, saved, lengths=plan.lengths, softmax=plan.request.softmax)
        if plan.calibration is not None:
            calibrate.save(plan.calibration, examples)
        conversion = Conversion(
            str(saved),
            os.path.abspath(file),
            plan.quantization.name,
            [signature.signature_name(length) for length in plan.lengths],
            layers={name: quantization.name for name, quantization in plan.layers.items()},
            matrices=prepare.with_matrices(plan.model),
            examples=None if plan.calibration is None else str(examples),
            quantize_aware=plan.quantize_aware,
            device=plan.device.name,
            float_file=None if float_file is None else os.path.abspath(float_file),
        )
        run_in_child(conversion, timeout_s=plan.request.timeout_s)


def run_in_child(conversion: Conversion, *, timeout_s: float = 1800) -> None:
    """Runs a conversion in a process of its own.

    Raises ExportError with the converter's last words if it fails, crashes or takes too long;
    OSError if a disk is full, which names the folder of the two it writes to that has less room.
    """
    with files.temporary_folder("conversion") as folder:
        described = folder / "conversion.json"
        described.write_text(json.dumps(dataclasses.asdict(conversion)), "utf-8")
        done = child.run(
            [sys.executable, "-m", __name__, str(described)],
            what="TFLite converter",
            timeout_seconds=timeout_s,
            error=errors.ExportError,
            remedy="Raise timeout_s, or convert fewer lengths.",
            variables={"TF_CPP_MIN_LOG_LEVEL": "2"},
        )
    if done.returncode or not pathlib.Path(conversion.file).is_file():
        lines = (done.stdout + done.stderr).strip().splitlines()
        telling = [line for line in lines if line.strip() and not line.startswith(_NOISE)]
        said = " | ".join(telling[-5:]) or "none"
        fault = errors.errno_of(RuntimeError(said))
        if fault in errors.FULL_DISK:
            folders = (tempfile.gettempdir(), os.path.dirname(conversion.file))
            fuller = min(folders, key=lambda folder: shutil.disk_usage(folder).free)
            raise OSError(fault, os.strerror(fault), fuller)
        raise errors.ExportError(
            "TFLite converter", "a file", f"{_ending(done.returncode)}. Its last words: {said}"
        )


def run(conversion: Conversion) -> None:
    """Runs a conversion in this process."""
    form = device_form.form(conversion.device)
    base = form.stored(quantizing.quantization(conversion.quantize))
    layers = {
        name: form.stored(quantizing.quantization(quantization))
        for name, quantization in conversion.layers.items()
    }
    with files.temporary_folder("convert") as folder:
        source = pathlib.Path(conversion.float_file or folder / "float.tflite")
        direct = _is_direct(conversion.quantize_aware, base, layers)
        if not source.exists() and (conversion.float_file is not None or not direct):
            source.write_bytes(_converted(conversion, quantizing.quantization("float32")))
            if form.flat_ids:
                _edit(source, device_form.equal_ranks)
        if direct:
            pathlib.Path(conversion.file).write_bytes(_converted(conversion, base))
            if form.flat_ids:
                _edit(conversion.file, device_form.equal_ranks)
            elif base.method != "float":  # the converter writes scales for each signature
                _edit(conversion.file)
        else:
            from . import edge_quantizer

            examples = conversion.examples
            edge_quantizer.quantize(
                source,
                conversion.file,
                base=base,
                layers=layers,
                matrices=conversion.matrices,
                examples=None if examples is None else calibrate.load(examples),
            )
    if form.flat_ids:
        _edit(conversion.file, device_form.flatten_ids)


def _edit(file: files.Path, change: Callable[[Any], object] | None = None) -> None:
    """Changes a file in place, and writes what its signatures have in common once."""
    model = editing.read(file)
    if change is not None:
        change(model)
    editing.write(model, file)


def _is_direct(
    quantize_aware: bool, base: Quantization, layers: Mapping[str, Quantization]
) -> bool:
    """Whether TensorFlow's converter writes a file from the SavedModel, not another from floats."""
    return quantize_aware or (base.method == "float" and not layers)


def _converted(conversion: Conversion, quantization: Quantization) -> bytes:
    """Runs TensorFlow's converter."""
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_saved_model(
        conversion.saved_model, signature_keys=list(conversion.signatures)
    )
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    if quantization.name != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if quantization.name == "float16":
        converter.target_spec.supported_types = [tf.float16]
    return converter.convert()


def _ending(code: int) -> str:
    if code == 0:
        return "no file, though it reported success"
    hint = ": the memory may not suffice" if code == -signal.SIGKILL else ""
    return f"{processes.describe_exit(code)}{hint}"


if __name__ == "__main__":
    processes.end_with_parent()
    run(Conversion(**json.loads(pathlib.Path(sys.argv[1]).read_bytes())))
