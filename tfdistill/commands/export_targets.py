"""Other export targets: Android, MediaPipe, SavedModel, Keras, Hugging Face."""

from __future__ import annotations

import argparse
import pathlib
from typing import Any

from tfdistill import errors
from tfdistill.commands.export_job import Job
from tfdistill.io import work_folder
from tfdistill.tokenization.wordpiece import WordPiece


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds an option for each target."""
    group = parser.add_argument_group("other export targets, from the same model")
    group.add_argument(
        "--android", metavar="DIR", help="bundle with test vectors, written into a folder of assets"
    )
    group.add_argument(
        "--mediapipe",
        metavar="FILE.tflite",
        help="copy of the longest length, with softmax, that MediaPipe runs from text",
    )
    group.add_argument(
        "--saved-model",
        metavar="DIR",
        help="SavedModel from text to label and score, or to a vector",
    )
    group.add_argument("--keras", metavar="FILE.keras", help="Keras 3 model")
    group.add_argument("--hf", metavar="DIR", help="Hugging Face folder")


def check_paths(args: argparse.Namespace, bundle: str) -> None:
    """Refuses to replace a file or folder, before the long work."""
    from export.file import bundle as bundles
    from export.targets import android_bundle

    for path, kind in (
        (args.saved_model, "SavedModel"),
        (args.hf, "Hugging Face folder"),
    ):
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

    model = job.source.model
    if args.android is not None:
        android_bundle.check_texts(job.examples)
        if (examples := job.check_set) is not None:
            android_bundle.check_lengths(examples.lengths, job.lengths)
    if args.mediapipe is not None:
        from export.targets import mediapipe

        mediapipe.check_mediapipe(
            model,
            task=job.task,
            labels=job.labels,
            tokenizer=job.source.tokenizer,
        )
    if args.saved_model is not None:
        from export.targets import saved_model

        saved_model.check_saved_model(model)
    if args.keras is not None:
        from export.targets import keras3

        keras3.check_keras(model)
    if args.hf is not None:
        _check_hf(model, job.source.tokenizer)


def _check_hf(model: Any, tokenizer: WordPiece) -> None:
    """Refuses a model that `transformers` has no class or no tokenizer for."""
    from tfdistill import models
    from tfdistill.weights import hf_config

    config = models.config_of(model)
    if not isinstance(config, models.EncoderConfig):
        raise errors.ConfigError(
            "--hf",
            "a model of the BERT family",
            f"a {config.family}",
            "transformers has no class for it; a SavedModel can be written.",
        )
    head = models.read_head(model)
    if reason := hf_config.foreign_head(config, head):
        other = "a student with the family bert"
        if head.pooled:
            other = "a classifier over [CLS]: `tfdistill quickstart --finetune always`"
        raise errors.ConfigError(
            "--hf",
            "a model that transformers answers as here",
            f"a {config.family} ({reason})",
            f"Write a SavedModel, or train {other}.",
        )
    if reason := tokenizer.foreign_truncation:
        raise errors.ConfigError(
            "--hf",
            "a tokenizer that transformers has",
            reason,
            "Write a SavedModel, or train with --truncation end.",
        )


def write(args: argparse.Namespace, job: Job, exported: pathlib.Path) -> dict[str, str]:
    """Writes the targets that are asked for; returns their paths, by the name of the target."""
    import export
    from tfdistill import weights

    model, written = job.source.model, {}
    common: dict[str, Any] = {
        "tokenizer": job.source.tokenizer,
        "labels": job.labels,
        "overwrite": args.overwrite,
    }
    if args.saved_model is not None:
        written["saved_model"] = export.to_saved_model(
            model,
            args.saved_model,
            task=job.task,
            max_length=max(job.lengths),
            check_on=job.examples,
            **common,
        )
    if args.keras is not None:
        written["keras"] = export.to_keras(
            model, args.keras, check_on=job.check_set, overwrite=args.overwrite
        )
    if args.hf is not None:
        written["hf"] = weights.save_hf(
            model,
            args.hf,
            texts=() if job.examples is None else job.examples.texts,
            for_transformers=True,
            **common,
        )
    if args.mediapipe is not None:
        written["mediapipe"] = export.to_mediapipe(
            exported, args.mediapipe, texts=job.examples, overwrite=args.overwrite
        )
    if args.android is not None:
        written["android"] = export.to_android(
            exported.parent, args.android, texts=job.examples, overwrite=args.overwrite
        )
    return {target: str(path) for target, path in written.items()}
