"""export --list: the quantizations, and what each costs a model."""

from __future__ import annotations

import argparse
import functools
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

from tfdistill import config, errors, manifest
from tfdistill.commands import base, options, plan
from tfdistill.io import work_folder
from tfdistill.manifest.confidence import moved_coverage

WITHOUT_TASK = ("kind", "promise_on", "min_recall", "prompt")
"""Options of the data that count without --task, too: an encoder's head, texts like a run's."""
# What an export of one file reads, and a list of trials does not.
_OF_ONE_FILE = (
    *(
        "name",
        "vocab_prune",
        "languages",
        "languages_of",
        "vocab_size",
        "size_mb",
        "max_drop",
        "prefer",
        "layers",
        "license",
    ),
    *("card_language", "allow_weak", "android", "mediapipe", "saved_model", "keras", "hf"),
)
_UNSET: dict[str, Any] = {"layers": [], "allow_weak": False}  # of the others None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds --list, and what only it reads."""
    group = parser.add_argument_group("all quantizations")
    text = "list them; with MODEL and --out try all, or those of --quantize NAME,..., and "
    text += "compare size, latency and the metric of the files"
    options.add_plain(group, {"--list": text})
    text = "with --list: measure latency and memory on this host (default: yes)"
    options.add_plain(group, {"--measure": text}, action=argparse.BooleanOptionalAction)
    text = "with --list: CPU threads of a measurement (default: 1)"
    options.add_plain(group, {"--threads N": text})


def execute(args: argparse.Namespace) -> None:
    """Lists the quantizations, or tries them on a model."""
    faults = list(_faults(args))
    if faults:
        raise errors.ConfigError("\n".join(faults))
    if args.model is None:
        _list(args)
        return
    from export.conversion import quantize

    names = None if args.quantize is None else args.quantize.split(",")
    for name in names or ():
        quantize.quantization(name)
    folder = work_folder.WorkFolder(pathlib.Path(args.out), "sweep")
    folder.check(resume=not args.overwrite, overwrite=args.overwrite)
    plan.model(args.model, "model", hub=False)
    if args.task is not None:
        plan.check_data(options.data_of(args, model=args.model), ["train", "dev"])
    import export
    from tfdistill import benchmark
    from tfdistill.commands import export_job

    job = export_job.open_job(args)
    threads = args.threads or 1
    measure = functools.partial(benchmark.quick_benchmark, threads=threads)
    swept = export.sweep(
        job.source.model,
        str(args.out),
        names,
        measure=None if args.measure is False else measure,
        threads=threads,
        report=lambda trial: print(f"{trial.name}: {trial.verdict}", file=sys.stderr),
        # Nothing is shipped.
        **export_job.options_of(args, job, calibrate=True, allow_weak=True),
    )
    folders = {row.name: swept.folder / row.name for row in swept.rows}  # of good ones a file
    records = {
        name: manifest.read_manifest(folder).confidence
        for name, folder in folders.items()
        if (folder / manifest.FILE_NAME).is_file()
    }
    moved = [f"share of sure answers: {clause}" for clause in moved_coverage(records)]
    base.show(swept.as_dict(), as_json=args.json, lines=[swept.format_text(), *moved])


def _faults(args: argparse.Namespace) -> Iterator[str]:
    for name in _OF_ONE_FILE:
        if getattr(args, name) != _UNSET.get(name):
            yield errors.explain(options.flag_of(name), "no --list beside it", "--list")
    if list(args.devices) != ["cpu"] or any(args.devices.values()):
        yield errors.explain("--for", "no --list beside it", "--list")
    if args.model is None and args.out is not None:
        yield errors.explain("model", "a run or a model folder, with --out", "none")
    if args.model is not None and args.out is None:
        yield errors.explain("--out", "a folder for the files", "none")
    for option, value in (("--threads", args.threads), ("--calibrate", args.calibrate)):
        if value is not None and value < 1:
            yield errors.explain(option, "at least 1", value)
    yield from options.without_task(args, *WITHOUT_TASK)


def _list(args: argparse.Namespace) -> None:
    from export.conversion import quantize

    offered = {name: value.summary for name, value in quantize.quantizations().items()}
    refused = quantize.refused()
    width = max(map(len, (*offered, *refused)))
    lines = [f"{name.ljust(width)}  {summary}" for name, summary in offered.items()]
    lines += ["", "in short:"]
    lines += [f"{name.ljust(width)}  {full}" for name, full in config.SHORT_QUANTIZATIONS.items()]
    lines += ["", "tried, and not offered:"]
    lines += [f"{name.ljust(width)}  {why}" for name, why in refused.items()]
    result: dict[str, Any] = {"quantizations": offered, "refused": refused}
    base.show(result, as_json=args.json, lines=lines)
