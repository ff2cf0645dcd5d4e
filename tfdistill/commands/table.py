"""table: the papers' models on a device, next to what the papers published."""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import os
import pathlib
import sys
from typing import TYPE_CHECKING

from tfdistill import config, errors, models
from tfdistill.benchmark.settings import Settings
from tfdistill.commands import base, measurement_options, options

if TYPE_CHECKING:
    from tfdistill.papers.making import Measure

_QUANTIZATIONS = ("float32", "dynamic_wi8_afp32")
# Of 14 files by default: shorter than a benchmark of a few files.
_DEFAULTS = Settings(
    threads=(1, 2), lengths=(32, 64, 128), warmup=3, runs=30, min_seconds=0.3, texts=False
)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--models",
        type=options.names,
        metavar="NAME,...",
        help="presets (default: the seven of the papers)",
    )
    lengths = _DEFAULTS.lengths or ()
    options.add_lengths(parser, ",".join(map(str, lengths)), lengths)
    options.add_field(parser, config.BenchmarkConfig, "threads", _DEFAULTS.threads)
    parser.add_argument(
        "--quantize",
        type=options.names,
        default=_QUANTIZATIONS,
        metavar="NAME,...",
        help=f"quantizations of the files (default: {','.join(_QUANTIZATIONS)})",
    )
    parser.add_argument(
        "--scaled-down",
        action="store_true",
        help="toy models of the same kinds: the whole path in a minute, figures that mean nothing",
    )
    group = parser.add_argument_group("measurement")
    measurement_options.add_measurement(group, _DEFAULTS)
    measurement_options.add_device(group)
    options.add_output(parser, kind="table", continues=True)
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="write the table as JSON to stdout")
    shape.add_argument("--markdown", action="store_true", help="write Markdown to stdout")


def _table(args: argparse.Namespace) -> None:
    faults = measurement_options.device_faults(args)
    if faults:
        raise errors.ConfigError("\n".join(faults))
    for name in args.models or ():
        models.preset(name)
    if args.serial == "all":
        raise errors.ConfigError("--serial", "one device", "all", "A table is of one device.")
    from tfdistill.papers import making, published, rendering

    try:
        settings = dataclasses.replace(
            _DEFAULTS,
            threads=args.threads,
            lengths=args.lengths,
            warmup=args.warmup,
            runs=args.runs,
            min_seconds=args.min_seconds,
            repetitions=args.repetitions,
            cool_down_seconds=args.cool_down,
        )
    except errors.BenchmarkError as error:
        raise errors.ConfigError(str(error)) from None
    request = making.TableRequest(
        presets=args.models or tuple(published.TITLES),
        quantizations=args.quantize,
        settings=settings,
        folder=_folder(args),
        scaled_down=args.scaled_down,
    )
    table = making.make_table(
        pathlib.Path(args.out),
        request,
        _measure(args),
        overwrite=args.overwrite,
        progress=sys.stderr.isatty(),
    )
    text = rendering.render_markdown(table) if args.markdown else None
    base.show(
        table.to_json(),
        as_json=args.json,
        lines=[(text or rendering.render_text(table)).rstrip("\n")],
    )


def _folder(args: argparse.Namespace) -> str:
    """Returns a folder name for a device and a binary that does not reveal the serial number."""
    if args.device == "host":
        return "host"
    serial = args.serial or os.environ.get("ANDROID_SERIAL", "")
    asked = "\n".join([serial, args.binary or "", args.binary_sha256 or ""])
    return f"adb-{hashlib.sha256(asked.encode()).hexdigest()[:12]}"


def _measure(args: argparse.Namespace) -> Measure:
    from tfdistill.search import devices

    if args.device == "host":
        return devices.measure_on_host
    from tfdistill.benchmark import adb

    binary = None if args.binary is None else adb.Binary(args.binary, sha256=args.binary_sha256)
    # A result with failures is not kept: they become an error.
    return devices.MeasureOnPhone(args.serial, binary)


COMMANDS = (
    base.Command(
        name="table",
        summary="size and speed of the papers' models on a device, next to the published numbers",
        arguments=_arguments,
        execute=_table,
        examples=(
            "table --out runs/table",
            "table --models bert_base,tinybert_4l_312d --lengths 128 --threads 1 --out runs/small",
        ),
        description="Export BERT-base, DistilBERT, TinyBERT, MobileBERT and its variants with "
        "random weights, measure them in turns, and show parameters, FLOPs, file sizes, latency "
        "and speed-up next to what the papers published, with the device of each. Give the command "
        "again to continue a table that was stopped.",
    ),
)
