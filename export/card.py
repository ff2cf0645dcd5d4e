"""The manifest of an export."""

from __future__ import annotations

import datetime
import hashlib
import pathlib
from collections.abc import Mapping

import tensorflow as tf

from tfdistill import _version, models
from tfdistill.manifest import (
    Architecture,
    FileRecord,
    Manifest,
    Parity,
    Signature,
    TaskRecord,
    TensorRecord,
    TokenizerRecord,
)

from . import signature
from .bundle import Places
from .inspection import ModelReport, TensorReport
from .plan import Plan


def describe(
    plan: Plan,
    report: ModelReport,
    agreement: Parity,
    places: Places,
    beside: Mapping[pathlib.Path, bytes],
) -> Manifest:
    """Makes the manifest of a checked file.

    Args:
      plan: What was asked for.
      report: What is in the file.
      agreement: How far it agrees with the model.
      places: Where the files go.
      beside: The files beside the model file, with what will be in them.

    Returns:
      The manifest.
    """
    config = plan.config
    lengths = {signature.signature_name(length): length for length in plan.lengths}
    return Manifest(
        name=plan.name,
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        tfdistill_version=_version.__version__,
        converter=f"tensorflow {tf.__version__}",
        model=FileRecord(
            file=places.model.name, sha256=report.sha256, size_bytes=report.size_bytes
        ),
        quantization=plan.quantization.name,
        signatures={
            name: Signature(
                sequence_length=length,
                inputs=_tensors(report.signatures[name].inputs),
                outputs=_tensors(report.signatures[name].outputs),
            )
            for name, length in lengths.items()
        },
        softmax=plan.softmax,
        tokenizer=_tokenizer(plan, _record(places.vocab, beside)),
        task=_task(plan),
        labels_file=_record(places.labels, beside),
        golden_file=_record(places.golden, beside),
        architecture=Architecture(
            family=config.family,
            num_layers=config.num_layers,
            hidden_size=config.hidden_size,
            num_heads=config.num_heads,
            intermediate_size=config.intermediate_size,
            vocab_size=config.vocab_size,
            num_parameters=plan.model.count_params(),
            flops={
                name: models.flops(config, length, plan.num_labels)
                for name, length in lengths.items()
            },
        ),
        parity=agreement,
    )


def _tokenizer(plan: Plan, vocab: FileRecord | None) -> TokenizerRecord | None:
    if vocab is None or plan.tokenizer is None:
        return None
    return TokenizerRecord(
        vocab=vocab,
        vocab_size=plan.tokenizer.vocab_size,
        lower_case=plan.lower_case,
        max_length=max(plan.lengths),
    )


def _task(plan: Plan) -> TaskRecord | None:
    if plan.task is None:
        return None
    kind = "regression" if plan.task.regression else "classification"
    return TaskRecord(
        name=plan.task.name,
        kind="multi_label" if plan.task.kind == "multi_label" else kind,
        labels=plan.labels,
        pair=plan.task.pair_column is not None,
        primary_metric=plan.task.primary_metric,
    )


def _record(place: pathlib.Path, beside: Mapping[pathlib.Path, bytes]) -> FileRecord | None:
    if place not in beside:
        return None
    content = beside[place]
    digest = hashlib.sha256(content).hexdigest()
    return FileRecord(file=place.name, sha256=digest, size_bytes=len(content))


def _tensors(reports: Mapping[str, TensorReport]) -> dict[str, TensorRecord]:
    return {
        name: TensorRecord(dtype=tensor.dtype, shape=tensor.shape)
        for name, tensor in reports.items()
    }
