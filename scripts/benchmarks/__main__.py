"""Runs benchmarks and shows their figures against the targets (called by scripts/bench)."""

from __future__ import annotations

import argparse
import importlib
import os
import pathlib
import subprocess
import sys

import record

from tfdistill import errors

KINDS = ("training", "inference")
# These only run when they are named: one needs other runtimes, one an earlier checkout.
EXTRA = ("peers", "quickstart", "tagging")


def parser() -> argparse.ArgumentParser:
    """Builds the parser."""
    built = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measures ratios, each in one run with interleaved samples, on this machine.",
        epilog="examples:\n  scripts/bench training\n  scripts/bench all --out docs/benchmarks "
        "--overwrite",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    built.add_argument("benchmark", choices=(*KINDS, *EXTRA, "all"), help="what to measure")
    built.add_argument("--out", metavar="DIR", help="write DIR/<benchmark>.json with all samples")
    built.add_argument("--overwrite", action="store_true", help="replace records in DIR")
    built.add_argument("--quick", action="store_true", help="tiny models: only shows that it runs")
    built.add_argument(
        "--before", metavar="DIR", help="with quickstart: the earlier checkout to compare with"
    )
    built.add_argument(
        "--torch",
        action="store_true",
        help="with peers: also ExecuTorch and litert-torch, for which it installs PyTorch (7 GB); "
        "with training: also a joint stage against PyTorch, which needs scripts/runtimes",
    )
    return built


def main() -> int:
    """Runs what was asked for; a target that is missed is shown and is no failure."""
    args = parser().parse_args()
    if (args.benchmark == "quickstart") != (args.before is not None):
        parser().error("--before DIR goes with quickstart, and quickstart with it")
    if args.torch and args.benchmark not in ("peers", "training"):
        parser().error("--torch goes with peers and training")
    kinds = KINDS if args.benchmark == "all" else (args.benchmark,)
    try:
        places = {kind: place_of(kind, args.out, args.overwrite) for kind in kinds}
        if len(kinds) > 1:  # one process each: what one leaves in memory is not in the next
            here = str(pathlib.Path(__file__).parent)
            options = [argument for argument in sys.argv[1:] if argument != args.benchmark]
            codes = [subprocess.call([sys.executable, here, kind, *options]) for kind in kinds]
            return max(codes, key=abs)
        options = {"before": args.before, "torch": args.torch}
        options = {name: value for name, value in options.items() if value}
        run(args.benchmark, places[args.benchmark], quick=args.quick, **options)
    except errors.TfdistillError as error:
        print(f"scripts/bench: {error}", file=sys.stderr)
        return 2 if isinstance(error, errors.OutputExistsError) else 1
    except KeyboardInterrupt:
        return 130
    return 0


def place_of(kind: str, folder: str | None, overwrite: bool) -> pathlib.Path | None:
    """Returns where the record goes, before any long work.

    Raises:
      OutputExistsError: If a record lies there and may not be replaced.
    """
    if folder is None:
        return None
    place = pathlib.Path(folder) / f"{kind}.json"
    if place.exists() and not overwrite:
        raise errors.OutputExistsError(
            errors.explain(
                str(place), "no such file", "an earlier record", "Use --overwrite or another --out."
            )
        )
    return place


def run(kind: str, place: pathlib.Path | None, *, quick: bool, **options: str | bool) -> None:
    """Measures, shows, and writes where a place is given; `options` are those of the kind."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    machine = record.describe_machine()
    outcome = importlib.import_module(kind).measure(quick=quick, **options)
    value = record.assemble(kind, outcome, machine, quick=quick)
    print(record.format_table(value), flush=True)
    if place is not None:
        record.write(value, place)
        print(f"recorded: {place}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
