"""The manifest of an export."""

from __future__ import annotations

import datetime
import hashlib
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from tfdistill import _version, models
from tfdistill.manifest import (
    Architecture,
    Calibration,
    FileRecord,
    FileVariant,
    Manifest,
    SignatureRecord,
    SpanRecord,
    TaskRecord,
    TensorRecord,
    TokenizerRecord,
)
from tfdistill.manifest import lengths as lengths_of_texts
from tfdistill.tasks import SpanRules
from tfdistill.tflite.signature import Tensor

from ..checking.confidence import fit_confidence
from ..checking.verify import Verified
from ..conversion.prepare import ExportPlan
from ..model import signature


def build_manifest(verified: Verified, contents: Mapping[pathlib.Path, bytes]) -> Manifest:
    """Builds the manifest of a verified file from what will be in the files next to it."""
    plan, report = verified.converted.plan, verified.report
    config, request, paths = plan.config, plan.request, plan.paths
    lengths = {signature.signature_name(length): length for length in plan.lengths}
    calibration = None
    if plan.calibration is not None:
        calibration = Calibration(num_examples=len(plan.calibration), seed=request.seed)
    tokenizer = _tokenizer(plan, _record(paths.vocab, contents))
    usual = {"truncation": "end", "prompt": ""}
    required = (
        () if tokenizer is None else (n for n, v in usual.items() if getattr(tokenizer, n) != v)
    )
    return Manifest(
        name=request.manifest_name,
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        tfdistill_version=_version.__version__,
        converter=f"tensorflow {tf.__version__}",
        model=FileRecord(file=paths.model.name, sha256=report.sha256, size_bytes=report.size_bytes),
        quantization=plan.quantization.name,
        least_runtime=report.least_runtime,
        device=plan.device.name,  # pyright: ignore[reportArgumentType]
        quantized_layers=dict(request.layers or {}),
        calibration=calibration,
        confidence=fit_confidence(verified),
        signatures={
            name: SignatureRecord(
                sequence_length=length,
                inputs=_tensors(report.signatures[name].inputs),
                outputs=_tensors(report.signatures[name].outputs),
            )
            for name, length in lengths.items()
        },
        softmax=request.softmax,
        tokenizer=tokenizer,
        task=_task(plan),
        labels_file=_record(paths.labels, contents),
        golden_file=_record(paths.golden, contents),
        architecture=Architecture(
            family=config.family,
            num_layers=config.num_layers,
            hidden_size=config.hidden_size,
            num_heads=config.num_heads,
            head_size=config.head_size,
            intermediate_size=config.intermediate_size,
            vocab_size=config.vocab_size,
            num_parameters=plan.model.count_params(),
            flops={
                name: models.flops(
                    config,
                    length,
                    None if plan.head.vectors else plan.num_labels,
                    over_tokens=plan.head.per_token,
                )
                for name, length in lengths.items()
            },
        ),
        text_lengths=_text_lengths(plan),
        parity=verified.parity,
        requires=tuple(f"tokenizer.{name}" for name in required),
    )


def with_variants(manifests: Sequence[Manifest]) -> Manifest:
    """Puts the files of one model for several devices into the manifest of the first."""
    fields = set(FileVariant.model_fields)
    return manifests[0].model_copy(
        update={
            "variants": {
                other.device: FileVariant(**{key: getattr(other, key) for key in fields})
                for other in manifests[1:]
            }
        }
    )


def _text_lengths(plan: ExportPlan) -> dict[int, int] | None:
    if not plan.real_examples:
        return None
    return lengths_of_texts.counted(np.minimum(plan.examples.lengths, max(plan.lengths)))


def _tokenizer(plan: ExportPlan, vocab: FileRecord | None) -> TokenizerRecord | None:
    if vocab is None or plan.tokenizer is None:
        return None
    return TokenizerRecord(
        kind=plan.tokenizer.kind,
        vocab=vocab,
        vocab_size=plan.tokenizer.vocab_size,
        lower_case=plan.tokenizer.lower_case,
        # Tags and spans are read off parts of a text, which none of them cuts.
        truncation="end" if plan.head.per_token else plan.tokenizer.truncation,
        max_length=max(plan.lengths),
        prompt=plan.tokenizer.prompt,
    )


def _task(plan: ExportPlan) -> TaskRecord | None:
    if plan.task is None:
        return None
    of_tables = plan.task.layout == "table"
    return TaskRecord(
        name=plan.task.name,
        kind=plan.task.kind,  # pyright: ignore[reportArgumentType]
        labels=plan.labels,
        pair=plan.task.reads_pairs,
        text_column=plan.task.text_column if of_tables else None,
        pair_column=plan.task.pair_column if of_tables and plan.task.reads_pairs else None,
        primary_metric=plan.task.primary_metric,
        span=_span(plan, plan.task.spans) if plan.head.decodes_spans else None,
    )


def _span(plan: ExportPlan, rules: SpanRules) -> SpanRecord:
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


def _record(path: pathlib.Path, contents: Mapping[pathlib.Path, bytes]) -> FileRecord | None:
    if path not in contents:
        return None
    digest = hashlib.sha256(contents[path]).hexdigest()
    return FileRecord(file=path.name, sha256=digest, size_bytes=len(contents[path]))


def _tensors(tensors: Sequence[Tensor]) -> dict[str, TensorRecord]:
    return {
        tensor.name: TensorRecord(dtype=tensor.dtype, shape=tensor.shape)
        for tensor in sorted(tensors, key=lambda tensor: tensor.name)
    }
