"""Whether a file has the signatures that its manifest describes."""

from __future__ import annotations

import pathlib
from typing import NoReturn

from tfdistill import errors, files
from tfdistill.manifest import Manifest
from tfdistill.tflite import reader


def check_signatures(manifest: Manifest, file: files.Path) -> None:
    """Refuses a manifest that describes other signatures than its file has; reads only the file.

    Args:
      manifest: The manifest of this file.
      file: The .tflite file. It may have further signatures.

    Raises:
      ManifestError: If a signature is not in the file, or has other names, types or shapes.
      ModelFileError: If the file is no TFLite file, or damaged.
    """
    model = reader.read(file)
    held = {entry.key: entry for entry in model.signatures}
    for name, described in manifest.signatures.items():
        entry = held.get(name)
        if entry is None:
            _refuse(file, name, "none of that name")
        for side, tensors, records in (
            ("inputs", entry.inputs, described.inputs),
            ("outputs", entry.outputs, described.outputs),
        ):
            received = {tensor.name: (tensor.dtype, tensor.shape) for tensor in tensors}
            expected = {key: (record.dtype, record.shape) for key, record in records.items()}
            if received != expected:
                _refuse(file, f"{name}, {side}", received)
        shapes = [record.shape for record in described.inputs.values()]
        lengths = {shape[1] for shape in shapes if len(shape) > 1}
        if lengths != {described.sequence_length}:
            _refuse(file, f"{name}, sequence_length", sorted(lengths))


def _refuse(file: files.Path, what: str, received: object) -> NoReturn:
    raise errors.ManifestError(
        f"{pathlib.Path(file).name}, signature {what}",
        "what model.json says",
        received,
        "The two do not belong together; export again.",
    )
