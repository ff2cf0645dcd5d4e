"""compare: results of measurements compared."""

from __future__ import annotations

import argparse
import dataclasses
import math
import pathlib

from tfdistill import errors
from tfdistill.commands import base, options


def percent(text: str) -> float:
    """Parses "5%" into 0.05."""
    number = text.strip()
    try:
        value = float(number[:-1]) / 100 if number.endswith("%") else math.nan
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a percentage such as 5%, received {text!r}")
    return value


def _compare_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("old", help="a result of `tfdistill benchmark`: the baseline")
    parser.add_argument(
        "new", nargs="?", help="another; without it, the files of the one result are compared"
    )
    gate = parser.add_argument_group("limits, for builds: exit 1 when one is exceeded")
    for example, option, text in (
        ("5%", "slower", "when a case is slower by more than this, and its interval excludes 0"),
        ("1%", "larger", "when a file is larger"),
        ("0.5%", "less-accurate", "when the task's metric is lower by more points than this"),
    ):
        gate.add_argument(f"--fail-if-{option}", type=percent, metavar=example, help=text)
    texts = {
        "--allow-throttled": "let measurements of a hot device pass",
        "--fail-if-undecided": "also when the measurements are too noisy for the limit of "
        "--fail-if-slower",
    }
    options.add_plain(gate, texts)
    options.add_json(parser)


def _compare(args: argparse.Namespace) -> int:
    from tfdistill.benchmark import result
    from tfdistill.benchmark.comparing import changes, comparison_text, gate

    limits = gate.Limits(
        slower=args.fail_if_slower,
        larger=args.fail_if_larger,
        less_accurate=args.fail_if_less_accurate,
        allow_throttled=args.allow_throttled,
        refuse_undecided=args.fail_if_undecided,
    )
    faults = []
    for option in ("fail_if_undecided", "allow_throttled"):
        if getattr(args, option) and limits.slower is None:
            faults.append(errors.explain(options.flag_of(option), "--fail-if-slower too", "none"))
    if faults:
        raise errors.ConfigError("\n".join(faults))
    for path in map(pathlib.Path, filter(None, (args.old, args.new))):
        if path.is_dir() or path.suffix == ".tflite":
            raise errors.ConfigError(
                str(path),
                "a result of `tfdistill benchmark --out FILE`",
                "a folder" if path.is_dir() else "a model",
                "To measure several files in turns and compare them: `tfdistill benchmark OLD "
                "NEW`.",
            )
    old = result.read_result(args.old)
    if args.new is None:
        changed = changes.within(old)
    else:
        changed = changes.between(old, result.read_result(args.new))
    shown = comparison_text.as_dict(changed)
    lines = [comparison_text.format_text(changed)]
    ruling = gate.judge(changed, limits)
    if limits:
        shown["gate"] = {"passed": ruling.passed, **dataclasses.asdict(ruling)}
        lines += ["", gate.format_text(ruling)]
    base.show(shown, as_json=args.json, lines=lines)
    return 0 if ruling.passed else 1


COMMANDS = (
    base.Command(
        name="compare",
        summary="compare measurements, and fail a build whose file became slower",
        description="Compares two results of `tfdistill benchmark` on one device, or the files of "
        'one result. "faster" and "slower" are printed only where the 95% interval excludes 0.',
        arguments=_compare_arguments,
        execute=_compare,
        examples=(
            "compare old.json new.json --fail-if-slower 5%",
            "compare both.json --fail-if-slower 5% --fail-if-larger 1%",
        ),
    ),
)
