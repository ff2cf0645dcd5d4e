"""Other export targets: Android, MediaPipe, SavedModel, Keras, Hugging Face."""

from __future__ import annotations

import argparse
import pathlib
import shlex
from collections.abc import Callable
from typing import Any

from tfdistill import errors
from tfdistill.commands import options
from tfdistill.commands.export_job import Job
from tfdistill.io import work_folder
from tfdistill.manifest import Manifest
from tfdistill.tasks import KINDS
from tfdistill.tokenization.tokenizer import Tokenizer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds an option for each target."""
    texts = {
        "--android DIR": "bundle with test vectors, written into a folder of assets",
        "--mediapipe FILE.tflite": "copy of the longest length, with softmax, that MediaPipe runs "
        "from text",
        "--saved-model DIR": "SavedModel from text to label and score, or to a vector",
        "--keras FILE.keras": "Keras 3 model",
        "--hf DIR": "Hugging Face folder",
    }
    group = parser.add_argument_group("other export targets, from the same model")
    options.add_plain(group, texts)


def check_paths(args: argparse.Namespace, bundle: str) -> None:
    """Refuses to replace a file or folder, before the long work."""
    from export.file import bundle as bundles
    from export.targets import android_bundle

    for path, kind in ((args.saved_model, "SavedModel"), (args.hf, "Hugging Face folder")):
        if path is not None:
            work_folder.WorkFolder(path, kind).check(overwrite=args.overwrite)
    if args.keras is not None:
        bundles.check_file_free(args.keras, suffix=".keras", overwrite=args.overwrite)
    if args.mediapipe is not None:
        bundles.check_file_free(args.mediapipe, suffix=".tflite", overwrite=args.overwrite)
        bundles.paths_of(args.mediapipe)  # which has a rule for names
    if args.android is not None:
        work_folder.check_writable(pathlib.Path(args.android) / android_bundle.FOLDER, args.android)
        android_bundle.check_free(args.android, bundle, overwrite=args.overwrite)


def check_model(args: argparse.Namespace, job: Job) -> None:
    """Refuses targets that the model cannot have, before the long work."""
    from export.targets import android_bundle

    model, tokenizer = job.source.model, job.source.tokenizer
    if args.android is not None:
        android_bundle.check_texts(job.examples)
        if (examples := job.check_set) is not None:
            android_bundle.check_lengths(examples.lengths, job.lengths)
    if args.mediapipe is not None:
        from export.targets import mediapipe

        mediapipe.check_mediapipe(model, task=job.task, labels=job.labels, tokenizer=tokenizer)
    if args.saved_model is not None:
        from export.targets import saved_model

        saved_model.check_saved_model(model)
    if args.keras is not None:
        from export.targets import keras3

        keras3.check_keras(model)
    if args.hf is not None:
        _check_hf(model, tokenizer)


def _check_hf(model: Any, tokenizer: Tokenizer) -> None:
    from tfdistill import models
    from tfdistill.weights import hf_config

    config, head = models.config_of(model), models.read_head(model)
    received = f"a {config.family}"
    if not isinstance(config, models.EncoderConfig):
        expected = "a model of the BERT family"
        remedy = "transformers has no class for it; a SavedModel can be written."
    elif reason := hf_config.foreign_head(config, head):
        expected, received = "a model that transformers answers as here", f"{received} ({reason})"
        other = "a student with the family bert"
        if head.pooled:
            other = "a classifier over [CLS]: `tfdistill quickstart --finetune always`"
        remedy = f"Write a SavedModel, or train {other}."
    elif received := tokenizer.foreign_reading(vectors=head.traits.vectors):
        expected = "a tokenizer that transformers has"
        remedy = "Write a SavedModel, or train with --truncation end and no --prompt."
    else:
        return
    raise errors.ConfigError("--hf", expected, received, remedy)


def write(args: argparse.Namespace, job: Job, exported: pathlib.Path) -> dict[str, str]:
    """Writes the targets that are asked for; returns their paths, by the name of the target."""
    import export
    from tfdistill import weights

    model, overwrite, texts = job.source.model, args.overwrite, job.examples
    reads = {"tokenizer": job.source.tokenizer, "labels": job.labels}
    common: dict[str, Any] = {**reads, "overwrite": overwrite}
    whole = {"task": job.task, "max_length": max(job.lengths), "check_on": texts}
    checkpoint = {"texts": () if texts is None else texts.texts, "for_transformers": True}
    checkpoint["max_length"] = job.source.max_length
    checked = {"check_on": job.check_set, "overwrite": overwrite}
    shown = {"texts": texts, "overwrite": overwrite}
    writers: dict[str, Callable[[str], Any]] = {
        "saved_model": lambda path: export.to_saved_model(model, path, **whole, **common),
        "keras": lambda path: export.to_keras(model, path, **checked),
        "hf": lambda path: weights.save_hf(model, path, **checkpoint, **common),
        "mediapipe": lambda path: export.to_mediapipe(exported, path, **shown),
        "android": lambda path: export.to_android(exported.parent, path, **shown),
    }
    paths = {target: getattr(args, target) for target in writers}
    return {name: str(writers[name](path)) for name, path in paths.items() if path is not None}


def next_step(manifest: Manifest, target: str) -> list[str]:
    """The command that answers with the file, if one does."""
    kind = None if manifest.task is None else KINDS[manifest.task.kind]
    if kind is not None and kind.answers_texts:
        return [f'next: tfdistill predict {shlex.quote(target)} "a text"']
    if kind is not None and kind.vectors:
        return [f"next: tfdistill index texts.txt --model {shlex.quote(target)}"]
    return []
