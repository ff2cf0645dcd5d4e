"""The ways to write the file of an export: in a named format, in the best one, within a size."""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import sys
from typing import TYPE_CHECKING, Any

from tfdistill.commands.export_job import Job
from tfdistill.tokenization.reading import exported_tokenizer
from tfdistill.tokenization.wordpiece import WordPiece

if TYPE_CHECKING:
    from tfdistill.manifest import Manifest

AUTO = "auto"
_MAX_DROP = 0.01  # of the metric, where the file is chosen


def write(
    args: argparse.Namespace, job: Job, layers: dict[str, str], file: pathlib.Path, name: str
) -> tuple[Job, Manifest]:
    """Writes the file; returns it and the job, with fewer words where the size needs that."""
    if args.size_mb is not None:
        return _fit_size(args, job, file, name)
    return job, _tflite(args, job, layers, file, name)


def formats(args: argparse.Namespace) -> dict[str, str]:
    """The quantization of the file for each device, that of the manifest's own file first."""
    return {device: quantize or args.quantize for device, quantize in args.devices.items()}


def calibrated(args: argparse.Namespace, layers: dict[str, str]) -> bool:
    """Whether ranges may have to be measured."""
    import export

    offered = export.quantizations()
    names = {args.quantize, *formats(args).values(), *layers.values()} & offered.keys()
    return args.quantize == AUTO or any(offered[name].needs_calibration for name in names)


def _tflite(
    args: argparse.Namespace, job: Job, layers: dict[str, str], file: pathlib.Path, name: str
) -> Manifest:
    import export
    from tfdistill import benchmark
    from tfdistill.run import deliver

    arguments = options_of(args, job, calibrate=calibrated(args, layers), name=name)
    model = job.source.model
    if args.quantize != AUTO:
        (device, quantize), *others = formats(args).items()
        form = {"device": device, "quantize": quantize, "variants": dict(others)}
        return export.to_tflite(model, file, layers=layers or None, **form, **arguments)
    return export.auto(
        model,
        file,
        max_drop=_MAX_DROP if args.max_drop is None else args.max_drop,
        prefer=args.prefer or "size",
        measure=benchmark.quick_benchmark if args.prefer == "latency" else None,
        report=deliver.tell_trial,
        **arguments,
    )


def options_of(
    args: argparse.Namespace, job: Job, *, calibrate: bool, **others: Any
) -> dict[str, Any]:
    """The `export.ExportOptions` that every way to write files takes."""
    chosen = {"num_calibration": args.calibrate, "seed": args.seed}
    return {
        **job.options(calibrate=calibrate),
        "softmax": args.softmax,
        "metadata": args.metadata,
        "allow_weak": args.allow_weak or job.allow_weak,
        "overwrite": args.overwrite,
        **{name: value for name, value in chosen.items() if value is not None},
        **others,
    }


def _fit_size(
    args: argparse.Namespace, job: Job, file: pathlib.Path, name: str
) -> tuple[Job, Manifest]:
    """Writes the least lossy file within a size; returns it and the job with its words."""
    import export
    from export.model.request import ExportRequest

    job = dataclasses.replace(job, named_lengths=job.lengths)  # those of the whole vocabulary

    def requested(model: Any, tokenizer: WordPiece) -> ExportRequest:
        reading = job.read_by(model, tokenizer)
        arguments = options_of(args, reading, calibrate=calibrated(args, {}), name=name)
        return ExportRequest(model, file, quantize=args.quantize, **arguments)

    choice = export.fit_size(
        requested,
        job.source.model,
        job.source.tokenizer,
        size_mb=args.size_mb,
        corpus=job.training_texts(),
        max_drop=_MAX_DROP if args.max_drop is None else args.max_drop,
    )
    print(choice.summary, file=sys.stderr)
    record = choice.manifest.tokenizer
    assert record is not None  # the request has a vocabulary
    tokenizer = exported_tokenizer(file.parent, record)
    return job.read_by(choice.model, tokenizer), choice.manifest
