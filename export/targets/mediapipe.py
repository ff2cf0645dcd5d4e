"""An exported file -> a copy that MediaPipe runs from plain text.

MediaPipe takes one length, softmax inside and metadata; an app of one's own takes several lengths
and, mostly, logits. Nothing is converted again for the one who wants both: one length is cut out of
the file, with its weights as they are, and softmax is put behind it. Vectors stay as they are.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import tf_keras as keras

from tfdistill import errors, models
from tfdistill import manifest as manifests
from tfdistill.io import checks, files, reading, work_folder
from tfdistill.tasks import Examples, TaskSpec
from tfdistill.tflite import TfliteModel, editing
from tfdistill.tokenization.reading import exported_tokenizer
from tfdistill.tokenization.tokenizer import Tokenizer

from ..file import bundle, metadata
from ..model import signature
from ..model.heads import SCORES, head_of_file
from . import mediapipe_checks


def to_mediapipe(
    source: files.Path,
    path: files.Path,
    *,
    length: int | None = None,
    texts: Examples | None = None,
    max_drop: float | None = None,
    overwrite: bool = False,
) -> pathlib.Path:
    """Writes the one-length copy that MediaPipe's TextClassifier or TextEmbedder runs.

    The copy is checked before it is written: its vocabulary and labels must be the export's, and on
    the golden examples that fit and on random ids it must give the softmax of what the exported
    file gives, of a sentence encoder the same vectors. MediaPipe's tokenizer splits some texts
    otherwise (letters beyond ASCII): with `texts` the log counts them, and the task's metric may
    not fall by more than `max_drop` through them.

    Args:
      source: An export: its folder, or its .tflite file.
      path: The .tflite file to write. It is complete: vocabulary and labels are inside.
      length: The length to keep, one of the file's; None for the longest. MediaPipe pads every
        text to it and cuts longer ones off.
      texts: Texts of the task, with labels for its metric.
      max_drop: The most that the metric may fall; default what the number format may cost
        (`export.quantizations`), or one example.
      overwrite: Whether an existing file may be replaced.

    Raises:
      ManifestError: If the export is not complete.
      ConfigError: If MediaPipe cannot run such a model, with every reason, or `length` is none of
        the file's.
      OutputExistsError: If the file is there and `overwrite` is not given.
      ExportError: If the copy cannot be made or written.
      ParityError: If the copy does not answer like the file, or MediaPipe's tokenizer costs more.

    Examples:
      >>> export.to_mediapipe("student", "mediapipe/model.tflite", max_drop=1.0).name
      'model.tflite'
    """
    manifest = manifests.read_manifest(source)
    folder = pathlib.Path(source)
    folder = folder if folder.is_dir() else folder.parent
    target = bundle.paths_of(path).model
    lengths = [entry.sequence_length for entry in manifest.signatures.values()]
    chosen = max(lengths) if length is None else length
    if chosen not in lengths:
        raise errors.ConfigError("length", f"one of {sorted(lengths)}", length)
    original = folder / manifest.model.file
    with TfliteModel(original, isolated=True) as file:  # a damaged file may end its process
        head = head_of_file(file)
    record = manifest.tokenizer
    tokenizer = None if record is None else exported_tokenizer(folder, record)
    labels: list[str] = []
    if manifest.labels_file is not None:
        labels = reading.read_text(folder / manifest.labels_file.file).splitlines()
    obstacles = metadata.obstacles(
        head=head.name,
        kind=None if manifest.task is None else manifest.task.kind,
        pair=manifest.task is not None and manifest.task.pair,
        lengths=[chosen],
        softmax=True,
        labels=labels,
        tokenizer=tokenizer,
    )
    if obstacles or tokenizer is None:
        raise metadata.refusal(obstacles)
    if target.resolve() == original.resolve():
        raise errors.ConfigError("path", "another file", "the exported file itself")
    work_folder.check_file(target, overwrite=overwrite)
    with files.temporary_folder("mediapipe") as temporary:
        candidate = temporary / target.name
        model = editing.read(original)
        editing.keep_signature(model, signature.signature_name(chosen))
        same_outputs = manifest.softmax or head.vectors
        if not same_outputs:
            editing.add_softmax(model, SCORES, manifest.temperature)
        editing.write(model, candidate)
        metadata.attach(
            candidate,
            name=manifest.name,
            tokenizer=tokenizer,
            labels=labels,
        )
        written = mediapipe_checks.WrittenCopy(
            candidate,
            original,
            folder,
            manifest,
            chosen,
            same_outputs,
            tokenizer,
            labels,
            texts,
            max_drop,
        )
        checks.require(f"copy {target} for MediaPipe", mediapipe_checks.CHECKS, written)
        bundle.write({target: candidate})
    return target


def check_mediapipe(
    model: keras.Model,
    *,
    task: TaskSpec | None,
    labels: Sequence[str] | None,
    tokenizer: Tokenizer,
) -> None:
    """Finds out before an export whether `to_mediapipe` could go on from it; names every reason.

    The task's labels are taken where none are named.
    """
    obstacles = metadata.obstacles(
        head=models.head_of(model),
        kind=None if task is None else task.kind,
        pair=task is not None and task.reads_pairs,
        lengths=[1],
        softmax=True,
        labels=labels or (task.labels if task is not None else ()),
        tokenizer=tokenizer,
    )
    metadata.wanted(True, obstacles)
