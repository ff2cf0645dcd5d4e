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

import campaign
import networks
import planted
import planted_files
from campaign import Campaign, Inapplicable, Outcome

from tfdistill import files

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
    parser.add_argument("--honest", type=int, default=0, help="so many further honest networks")
    parser.add_argument("--no-faults", action="store_true", help="honest networks alone")
    parser.add_argument("--out", type=pathlib.Path, help="keeps all outcomes; continues")
    given = parser.parse_args()
    record = Record(given.out)
    found = record.outcomes
    with tempfile.TemporaryDirectory(prefix="tfdistill-faults-") as folder:
        if not given.no_faults:
            for family in given.families:
                for weights in given.weights:
                    network = networks.build(family, weights, given.seed)
                    own = Campaign(network, pathlib.Path(folder) / network.name, given.seed)
                    names = own.formats(given.formats)
                    if given.sample is None:
                        run(own, names, record, every_format=given.every_format)
                    else:
                        sample(own, names, record, given.sample, network.name)
                    report(found)
        for number in range(given.honest):
            family = given.families[number % len(given.families)]
            weights = given.weights[number // len(given.families) % len(given.weights)]
            network = networks.build(family, weights, given.seed + 1000 + number)
            own = Campaign(network, pathlib.Path(folder) / network.name, given.seed)
            for name in own.formats(given.formats):
                record.attempt(own, own.honest, "", name)
    report(found)
    return int(any(is_wrong(outcome) for outcome in found))


class Record:
    """The outcomes so far.

    Attributes:
      outcomes: All of them, those of the file first.
    """

    def __init__(self, file: pathlib.Path | None) -> None:
        self._file = file
        rows = json.loads(file.read_text()) if file is not None and file.is_file() else []
        self.outcomes = [Outcome(**row) for row in rows]
        self._known = {(one.network, one.quantization, one.fault): one for one in self.outcomes}

    def attempt(
        self, own: Campaign, plant: Callable[[str], Outcome], fault: str, name: str
    ) -> Outcome | None:
        """Runs one export, unless it is known; None if the network cannot have the fault."""
        known = self._known.get((own.name, name, fault))
        if known is not None:
            return known
        try:
            outcome = _shown(plant(name))
        except Inapplicable:
            return None
        self.outcomes.append(outcome)
        if self._file is not None:
            rows = [dataclasses.asdict(outcome) for outcome in self.outcomes]
            files.atomic_write_text(self._file, json.dumps(rows, indent=1) + "\n")
        return outcome


def run(own: Campaign, names: Sequence[str], record: Record, *, every_format: bool) -> None:
    """Runs all faults on one network."""
    for name in names:
        record.attempt(own, own.honest, "", name)
    for number, fault in enumerate(planted.GRAPH):
        others = names[1:]
        alone = every_format or not others
        chosen = names if alone else [names[0], others[number % len(others)]]
        for name in chosen:
            outcome = record.attempt(own, functools.partial(own.graph_fault, fault), fault, name)
            if outcome is not None and is_rounding(outcome):
                break  # the other formats are made of the same float32 file
    for fault in planted_files.FILE:
        for name in names:
            record.attempt(own, functools.partial(own.file_fault, fault), fault, name)
    for name in names:
        _of_format(own, name, record)


def sample(own: Campaign, names: Sequence[str], record: Record, count: int, seed: str) -> None:
    """Runs an honest export and some faults in each number format of one network."""
    for name in names:
        record.attempt(own, own.honest, "", name)
        for faults, plant in (
            (planted.GRAPH, own.graph_fault),
            (planted_files.FILE, own.file_fault),
        ):
            drawn = random.Random(f"{seed} {name}").sample(list(faults), len(faults))
            found = (
                record.attempt(own, functools.partial(plant, fault), fault, name) for fault in drawn
            )
            list(itertools.islice(filter(None, found), count))
        _of_format(own, name, record)


def _of_format(own: Campaign, name: str, record: Record) -> None:
    other = campaign.OTHERS.get(name)
    record.attempt(own, own.format_fault, f"made as {other}", name)
    if name.startswith("static") and not own.is_aware:
        record.attempt(own, own.calibration_fault, campaign.CALIBRATION, name)


def is_wrong(outcome: Outcome) -> bool:
    """Whether a wrong file was written or an honest one refused.

    A fault that leaves the float32 file within 120 dB of the honest one is float32's own rounding:
    of a fresh MobileBERT the scores are near 1e-8, so that attention is uniform whatever they are.
    """
    return outcome.written == bool(outcome.fault) and not is_rounding(outcome)


def is_rounding(outcome: Outcome) -> bool:
    """Whether a fault is below what float32 resolves."""
    difference = outcome.difference
    floats = outcome.quantization == "float32"
    return floats and difference is not None and difference >= _FLOAT32_DB


def _shown(outcome: Outcome) -> Outcome:
    if is_wrong(outcome):
        difference = outcome.difference
        away = "equal to the honest file" if difference is None else f"{difference:.1f} dB"
        verdict = f"WRITTEN, {away}" if outcome.fault else f"REFUSED: {outcome.message}"
        print(f"{outcome.network} {outcome.quantization} {outcome.fault or 'honest'}: {verdict}",
              flush=True)  # fmt: skip
    return outcome


def report(found: Sequence[Outcome]) -> None:
    """Prints the counts by format."""
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for outcome in found:
        own = counts[outcome.quantization]
        if not outcome.fault:
            own["honest"] += 1
            own["honest refused"] += not outcome.written
            own["honest refused by fixed bounds"] += outcome.bounds_alone is False
        else:
            own["wrong"] += 1
            own["wrong written"] += is_wrong(outcome)
            own["wrong written by fixed bounds"] += outcome.bounds_alone is True
    for name, own in counts.items():
        print(
            f"{name}: {own['wrong']} wrong, {own['wrong written']} written (fixed bounds: "
            f"{own['wrong written by fixed bounds']}); {own['honest']} honest, "
            f"{own['honest refused']} refused (fixed bounds: "
            f"{own['honest refused by fixed bounds']})",
            flush=True,
        )


if __name__ == "__main__":
    raise SystemExit(main())
