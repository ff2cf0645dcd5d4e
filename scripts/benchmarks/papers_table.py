#!/usr/bin/env python3
"""Sizes and latencies of the papers' models on a device, next to what the papers published.

Exports BERT-base, DistilBERT, TinyBERT, MobileBERT and its variants with random weights, measures
them in turns, and writes table.json, table.md and table.csv. Give the command again to continue a
table that was stopped.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import os
import pathlib
import sys
from collections.abc import Sequence

from papers import making, published, rendering

from tfdistill import config, errors, models, processes, work_folder
from tfdistill.benchmark.settings import Settings
from tfdistill.commands import measurement_options, options

_QUANTIZATIONS = ("float32", "dynamic_wi8_afp32")
# Of 14 files by default: shorter than a benchmark of a few files.
DEFAULTS = Settings(
    threads=(1, 2), lengths=(32, 64, 128), warmup=3, runs=30, min_seconds=0.3, texts=False
)


def parser() -> argparse.ArgumentParser:
    """Builds the parser."""
    built = argparse.ArgumentParser(
        prog="papers_table.py",
        description=__doc__,
        epilog="examples:\n  scripts/benchmarks/papers_table.py --out runs/table\n"
        "  scripts/benchmarks/papers_table.py --models bert_base,tinybert_4l_312d --lengths 128 "
        "--threads 1 --out runs/small",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    built.add_argument(
        "--models",
        type=options.names,
        metavar="NAME,...",
        help="presets (default: the seven of the papers)",
    )
    lengths = DEFAULTS.lengths or ()
    options.add_lengths(built, ",".join(map(str, lengths)), lengths)
    options.add_field(built, config.BenchmarkConfig, "threads", DEFAULTS.threads)
    built.add_argument(
        "--quantize",
        type=options.names,
        default=_QUANTIZATIONS,
        metavar="NAME,...",
        help=f"quantizations of the files (default: {','.join(_QUANTIZATIONS)})",
    )
    built.add_argument(
        "--scaled-down",
        action="store_true",
        help="toy models of the same kinds: the whole path in a minute, figures that mean nothing",
    )
    group = built.add_argument_group("measurement")
    measurement_options.add_measurement(group, DEFAULTS)
    measurement_options.add_device(group)
    options.add_output(built, kind=making.KIND, continues=True)
    return built


def main(argv: Sequence[str] | None = None) -> int:
    """Makes the table and prints it; 1 if it cannot be made, 2 for a misuse."""
    args = parser().parse_args(argv)
    processes.ignore_dated_python()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        request = request_of(args)
        work_folder.WorkFolder(args.out, making.KIND).check(
            resume=not args.overwrite, overwrite=args.overwrite
        )
        table = making.make_table(
            pathlib.Path(args.out),
            request,
            measurement_options.measurer(args),
            overwrite=args.overwrite,
            progress=sys.stderr.isatty(),
        )
    except errors.TfdistillError as error:
        print(f"papers_table.py: {error}", file=sys.stderr)
        return 2 if isinstance(error, (errors.ConfigError, errors.OutputExistsError)) else 1
    except KeyboardInterrupt:
        return 130
    print(rendering.render_text(table).rstrip("\n"))
    return 0


def request_of(args: argparse.Namespace) -> making.TableRequest:
    """Returns what the options ask for.

    Raises:
      ConfigError: If an option is not valid.
    """
    faults = measurement_options.device_faults(args)
    if faults:
        raise errors.ConfigError("\n".join(faults))
    for name in args.models or ():
        models.preset(name)
    if args.serial == "all":
        raise errors.ConfigError("--serial", "one device", "all", "A table is of one device.")
    try:
        settings = dataclasses.replace(
            DEFAULTS,
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
    return making.TableRequest(
        presets=args.models or tuple(published.TITLES),
        quantizations=args.quantize,
        settings=settings,
        folder=_folder(args),
        scaled_down=args.scaled_down,
    )


def _folder(args: argparse.Namespace) -> str:
    """Returns a folder name for a device and a binary that does not reveal the serial number."""
    if args.device == "host":
        return "host"
    serial = args.serial or os.environ.get("ANDROID_SERIAL", "")
    phone = "\n".join([serial, args.binary or "", args.binary_sha256 or ""])
    return f"adb-{hashlib.sha256(phone.encode()).hexdigest()[:12]}"


if __name__ == "__main__":
    sys.exit(main())
