"""The papers' models with random weights, as files to measure: time does not depend on weights."""

from __future__ import annotations

import gc
import pathlib
import shutil
from collections.abc import Sequence

import tf_keras as keras

from export.conversion import quantize
from export.targets import tflite
from tfdistill import errors, files, manifest, models
from tfdistill.models.presets import as_config

from .table import file_name

NUM_LABELS = 2
_FILE = "model.tflite"
_BYTES = 4  # of a weight in float32
_TOY = {"num_layers": 1, "hidden_size": 32, "intermediate_size": 32, "vocab_size": 200}


def shape(preset: str, *, scaled_down: bool = False) -> models.EncoderConfig:
    """Returns the shape of a preset, or of a toy of its kind.

    Raises:
      ConfigError: If there is no such preset, or it is no transformer.
    """
    config = as_config(preset)
    if not scaled_down:
        return config
    if isinstance(config, models.MobileBertConfig):
        return config.replace(**_TOY, num_heads=2, embedding_size=16, bottleneck_size=16)
    return config.replace(**_TOY, num_heads=2)


def export_missing(
    folder: files.Path,
    preset: str,
    quantizations: Sequence[str],
    *,
    lengths: Sequence[int],
    scaled_down: bool = False,
    seed: int = 0,
) -> dict[str, manifest.Manifest]:
    """Exports a preset in every quantization that has not been exported yet.

    Args:
      folder: Gets one folder for each file.
      preset: The model.
      quantizations: Names of quantizations that need no calibration.
      lengths: Of the signatures.
      scaled_down: Whether a toy of its kind is exported.
      seed: Of the weights.

    Returns:
      The manifests by quantization.

    Raises:
      ConfigError: If an option is not valid.
      ExportError: If a file could not be made, or the disk is too full.
    """
    root = pathlib.Path(folder)
    manifests: dict[str, manifest.Manifest] = {}
    for quantization in quantizations:
        export_folder = root / file_name(preset, quantization)
        if (export_folder / manifest.FILE_NAME).is_file():
            manifests[quantization] = manifest.read_manifest(export_folder)
    missing = [quantization for quantization in quantizations if quantization not in manifests]
    if not missing:
        return manifests
    config = shape(preset, scaled_down=scaled_down)
    _check_disk_space(root, models.count_parameters(config), len(missing))
    model = models.build_random(config, models.Head("sequence", NUM_LABELS), seed=seed)
    for quantization in missing:
        name = file_name(preset, quantization)
        manifests[quantization] = tflite.to_tflite(
            model,
            root / name / _FILE,
            quantize=quantization,
            lengths=tuple(lengths),
            name=name,
            overwrite=True,  # what has no manifest was cut off
        )
    del model
    keras.backend.clear_session()
    gc.collect()
    return manifests


def check_quantizations(names: Sequence[str]) -> None:
    """Checks that each can be made of a model without trained weights.

    Raises:
      ConfigError: If one is unknown, or needs real examples to measure ranges on.
    """
    for name in names:
        if quantize.quantization(name).needs_calibration:
            raise errors.ConfigError(
                "--quantize",
                "quantizations without calibration, such as float32 or dynamic_wi8_afp32",
                name,
                "Random weights have no ranges to measure.",
            )


def _check_disk_space(folder: pathlib.Path, parameters: int, count: int) -> None:
    """Checks that the files and the converter's copies fit on the disk."""
    folder.mkdir(parents=True, exist_ok=True)
    needed = (count + 2) * _BYTES * parameters
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise errors.ExportError(
            f"disk of {folder.name}/",
            f"{needed / 1e9:.1f} GB for the next model",
            f"{free / 1e9:.1f} GB free",
            "Free some space, or use another --out.",
        )
