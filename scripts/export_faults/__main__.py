"""The campaign of planted faults, as a command."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import functools
import itertools
import json
import pathlib
import random
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import campaign
import networks
import output_campaign
import planted
import planted_files
import planted_outputs
from campaign import Campaign, Inapplicable, Outcome
from output_campaign import OutputCampaign

from export.checking import verify
from tfdistill.io import files

_FORMAT_VERSION = 1
_FLOAT32_DB = 120.0  # honest float32 files are 115 to 130 dB from their models


def main() -> int:
    """Runs the campaign; exit code 1 if a wrong file was written or an honest one refused."""
    parser = argparse.ArgumentParser(prog="scripts/export-faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--families", nargs="+", default=list(networks.FAMILIES))
    parser.add_argument("--weights", nargs="+", default=list(networks.WEIGHTS))
    parser.add_argument("--formats", nargs="+", default=list(campaign.FORMATS))
    parser.add_argument(
        "--every-format",
        action="store_true",
        help="plants faults of the graph in every format; default: in float32 and one other each, "
        "since all share the float32 conversion that refuses them",
    )
    parser.add_argument(
        "--sample",
        type=int,
        help="so many faults of the graph and of the file in each format of a network",
    )
    parser.add_argument(
        "--outputs",
        nargs="*",
        default=list(output_campaign.TARGETS),
        help="outputs beside the TFLite file, whose faults are planted in a BERT (default: all)",
    )
    parser.add_argument("--honest", type=int, default=0, help="so many further honest networks")
    parser.add_argument("--no-faults", action="store_true", help="honest networks alone")
    parser.add_argument("--out", type=pathlib.Path, help="keeps all outcomes; continues")
    args = parser.parse_args()
    record = Record(args.out)
    outcomes = record.outcomes
    with tempfile.TemporaryDirectory(prefix="tfdistill-faults-") as folder:
        if not args.no_faults:
            for family in args.families:
                for weights in args.weights:
                    network = networks.build(family, weights, args.seed)
                    exports = Campaign(network, pathlib.Path(folder) / network.name, args.seed)
                    names = exports.formats(args.formats)
                    if args.sample is None:
                        run(exports, names, record, every_format=args.every_format)
                    else:
                        sample(exports, names, record, args.sample, network.name)
                    report(outcomes)
                    if family == "bert":
                        place = pathlib.Path(folder) / f"{network.name}-outputs"
                        run_outputs(network, place, args.seed, args.outputs, record)
        for number in range(args.honest):
            family = args.families[number % len(args.families)]
            weights = args.weights[number // len(args.families) % len(args.weights)]
            network = networks.build(family, weights, args.seed + 1000 + number)
            exports = Campaign(network, pathlib.Path(folder) / network.name, args.seed)
            for name in exports.formats(args.formats):
                record.attempt(exports, exports.honest, "", name)
    report(outcomes)
    print(table_of_checks(outcomes))
    return int(any(is_wrong(outcome) for outcome in outcomes))


class Record:
    """The outcomes so far.

    Attributes:
      outcomes: All of them, those of the file first.
    """

    def __init__(self, file: pathlib.Path | None) -> None:
        self._file = file
        rows = []
        if file is not None and file.is_file():
            rows = json.loads(file.read_text())["outcomes"]
        self.outcomes = [Outcome(**{**row, "checks": tuple(row["checks"])}) for row in rows]
        self._by_place = {(one.network, one.quantization, one.fault): one for one in self.outcomes}

    def attempt(
        self,
        exports: Campaign | OutputCampaign,
        plant: Callable[[str], Outcome],
        fault: str,
        name: str,
    ) -> Outcome | None:
        """Runs one export, unless it is known; None if the network cannot have the fault."""
        earlier = self._by_place.get((exports.name, name, fault))
        if earlier is not None:
            return earlier
        try:
            outcome = _shown(plant(name))
        except Inapplicable:
            return None
        self.outcomes.append(outcome)
        if self._file is not None:
            files.atomic_write_text(self._file, text_of(self.outcomes))
        return outcome


def text_of(outcomes: Sequence[Outcome]) -> str:
    """The JSON of a record: which checks found how much, and a line for each outcome."""
    checks = json.dumps(counts_of_checks(outcomes), indent=1)
    rows = ",\n".join(json.dumps(dataclasses.asdict(outcome)) for outcome in outcomes)
    return (
        f'{{"format_version": {_FORMAT_VERSION},\n"checks": {checks},\n"outcomes": [\n{rows}\n]}}\n'
    )


def run(exports: Campaign, names: Sequence[str], record: Record, *, every_format: bool) -> None:
    """Runs all faults on one network."""
    honest = {name: record.attempt(exports, exports.honest, "", name) for name in names}
    names = [name for name, outcome in honest.items() if outcome is None or outcome.written]
    for number, fault in enumerate(planted.GRAPH):
        others = names[1:]
        alone = every_format or not others
        chosen = names if alone else [names[0], others[number % len(others)]]
        for name in chosen:
            outcome = record.attempt(
                exports, functools.partial(exports.graph_fault, fault), fault, name
            )
            if outcome is not None and is_rounding(outcome):
                break  # the other formats are made of the same float32 file
    for fault in planted_files.FILE:
        for name in names:
            record.attempt(exports, functools.partial(exports.file_fault, fault), fault, name)
    for name in names:
        _of_format(exports, name, record)


def sample(exports: Campaign, names: Sequence[str], record: Record, count: int, seed: str) -> None:
    """Runs an honest export and some faults in each number format of one network."""
    for name in names:
        honest = record.attempt(exports, exports.honest, "", name)
        if honest is not None and not honest.written:
            continue  # no file to plant a fault in
        for faults, plant in (
            (planted.GRAPH, exports.graph_fault),
            (planted_files.FILE, exports.file_fault),
        ):
            drawn = random.Random(f"{seed} {name}").sample(list(faults), len(faults))
            made_of_faults = (
                record.attempt(exports, functools.partial(plant, fault), fault, name)
                for fault in drawn
            )
            list(itertools.islice(filter(None, made_of_faults), count))
        _of_format(exports, name, record)


def run_outputs(
    network: networks.Network,
    folder: pathlib.Path,
    seed: int,
    targets: Sequence[str],
    record: Record,
) -> None:
    """Runs all faults of the outputs beside the TFLite file on one network."""
    outputs = OutputCampaign(network, folder, seed)
    for target in targets:
        for fault in ("", *planted_outputs.FAULTS[target]):
            record.attempt(outputs, functools.partial(outputs.attempt, fault), fault, target)


def _of_format(exports: Campaign, name: str, record: Record) -> None:
    other = campaign.OTHERS.get(name)
    record.attempt(exports, exports.format_fault, f"made as {other}", name)
    if name.startswith("static") and not exports.is_aware:
        record.attempt(exports, exports.calibration_fault, campaign.CALIBRATION, name)


def is_wrong(outcome: Outcome) -> bool:
    """Whether a wrong file was written or an honest one refused.

    A fault that leaves a file within 120 dB of the honest one is float32's own rounding: of a fresh
    MobileBERT the scores are near 1e-8, so that attention is uniform whatever they are.
    """
    return outcome.written == bool(outcome.fault) and not is_rounding(outcome)


def is_rounding(outcome: Outcome) -> bool:
    """Whether a fault is below what float32 resolves."""
    return outcome.difference is not None and outcome.difference >= _FLOAT32_DB


def _shown(outcome: Outcome) -> Outcome:
    if is_wrong(outcome):
        difference = outcome.difference
        away = "equal to the honest file" if difference is None else f"{difference:.1f} dB"
        verdict = f"WRITTEN, {away}" if outcome.fault else f"REFUSED: {outcome.message}"
        print(f"{outcome.network} {outcome.quantization} {outcome.fault or 'honest'}: {verdict}",
              flush=True)  # fmt: skip
    return outcome


def report(outcomes: Sequence[Outcome]) -> None:
    """Prints the counts by format."""
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for outcome in outcomes:
        totals = counts[outcome.quantization]
        if not outcome.fault:
            totals["honest"] += 1
            totals["honest refused"] += not outcome.written
            totals["honest refused by fixed bounds"] += outcome.bounds_alone is False
        else:
            totals["wrong"] += 1
            totals["wrong written"] += is_wrong(outcome)
            totals["wrong written by fixed bounds"] += outcome.bounds_alone is True
    for name, totals in counts.items():
        print(
            f"{name}: {totals['wrong']} wrong, {totals['wrong written']} written (fixed bounds: "
            f"{totals['wrong written by fixed bounds']}); {totals['honest']} honest, "
            f"{totals['honest refused']} refused (fixed bounds: "
            f"{totals['honest refused by fixed bounds']})",
            flush=True,
        )


def counts_of_checks(outcomes: Sequence[Outcome]) -> dict[str, dict[str, Any]]:
    """Counts the wrong files that each check refuses, and by fault those that no other refuses."""
    wrong = [outcome for outcome in outcomes if outcome.fault and outcome.checks]
    of_files = [check.name for check in (*verify.STATIC, *verify.RUNNING)]
    of_outputs = sorted({name for outcome in wrong for name in outcome.checks} - {*of_files})
    counts = {}
    for name in (*of_files, *of_outputs):
        alone = [outcome.fault for outcome in wrong if outcome.checks == (name,)]
        counts[name] = {
            "refused": sum(name in outcome.checks for outcome in wrong),
            "alone": dict(collections.Counter(alone).most_common()),
        }
    return counts


def table_of_checks(outcomes: Sequence[Outcome]) -> str:
    """Shows these counts, a line for each check."""
    lines = ["check                      refuses  alone  faults that no other check finds"]
    for name, counts in counts_of_checks(outcomes).items():
        faults = "; ".join(f"{fault} ({count})" for fault, count in counts["alone"].items())
        total = sum(counts["alone"].values())
        lines.append(f"{name:<26} {counts['refused']:>7} {total:>6}  {faults}")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
