"""The check that a file has the signatures of its manifest, and outputs for its task."""

from __future__ import annotations

import pathlib
from typing import NoReturn

from tfdistill import errors
from tfdistill.io import files
from tfdistill.manifest import Manifest, SignatureRecord, TaskRecord
from tfdistill.tasks.kind import kind_named
from tfdistill.tflite import reader

_PROBABILITIES = "scores"  # the output of a file that applies softmax or sigmoid


def check_signatures(manifest: Manifest, file: files.Path) -> None:
    """Refuses a manifest that describes other signatures than its file has; reads only the file.

    The file may have further ones. Names, types and shapes must be the same, and the outputs those
    of the manifest's task.
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
        if manifest.task is not None:
            _check_outputs(file, name, described, manifest.task)
        if (_PROBABILITIES in described.outputs) != manifest.softmax:
            _refuse(file, f"{name}, softmax {manifest.softmax}", f"outputs {[*described.outputs]}")


def _check_outputs(
    file: files.Path, name: str, described: SignatureRecord, task: TaskRecord
) -> None:
    """Refuses outputs of other labels than the task's."""
    kind = kind_named(task.kind)
    width = kind.num_labels(task.labels)
    if not width or kind.decodes_spans:
        return
    expected = (1, described.sequence_length, width) if kind.over_tokens else (1, width)
    for record in described.outputs.values():
        if record.shape != expected:
            _refuse(file, f"{name}, task {task.kind} of {len(task.labels)} labels", record.shape)


def _refuse(file: files.Path, what: str, received: object) -> NoReturn:
    raise errors.ManifestError(
        f"{pathlib.Path(file).name}, signature {what}",
        "what model.json says",
        received,
        "The two do not belong together; export again.",
    )
