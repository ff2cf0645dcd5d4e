"""What a run hands over: saved models, exports, the measurement."""

from __future__ import annotations

import pathlib
import shutil
from typing import Any

import tf_keras as keras

import export
from tfdistill import benchmark, config, files, models, weights
from tfdistill.data import batches
from tfdistill.run import prepare

CLASSIFIER = "classifier.json"  # what a model without a Hugging Face folder does not say itself


def save_model(model: keras.Model, prepared: prepare.Prepared, folder: pathlib.Path) -> None:
    """Saves a classifier as ``model.keras`` and as a Hugging Face folder ``hf``, both or none.

    A BiLSTM has no class in `transformers`: beside its ``model.keras`` lie ``vocab.txt`` and
    ``classifier.json`` (labels and case) instead.
    """
    with files.atomic_folder(folder) as temporary:
        model.save(temporary / "model.keras")
        if models.config_of(model).family == "bilstm":
            shutil.copyfile(prepared.vocab_file, temporary / "vocab.txt")
            facts = {
                "format_version": 1,
                "labels": list(prepared.task.labels),
                "lower_case": prepared.tokenizer.lower_case,
            }
            files.atomic_write_json(temporary / CLASSIFIER, facts)
            return
        weights.save_hf(
            model,
            temporary / "hf",
            labels=prepared.task.labels or None,
            vocab_file=prepared.vocab_file,
            lower_case=prepared.tokenizer.lower_case,
        )


def save_words(model: keras.Model, prepared: prepare.Texts, folder: pathlib.Path) -> None:
    """Saves a masked language model or an encoder as `save_model` does a classifier."""
    with files.atomic_folder(folder) as temporary:
        model.save(temporary / "model.keras")
        weights.save_hf(
            model,
            temporary / "hf",
            vocab_file=prepared.vocab_file,
            lower_case=prepared.tokenizer.lower_case,
        )


def describe(model: keras.Model, lengths: tuple[int, ...]) -> dict[str, Any]:
    """Parameters, FLOPs by length and shape of a classifier, for metrics.json."""
    shape = models.config_of(model)
    return {
        "parameters": model.count_params(),
        "flops": {
            str(length): models.flops(shape, length, models.num_labels_of(model))
            for length in lengths
        },
        "architecture": {
            "family": shape.family,
            "num_layers": shape.num_layers,
            "hidden_size": shape.hidden_size,
            "num_heads": shape.num_heads,
            "intermediate_size": shape.intermediate_size,
        },
    }


def export_model(
    model: keras.Model,
    prepared: prepare.Prepared,
    folder: pathlib.Path,
    *,
    name: str,
    quantize: str,
    settings: config.ExportConfig,
) -> dict[str, Any]:
    """Exports a classifier into `folder`, checked on the development set.

    Returns:
      The manifest as plain values.

    Raises:
      ParityError: If the file does not answer like the model; nothing is written then.
    """
    lengths = usable_lengths(settings.lengths, model)
    check_on = prepared.dev.encoded
    if check_on.lengths.max() > max(lengths):  # the file will see such texts cut, too
        check_on = batches.encode_examples(prepared.dev_examples, prepared.tokenizer, max(lengths))
    manifest = export.to_tflite(
        model,
        folder / "model.tflite",
        quantize=quantize,
        lengths=lengths,
        softmax=settings.softmax,
        check_on=check_on,
        task=prepared.task,
        vocab_file=prepared.vocab_file,
        lower_case=prepared.tokenizer.lower_case,
        labels=prepared.task.labels,
        texts=prepared.dev_examples,
        name=name,
        overwrite=True,
    )
    return manifest.model_dump(mode="json")


def usable_lengths(lengths: tuple[int, ...], model: keras.Model) -> tuple[int, ...]:
    """The lengths that the model's position table can serve."""
    longest = models.config_of(model).max_positions
    return tuple(length for length in lengths if length <= longest)


def measure(
    folders: dict[str, pathlib.Path], settings: config.BenchmarkConfig, path: pathlib.Path
) -> None:
    """Measures exported folders interleaved in one run; the first is the baseline."""
    result = benchmark.compare(
        folders,
        threads=settings.threads,
        warmup=settings.warmup,
        runs=settings.runs,
        min_seconds=settings.min_seconds,
        repetitions=settings.repetitions,
        progress=True,
    )
    benchmark.write_result(result, path)
