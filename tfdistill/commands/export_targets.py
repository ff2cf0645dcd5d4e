"""Other export targets: Android, MediaPipe, SavedModel, Keras, KerasHub, Hugging Face."""

from __future__ import annotations

import argparse
import pathlib
from typing import Any

from tfdistill import errors, work_folder
from tfdistill.commands.export_job import Job


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
    group.add_argument("--keras-hub", metavar="DIR", help="KerasHub preset")
    group.add_argument("--hf", metavar="DIR", help="Hugging Face folder")
    group.add_argument(
        "--aot",
        metavar="CHIPS",
        help="files compiled ahead of time for NPUs, such as qualcomm:SM8650,mediatek:MT6989, and "
        "the AI pack for Google Play; the usual file is the fallback",
    )
    group.add_argument(
        "--libraries",
        action="append",
        default=[],
        metavar="NAME=DIR",
        help="with --aot: the folder of a vendor's libraries; may be repeated",
    )


def chips(args: argparse.Namespace) -> tuple[list[tuple[str, str]], dict[str, pathlib.Path]]:
    """Reads --aot and --libraries: names and chips, folders by name."""
    from export.targets import ahead_of_time
    from tfdistill.accelerators import vendors

    if args.aot is None:
        if args.libraries:
            raise errors.ConfigError("--libraries", "--aot too", "none")
        return [], {}
    wanted, libraries = vendors.parse(args.aot), vendors.parse_libraries(args.libraries)
    ahead_of_time.check_targets(wanted, libraries)
    return wanted, libraries


def check_paths(args: argparse.Namespace, bundle: str | None) -> None:
    """Refuses to replace a file or folder, before the long work."""
    from export.file import folders
    from export.targets import android_bundle

    chips(args)
    for path, kind in (
        (args.saved_model, "SavedModel"),
        (args.keras_hub, "KerasHub preset"),
        (args.hf, "Hugging Face folder"),
    ):
        if path is not None:
            work_folder.WorkFolder(path, kind).check(overwrite=args.overwrite)
    if args.keras is not None:
        folders.check_file_free(args.keras, suffix=".keras", overwrite=args.overwrite)
    if args.mediapipe is not None:
        folders.check_file_free(args.mediapipe, suffix=".tflite", overwrite=args.overwrite)
    if args.android is not None:
        work_folder.check_writable(pathlib.Path(args.android) / android_bundle.FOLDER, args.android)
    if args.android is not None and bundle is not None:
        android_bundle.check_free(args.android, bundle, overwrite=args.overwrite)


def check_model(args: argparse.Namespace, job: Job) -> None:
    """Refuses targets that the model cannot have, before the long work.

    Raises:
      TfdistillError: If the model does not fit a target.
    """
    from export.targets import android_bundle
    from tfdistill import models

    model = job.source.model
    if args.android is not None:
        android_bundle.check_texts(job.examples)
    if args.mediapipe is not None:
        from export.targets import mediapipe

        mediapipe.check_mediapipe(
            model,
            task=job.task,
            labels=job.labels,
            vocab_file=job.source.vocab_file,
            lower_case=job.source.lower_case,
        )
    if args.saved_model is not None:
        from export.targets import saved_model

        saved_model.check_saved_model(model)
    if args.keras is not None:
        from export.targets import keras3

        keras3.check_keras(model)
    if args.keras_hub is not None:
        from export.targets import keras_hub

        keras_hub.check_keras_hub(model)
    family = models.config_of(model)
    if args.hf is not None and not isinstance(family, models.EncoderConfig):
        raise errors.ConfigError(
            errors.explain(
                "--hf",
                "a model of the BERT family",
                f"a {family.family}",
                "transformers has no class for it; a SavedModel can be written.",
            )
        )


def write(args: argparse.Namespace, job: Job, exported: pathlib.Path) -> dict[str, str]:
    """Writes the targets that are asked for.

    Args:
      args: With `overwrite` and the options of `add_arguments`.
      job: The model.
      exported: Its TFLite file.

    Returns:
      Their paths, by the name of the target.
    """
    import export
    from tfdistill import weights

    model, written = job.source.model, {}
    common: dict[str, Any] = {
        "vocab_file": job.source.vocab_file,
        "lower_case": job.source.lower_case,
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
        written["keras"] = export.to_keras(model, args.keras, overwrite=args.overwrite)
    if args.keras_hub is not None:
        written["keras_hub"] = export.to_keras_hub(
            model, args.keras_hub, max_length=max(job.lengths), **common
        )
    if args.hf is not None:
        written["hf"] = weights.save_hf(
            model, args.hf, texts=() if job.examples is None else job.examples.texts, **common
        )
    if args.mediapipe is not None:
        written["mediapipe"] = export.to_mediapipe(
            exported, args.mediapipe, overwrite=args.overwrite
        )
    if args.android is not None:
        written["android"] = export.to_android(
            exported.parent, args.android, texts=job.examples, overwrite=args.overwrite
        )
    wanted, libraries = chips(args)
    if wanted:
        from export.targets import ahead_of_time

        card = ahead_of_time.to_aot(exported.parent, wanted, libraries=libraries)
        for file in card.compiled:
            title = f"{file.accelerator.title}: {file.accelerator.verdict}"
            written[f"compiled for {title}"] = exported.with_name(file.model.file)
        if (exported.parent / ahead_of_time.PACK).is_dir():
            written["AI pack"] = exported.parent / ahead_of_time.PACK
    return {target: str(path) for target, path in written.items()}
