"""What a run hands over: saved models, exports, the measurement."""

from __future__ import annotations

import pathlib
import shutil
from typing import Any

import tf_keras as keras

import export
from tfdistill import benchmark, compress, config, errors, files, models, weights
from tfdistill.data import batches, tasks
from tfdistill.run import prepare

QUANTIZE_AWARE = ("static_wi8_ai8",)  # what a quantization-aware model is trained for
CLASSIFIER = "classifier.json"  # what a model without a Hugging Face folder does not say itself


def save_model(model: keras.Model, prepared: prepare.Prepared, folder: pathlib.Path) -> None:
    """Saves a classifier as ``model.keras`` and as a Hugging Face folder ``hf``, both or none.

    A BiLSTM has no class in `transformers`: beside its ``model.keras`` lie ``vocab.txt`` and
    ``classifier.json`` (labels and case) instead. A quantization-aware model is saved as its float
    weights, and its ranges as ``ranges.safetensors`` beside them.
    """
    plain = compress.strip(model)
    with files.atomic_folder(folder) as temporary:
        plain.save(temporary / "model.keras")
        if compress.is_quantize_aware(model):
            compress.save_ranges(model, temporary / compress.RANGES)
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
            plain,
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
    """Parameters, FLOPs by length and shape of a model, for metrics.json."""
    shape = models.config_of(model)
    head, width = models.head_of(model), models.num_labels_of(model)
    return {
        "parameters": sum(weight.shape.num_elements() for weight in compress.float_weights(model)),
        "flops": {
            str(length): models.flops(shape, length, width, over_tokens=head in ("token", "span"))
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
    data: config.DataConfig,
) -> dict[str, Any]:
    """Exports a model into `folder`, checked on the development set.

    Args:
      model: The model.
      prepared: The data of its run.
      folder: The folder to write into.
      name: Name in the manifest.
      quantize: Name of the quantization.
      settings: The export section.
      data: The data section.

    Returns:
      The manifest as plain values.

    Raises:
      ConfigError: If the model has positions for none of the lengths.
      ParityError: If the file does not answer like the model; nothing is written then.
    """
    usual = settings.lengths == config.ExportConfig().lengths
    named = None if usual else settings.lengths
    lengths = export_lengths(named, model, prepared.task, data)
    check_on = prepared.dev.encoded
    longest = max(lengths)
    # The file will see such texts cut, too; and its longest signature is the window of a question.
    if check_on.lengths.max() > longest or (
        prepared.task.kind == "span" and longest != data.max_length
    ):
        check_on = batches.encode_examples(
            prepared.dev_examples,
            prepared.tokenizer,
            longest,
            doc_stride=data.doc_stride,
            max_question_length=data.max_question_length,
        )
    if quantize not in QUANTIZE_AWARE:  # its float weights are trained, too
        model = compress.strip(model)
    manifest = export.to_tflite(
        model,
        folder / "model.tflite",
        quantize=quantize,
        calibrate_on=prepared.train,
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


def export_lengths(
    named: tuple[int, ...] | None,
    model: keras.Model,
    task: tasks.TaskSpec | None,
    data: config.DataConfig | None,
) -> tuple[int, ...]:
    """The lengths of a model's file.

    Args:
      named: Those that were asked for; None takes the usual ones and, for questions, that of the
        windows that the model was trained on, which is then the longest.
      model: The model.
      task: Its task, or None.
      data: Where its examples come from, or None.

    Returns:
      Those that the model's position table can serve.

    Raises:
      ConfigError: If it can serve none.
    """
    lengths = named or config.ExportConfig().lengths
    if named is None and task is not None and task.kind == "span" and data is not None:
        lengths = (*(length for length in lengths if length < data.max_length), data.max_length)
    longest = models.config_of(model).max_positions
    usable = tuple(length for length in lengths if length <= longest)
    if not usable:
        raise errors.ConfigError(
            errors.explain(
                "export.lengths",
                f"some of at most {longest} tokens, the model's positions",
                lengths,
                f"Set them with --set export.lengths=[{longest}].",
            )
        )
    return usable


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
    if result.failures:
        raise errors.BenchmarkError("\n".join(failure.error for failure in result.failures))
    benchmark.write_result(result, path)
