"""search: propose students within a budget of latency and size on a measured device."""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import sys
from typing import TYPE_CHECKING, get_args

from tfdistill import errors
from tfdistill.benchmark.settings import Delegate, Settings
from tfdistill.commands import base

if TYPE_CHECKING:
    from tfdistill.search.bench import Measure

# Some forty files: shorter than a benchmark of a few.
_USUAL = Settings(min_seconds=1.0)
_QUICK = dataclasses.replace(_USUAL, runs=30, min_seconds=0.3, repetitions=1)
_METHODS = ("tinybert", "minilm", "logits", "mobilebert")


def _arguments(parser: argparse.ArgumentParser) -> None:
    budget = parser.add_argument_group("budget")
    budget.add_argument(
        "--latency-ms",
        type=float,
        required=True,
        metavar="MS",
        help="the median of one inference at the longest length",
    )
    budget.add_argument(
        "--length",
        type=base.numbers,
        default=(64,),
        metavar="L,L,...",
        help="tokens that the files take (default: 64)",
    )
    budget.add_argument(
        "--size-mb", type=float, metavar="MB", help="of the file, millions of bytes (default: any)"
    )
    budget.add_argument(
        "--threads", type=int, default=_USUAL.threads[0], help="(default: %(default)s)"
    )
    _add_students(parser.add_argument_group("students"))
    _add_device(parser.add_argument_group("device"))
    _add_effort(parser.add_argument_group("how long"))
    output = parser.add_argument_group("output")
    output.add_argument(
        "--out",
        metavar="DIR",
        required=True,
        help="gets search.json, search.txt, recipes/ and measurements/; a search that was stopped "
        "goes on from what is there",
    )
    output.add_argument(
        "--measurements",
        metavar="DIR",
        help="where measurements are kept, for other budgets too (default: OUT/measurements)",
    )
    output.add_argument(
        "--overwrite", action="store_true", help="replace an earlier result; keep its measurements"
    )
    base.add_json(parser)


def _add_students(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--method", choices=_METHODS, default="tinybert", help="(default: %(default)s)"
    )
    group.add_argument(
        "--kinds",
        type=_names,
        metavar="NAME,...",
        help="of gelu, relu, no_norm, no_norm_2ffn (default: all that the method can teach)",
    )
    group.add_argument("--task", default="sst2", help="of the recipes (default: %(default)s)")
    group.add_argument(
        "--teacher",
        metavar="SOURCE",
        default="bert-base-uncased",
        help="a folder, a hub id or preset:NAME (default: %(default)s)",
    )
    for name in ("layers", "heads", "width"):
        group.add_argument(
            f"--teacher-{name}", type=int, metavar="N", help="where the teacher does not tell"
        )
    group.add_argument(
        "--vocab-size", type=int, default=30522, help="rows of the word table (default: 30522)"
    )
    group.add_argument(
        "--quantize", default="dynamic_wi8_afp32", help="of the files (default: %(default)s)"
    )
    group.add_argument("--count", type=int, default=6, help="how many to propose (default: 6)")


def _add_device(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--device",
        choices=("host", "adb"),
        default="host",
        help="this machine, or a phone through adb (default: %(default)s)",
    )
    group.add_argument("--serial", metavar="SERIAL", help="which phone, as `adb devices` lists it")
    group.add_argument(
        "--binary", metavar="PATH|URL", help="LiteRT's benchmark_model for the phone"
    )
    group.add_argument("--binary-sha256", metavar="HEX", help="its checksum; a URL needs one")
    group.add_argument(
        "--delegate",
        choices=get_args(Delegate),
        default=_USUAL.delegates[0],
        help="who computes (default: %(default)s)",
    )
    group.add_argument(
        "--affinity",
        metavar="MASK",
        help="the cores: a hexadecimal mask such as f0, or big, little, all",
    )


def _add_effort(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--quick", action="store_true", help="measure half as many files, a tenth as long"
    )
    group.add_argument("--warmup", type=int, default=_USUAL.warmup, help="(default: %(default)s)")
    for option, kind, what in (
        ("runs", int, "of a file, at least"),
        ("min_seconds", float, "of a file, at least"),
        ("repetitions", int, "fresh processes"),
    ):
        usual, quick = getattr(_USUAL, option), getattr(_QUICK, option)
        shown = f"{what} (default: {usual}; quick: {quick})"
        group.add_argument(f"--{option.replace('_', '-')}", type=kind, help=shown)
    group.add_argument(
        "--cool-down",
        type=float,
        default=_USUAL.cool_down_seconds,
        metavar="S",
        help="rest before each repetition",
    )
    group.add_argument("--seed", type=int, default=_USUAL.seed, help="of the order of measurements")


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in text.split(",")))


