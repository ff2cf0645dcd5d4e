"""quantizations: what there is, and what each costs a model."""

from __future__ import annotations

import argparse
import functools
import sys
from typing import Any

from tfdistill import config, errors
from tfdistill.commands import base, options, plan

_NUM_CALIBRATION = 200


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        nargs="?",
        help="a run folder, or a Hugging Face folder with a classifier; without one the "
        "quantizations are listed",
    )
    options.add_output(
        parser,
        what="folder that gets the files and sweep.json",
        required=False,
        kind="sweep",
        continues=True,
    )
    parser.add_argument("--only", metavar="NAME,...", help="quantizations to try (default: all)")
    options.add_lengths(parser, "those that fit the development set, else 32,64,128")
    text = "probabilities instead of logits"
    options.add_field(parser, config.ExportConfig, "softmax", help=text)
    parser.add_argument(
        "--measure",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="measure latency and memory on this host (default: yes)",
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=1,
        metavar="N",
        help="CPU threads of a measurement (default: 1)",
    )
    parser.add_argument(
        "--calibrate",
        type=int,
        default=_NUM_CALIBRATION,
        metavar="N",
        help="training examples that static quantizations measure their ranges on "
        "(default: %(default)s)",
    )
    options.add_seed(parser, "the draw of these examples")
    options.add_data(parser, required=False, of_run="model")
    options.add_json(parser)


def _execute(args: argparse.Namespace) -> None:
    import export

    if args.model is None:
        _list(args)
        return
    faults = []
    if args.out is None:
        faults.append(errors.explain("--out", "a folder for the files", "none"))
    for option, value in (("--threads", args.threads), ("--calibrate", args.calibrate)):
        if value < 1:
            faults.append(errors.explain(option, "at least 1", value))
    if args.task is None and args.data_dir is not None:
        faults.append(errors.explain("--data-dir", "--task too", "none"))
    if faults:
        raise errors.ConfigError("\n".join(faults))
    names = None if args.only is None else args.only.split(",")
    for name in names or ():
        _known(name)
    plan.existing(args.model, "model")
    if args.task is not None:
        plan.check_data(options.data_of(args, model=args.model), ["train", "dev"])
    from tfdistill import benchmark
    from tfdistill.commands import export_job

    job = export_job.open_job(args)
    swept = export.sweep(
        job.source.model,
        str(args.out),
        names,
        measure=functools.partial(benchmark.quick_benchmark, threads=args.threads)
        if args.measure
        else None,
        report=lambda trial: print(f"{trial.name}: {trial.verdict}", file=sys.stderr),
        overwrite=args.overwrite,
        softmax=args.softmax,
        num_calibration=args.calibrate,
        seed=args.seed,
        allow_weak=True,  # nothing is shipped
        **job.options(calibrate=True),
    )
    base.show(swept.as_dict(), as_json=args.json, lines=[swept.format_text()])


def _known(name: str) -> None:
    from export.conversion import quantize

    quantize.quantization(name)


def _list(args: argparse.Namespace) -> None:
    from export.conversion import quantize

    if args.out is not None:
        raise errors.ConfigError(
            errors.explain("model", "a run or a model folder, with --out", "none")
        )
    offered = {name: value.summary for name, value in quantize.quantizations().items()}
    refused = quantize.refused()
    width = max(map(len, (*offered, *refused)))
    lines = [f"{name.ljust(width)}  {summary}" for name, summary in offered.items()]
    lines += ["", "tried, and not offered:"]
    lines += [f"{name.ljust(width)}  {why}" for name, why in refused.items()]
    result: dict[str, Any] = {"quantizations": offered, "refused": refused}
    base.show(result, as_json=args.json, lines=lines)


COMMANDS = (
    base.Command(
        name="quantizations",
        summary="list the quantizations, or try all of them on a model and compare",
        description="With a model: exports it in every quantization, each checked against the "
        "model on the development set, and shows size, latency on this host, the task's metric of "
        "the file and its agreement. The same command continues a sweep that was stopped.",
        arguments=_arguments,
        execute=_execute,
        examples=(
            "quantizations",
            "quantizations runs/demo --out runs/demo/quantizations "
            "--only float32,dynamic_wi8_afp32",
        ),
    ),
)
