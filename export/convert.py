"""SavedModel -> TFLite in a process of its own.

The converter leaks memory at each call and a fault in it takes its process along, so every
conversion gets a fresh one: ``python -m export.convert SAVED_MODEL FILE --quantize NAME
--signatures KEY,KEY``.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Sequence

from tfdistill import errors, files

from . import quantize as quantizing

_ROOT = pathlib.Path(__file__).resolve().parents[1]  # the folder that holds the package export
# Lines of TensorFlow's log (I0000, 2026-01-01 ...) that say nothing about a failure.
_NOISE = ("I0000", "W0000", "INFO:", "WARNING:")


def convert(
    saved_model: files.Path,
    file: files.Path,
    *,
    quantize: str,
    signatures: Sequence[str],
    timeout_s: float = 1800,
) -> None:
    """Converts a SavedModel into one TFLite file.

    Args:
      saved_model: Folder of the SavedModel.
      file: The file to write, inside an existing folder.
      quantize: Name of a quantization.
      signatures: Keys of the signatures to keep.
      timeout_s: Seconds after which the converter is stopped.

    Raises:
      ExportError: If the converter fails, crashes or takes too long; with its last words.
    """
    command = [
        sys.executable,
        "-m",
        "export.convert",
        os.path.abspath(saved_model),
        os.path.abspath(file),
        "--quantize",
        quantize,
        "--signatures",
        ",".join(signatures),
    ]
    paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TF_CPP_MIN_LOG_LEVEL": "2"}
    try:
        done = subprocess.run(
            command,
            cwd=_ROOT,  # Python looks there first: no folder of the user's shadows a package
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired:
        raise errors.ExportError(
            errors.explain(
                "TFLite converter",
                f"a file within {timeout_s:g} s",
                "none",
                "Raise timeout_s, or convert fewer lengths.",
            )
        ) from None
    if done.returncode or not pathlib.Path(file).is_file():
        raise errors.ExportError(
            errors.explain(
                "TFLite converter",
                "a file",
                f"{_ending(done.returncode)}. Its last words: {_last_words(done.stdout)}",
            )
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Converts; what the module runs as a program."""
    parser = argparse.ArgumentParser(prog="python -m export.convert", description=__doc__)
    parser.add_argument("saved_model")
    parser.add_argument("file")
    parser.add_argument("--quantize", required=True, choices=quantizing.quantizations())
    parser.add_argument("--signatures", required=True, help="keys, separated by commas")
    options = parser.parse_args(arguments)

    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_saved_model(
        options.saved_model, signature_keys=options.signatures.split(",")
    )
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    if options.quantize != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if options.quantize == "float16":
        converter.target_spec.supported_types = [tf.float16]
    content = converter.convert()
    with open(options.file, "wb") as file:
        file.write(content)


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


def _last_words(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    telling = [line for line in lines if line.strip() and not line.startswith(_NOISE)]
    return " | ".join(telling[-5:]) or "none"


if __name__ == "__main__":
    main()