def _search(args: argparse.Namespace) -> int:
    from tfdistill.benchmark import environment
    from tfdistill.search import learning, pareto, recipes, result, searching, teachers

    _check_options(args)
    head = _head(args.task)
    teacher = teachers.find_teacher(
        args.teacher,
        num_layers=args.teacher_layers,
        num_heads=args.teacher_heads,
        hidden_size=args.teacher_width,
    )
    goal = recipes.Goal(
        method=args.method,
        teacher=teacher,
        task=args.task,
        lengths=tuple(sorted(args.length)),
        quantize=args.quantize,
        threads=args.threads,
    )
    found = searching.search(
        args.out,
        pareto.Budget(args.latency_ms, args.size_mb),
        goal,
        measure=_measure(args),
        settings=_settings(args),
        kinds=args.kinds,
        vocab_size=args.vocab_size,
        head=head,
        count=args.count,
        effort=learning.QUICK if args.quick else None,
        measurements=args.measurements,
        command=environment.command(),
        overwrite=args.overwrite,
        progress=sys.stderr.isatty(),
    )
    lines = [result.format_text(found)]
    for proposal in found.proposals[:1]:
        lines.append(f"next: tfdistill recipes check {pathlib.Path(args.out) / proposal.recipe}")
    base.show(found.model_dump(mode="json"), as_json=args.json, lines=lines)
    return 0 if found.proposals else 1


def _check_options(args: argparse.Namespace) -> None:
    """Refuses what would be noticed late, or read by nobody."""
    from export.conversion import quantize

    faults = []
    if quantize.quantization(args.quantize).needs_calibration:
        faults.append(
            errors.explain(
                "--quantize",
                "one without calibration, for random weights have no real activations",
                args.quantize,
            )
        )
    phone = {
        "--serial": args.serial,
        "--binary": args.binary,
        "--binary-sha256": args.binary_sha256,
    }
    if args.device == "host":
        faults += [
            errors.explain(option, "--device adb", "--device host")
            for option, value in phone.items()
            if value is not None
        ]
    if args.vocab_size < 1:
        faults.append(errors.explain("--vocab-size", "at least 1", args.vocab_size))
    if faults:
        raise errors.ConfigError("\n".join(faults))


def _head(task: str) -> str:
    """What files of a task answer; a task of one's own is about whole texts."""
    from tfdistill.data import tasks

    try:
        kind = tasks.task(task).kind
    except errors.TfdistillError:
        kind = "classification"
    return kind if kind in ("token", "span") else "sequence"


def _settings(args: argparse.Namespace) -> Settings:
    usual = _QUICK if args.quick else _USUAL
    return dataclasses.replace(
        usual,
        delegates=(args.delegate,),
        affinity=args.affinity,
        warmup=args.warmup,
        runs=usual.runs if args.runs is None else args.runs,
        min_seconds=usual.min_seconds if args.min_seconds is None else args.min_seconds,
        repetitions=usual.repetitions if args.repetitions is None else args.repetitions,
        cool_down_seconds=args.cool_down,
        when_throttled="repeat" if args.device == "adb" else "flag",
        seed=args.seed,
    )


def _measure(args: argparse.Namespace) -> Measure:
    from tfdistill.search import devices

    if args.device == "host":
        return devices.measure_on_host
    binary = None
    if args.binary is not None:
        from tfdistill.benchmark import adb

        binary = adb.Binary(args.binary, sha256=args.binary_sha256)
    return devices.MeasureOnPhone(args.serial, binary)


COMMANDS = (
    base.Command(
        name="search",
        summary="propose students within a latency and size budget on a measured device",
        arguments=_arguments,
        execute=_search,
        examples=(
            "search --latency-ms 3 --length 64 --out runs/search",
            "search --latency-ms 8 --length 128 --size-mb 20 --device adb --out runs/phone",
        ),
        description="Measures files with random weights on the device, learns how latency follows "
        "from a student's shape (the error on students that it has not seen is reported), and "
        "writes a few of those within the budget that no other beats as recipes. Accuracy is not "
        "predicted: it takes training.",
    ),
)
