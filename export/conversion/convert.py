"""SavedModel -> TFLite in a process of its own.

TensorFlow's converter writes float32, float16 and dynamic int8 files and those of
quantization-aware models; every other quantization is made from its float32 file by the
ai-edge-quantizer.

The converter leaks memory at each call and a fault in it takes its process along, so every
conversion gets a fresh one: ``python -m export.conversion.convert SAVED_MODEL FILE --quantize NAME
--signatures KEY,KEY ...``.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import signal
import tempfile
from collections.abc import Mapping, Sequence

from tfdistill import errors, files
from tfdistill.data.encoded import EncodedExamples

from ..file import child
from . import calibrate
from . import quantize as quantizing
from .quantize import Quantization

# Lines of TensorFlow's log (I0000, 2026-01-01 ...) that say nothing about a failure.
_NOISE = ("I0000", "W0000", "INFO:", "WARNING:")


def convert(
    saved_model: files.Path,
    file: files.Path,
    *,
    quantize: str,
    signatures: Sequence[str],
    layers: Mapping[str, str] | None = None,
    matrices: Sequence[str] = (),
    examples: EncodedExamples | None = None,
    quantize_aware: bool = False,
    timeout_s: float = 1800,
) -> None:
    """Converts a SavedModel into one TFLite file.

    Args:
      saved_model: Folder of the SavedModel.
      file: The file to write, inside an existing folder.
      quantize: Name of a quantization.
      signatures: Keys of the signatures to keep.
      layers: Layers with another quantization: name of the layer -> name of the quantization.
      matrices: Names of the layers that have a weight matrix, in the order of the model.
      examples: What the ranges of a static quantization are measured on.
      quantize_aware: Whether the SavedModel has the ranges in it.
      timeout_s: Seconds after which the converter is stopped.

    Raises:
      ExportError: If the converter fails, crashes or takes too long; with its last words.
    """
    arguments = command_line(
        saved_model,
        file,
        quantize=quantize,
        signatures=signatures,
        layers=layers,
        matrices=matrices,
        examples=examples,
        quantize_aware=quantize_aware,
    )
    done = child.run(
        "conversion.convert",
        arguments,
        timeout_s=timeout_s,
        what="TFLite converter",
        remedy="Raise timeout_s, or convert fewer lengths.",
    )
    if done.returncode or not pathlib.Path(file).is_file():
        last = _last_words(done.stdout + done.stderr)
        raise errors.ExportError(
            "TFLite converter", "a file", f"{_ending(done.returncode)}. Its last words: {last}"
        )


def command_line(
    saved_model: files.Path,
    file: files.Path,
    *,
    quantize: str,
    signatures: Sequence[str],
    layers: Mapping[str, str] | None = None,
    matrices: Sequence[str] = (),
    examples: EncodedExamples | None = None,
    quantize_aware: bool = False,
) -> list[str]:
    """Returns what `main` takes for the arguments of `convert`; examples go beside `file`."""
    arguments = [os.path.abspath(saved_model), os.path.abspath(file), "--quantize", quantize]
    arguments += ["--signatures", ",".join(signatures)]
    if matrices:
        arguments += ["--matrices", ",".join(matrices)]
    if layers:
        arguments += ["--layers", json.dumps(dict(layers))]
    if examples is not None:
        beside = f"{os.path.abspath(file)}.examples.npz"
        calibrate.save(examples, beside)
        arguments += ["--examples", beside]
    if quantize_aware:
        arguments += ["--quantize-aware"]
    return arguments


def main(arguments: Sequence[str] | None = None) -> None:
    """Converts; what the module runs as a program."""
    parser = argparse.ArgumentParser(
        prog="python -m export.conversion.convert", description=__doc__
    )
    parser.add_argument("saved_model")
    parser.add_argument("file")
    parser.add_argument("--quantize", required=True, choices=quantizing.quantizations())
    parser.add_argument("--signatures", required=True, help="keys, separated by commas")
    parser.add_argument("--layers", default="{}", help='JSON: {"layer": "quantization"}')
    parser.add_argument("--matrices", default="", help="layers with a weight matrix, commas")
    parser.add_argument("--examples", help="npz file that ranges are measured on")
    parser.add_argument("--quantize-aware", action="store_true", help="the model has its ranges")
    options = parser.parse_args(arguments)
    base = quantizing.quantization(options.quantize)
    layers = {
        name: quantizing.quantization(own) for name, own in json.loads(options.layers).items()
    }
    signatures = options.signatures.split(",")
    if options.quantize_aware or (base.route == "converter" and not layers):
        content = _converted(options.saved_model, signatures, base)
        pathlib.Path(options.file).write_bytes(content)
        return

    from . import edge_quantizer

    with tempfile.TemporaryDirectory(prefix="tfdistill-convert-") as folder:
        source = pathlib.Path(folder) / "float.tflite"
        float32 = quantizing.quantization("float32")
        source.write_bytes(_converted(options.saved_model, signatures, float32))
        edge_quantizer.quantize(
            source,
            options.file,
            base=base,
            layers=layers,
            matrices=[name for name in options.matrices.split(",") if name],
            examples=None if options.examples is None else calibrate.load(options.examples),
        )


def _converted(saved_model: str, signatures: Sequence[str], quantization: Quantization) -> bytes:
    """Runs TensorFlow's converter."""
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_saved_model(
        saved_model, signature_keys=list(signatures)
    )
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    if quantization.name != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if quantization.name == "float16":
        converter.target_spec.supported_types = [tf.float16]
    return converter.convert()


def _ending(code: int) -> str:
    if code == 0:
        return "no file, though it said that all is well"
    if code > 0:
        return f"exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = str(-code)
    hint = ": the memory may not suffice" if name == "SIGKILL" else ""
    return f"an end by signal {name}{hint}"


def _last_words(output: str) -> str:
    lines = output.strip().splitlines()
    telling = [line for line in lines if line.strip() and not line.startswith(_NOISE)]
    return " | ".join(telling[-5:]) or "none"


if __name__ == "__main__":
    main()
