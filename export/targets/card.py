"""The manifest of an export."""

from __future__ import annotations

import datetime
import hashlib
import pathlib
from collections.abc import Mapping

import tensorflow as tf

from tfdistill import _version, models
from tfdistill.data.tasks import SpanRules
from tfdistill.manifest import (
    Architecture,
    Calibration,
    FileRecord,
    Manifest,
    Parity,
    Signature,
    SpanRecord,
    TaskRecord,
    TensorRecord,
    TokenizerRecord,
)

from ..file.bundle import Places
from ..file.inspection import ModelReport, TensorReport
from ..model import signature
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
        quantized_layers=dict(plan.patterns),
        calibration=_calibration(plan),
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
                name: models.flops(
                    config, length, plan.num_labels, over_tokens=plan.head != "sequence"
                )
                for name, length in lengths.items()
            },
        ),
        parity=agreement,
    )


def _calibration(plan: Plan) -> Calibration | None:
    if plan.calibration is None:
        return None
    return Calibration(num_examples=len(plan.calibration), seed=plan.seed)


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
    return TaskRecord(
        name=plan.task.name,
        kind=plan.task.kind,  # pyright: ignore[reportArgumentType]
        labels=plan.labels,
        pair=plan.task.pair_column is not None,
        primary_metric=plan.task.primary_metric,
        span=_span(plan, plan.task.spans) if plan.task.kind == "span" else None,
    )


def _span(plan: Plan, rules: SpanRules) -> SpanRecord:
    windows = plan.examples.span_sources
    longest = max(plan.lengths)
    return SpanRecord(
        doc_stride=windows.doc_stride if windows else max(1, longest // 2),
        max_question_length=windows.max_question_length if windows else min(64, longest // 2),
        max_answer_length=rules.max_answer_length,
        n_best=rules.n_best,
        unanswerable=rules.unanswerable,
        null_threshold=rules.null_threshold,
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
