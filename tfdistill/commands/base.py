"""What a command is, and the arguments that several share."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_HELP_WIDTH = 78  # of argparse, in a terminal of 80 columns


@dataclasses.dataclass(frozen=True)
class Command:
    """A command of the command line.

    Attributes:
      name: What is typed after ``tfdistill``.
      summary: One line for the list of commands.
      arguments: Adds its arguments to a parser.
      execute: Does the work; may return an exit code.
      examples: At least two command lines, without the program's name.
      description: A paragraph for ``--help``; the summary when empty.
    """

    name: str
    summary: str
    arguments: Callable[[argparse.ArgumentParser], None]
    execute: Callable[[argparse.Namespace], int | None]
    examples: Sequence[str]
    description: str = ""


def add_parser(choices: Any, command: Command, *, prefix: str = "") -> argparse.ArgumentParser:
    """Adds the parser of a command or action, without what it executes.

    Args:
      choices: What ``add_subparsers`` gave.
      command: The command.
      prefix: The name of its command, for an action, with a space behind it.
    """
    description = command.description or f"{command.summary[0].upper()}{command.summary[1:]}."
    examples = (f"  tfdistill {prefix}{line}" for line in command.examples)
    parser = choices.add_parser(
        command.name,
        help=command.summary,
        description=textwrap.fill(description, _HELP_WIDTH),
        epilog="\n".join(["examples:", *examples]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.arguments(parser)
    return parser


def add_actions(parser: argparse.ArgumentParser, command: str, actions: Sequence[Command]) -> None:
    """Adds the actions of a command that has several, such as ``tfdistill data prepare``.

    Args:
      parser: The parser of the command.
      command: Its name.
      actions: Its actions; their examples leave the command's name out. The chosen one's
        `execute` becomes ``args.run_action``.
    """
    chosen = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for action in actions:
        sub = add_parser(chosen, action, prefix=f"{command} ")
        sub.set_defaults(run_action=action.execute)


def add_json(parser: argparse.ArgumentParser) -> None:
    """Adds --json."""
    parser.add_argument("--json", action="store_true", help="write the result as JSON to stdout")


def add_output(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    """Adds --out and --overwrite."""
    parser.add_argument(
        "--out",
        metavar="DIR",
        default=default,
        required=default is None,
        help="the folder that is written" + (f" (default: {default})" if default else ""),
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier result")


def add_set(parser: argparse._ActionsContainer, of: str, example: str) -> None:
    """Adds --set.

    Args:
      parser: The parser.
      of: Which recipe it changes: "the recipe".
      example: A key and a value.
    """
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"change a value of {of}, such as {example}; may be repeated",
    )


def add_devices(parser: argparse._ActionsContainer) -> None:
    """Adds --devices."""
    parser.add_argument(
        "--devices",
        type=_devices,
        metavar="N",
        help="GPUs that share each batch: auto (all that are visible) or how many (default: auto)",
    )


def _devices(text: str) -> int | None:
    if text == "auto":
        return None
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected auto or a number, received {text!r}") from None


def add_runner(parser: argparse.ArgumentParser, what: str = "do it") -> None:
    """Adds --runner, which takes the rest of the line: ``args.pipeline``, for Apache Beam."""
    parser.add_argument(
        "--runner",
        action=_Runner,
        nargs=argparse.REMAINDER,
        dest="pipeline",
        help=f"last: {what} as a pipeline of Apache Beam; the name of its runner and further "
        "options of Beam, such as DirectRunner --direct_num_workers 4 (needs tfdistill[beam])",
    )


class _Runner(argparse.Action):
    def __call__(
        self, parser: Any, namespace: Any, values: Any, option_string: str | None = None
    ) -> None:
        """Keeps ["--runner", NAME, ...]."""
        if not values or values[0].startswith("-"):
            parser.error("--runner: expected a name such as DirectRunner")
        for value in values[1:]:
            name = value.partition("=")[0]
            if name in parser._option_string_actions:
                parser.error(f"{name}: expected before --runner; what follows that is Beam's")
        namespace.pipeline = ["--runner", *values]


_TASK_KINDS = ("classification", "regression", "multi_label", "token", "span")


def add_data(
    parser: argparse.ArgumentParser, *, required: bool = True, reads_train: bool = True
) -> None:
    """Adds the options that name a task and its files.

    Args:
      parser: The parser.
      required: Whether a task must be named.
      reads_train: Whether the command reads the training set.
    """
    group = parser.add_argument_group("data")
    group.add_argument(
        "--task",
        required=required,
        help="a GLUE task, imdb, ner, squad, squad_v2, assistant, or a name of your own",
    )
    group.add_argument("--data-dir", metavar="DIR", help="the folder with the task's files")
    group.add_argument("--text-column", metavar="NAME", help="the text, for a task of your own")
    group.add_argument("--pair-column", metavar="NAME", help="the second text, if there is one")
    group.add_argument("--label-column", metavar="NAME", help="the label, for a task of your own")
    group.add_argument(
        "--regression", action="store_true", help="the same as --kind regression: numbers"
    )
    group.add_argument(
        "--kind", choices=_TASK_KINDS, help="for a task of your own (default: classification)"
    )
    group.add_argument(
        "--doc-stride",
        type=int,
        metavar="TOKENS",
        help="from one window of a long text to the next, for questions (default: half of "
        "--max-length)",
    )
    group.add_argument(
        "--max-length",
        type=int,
        default=128,
        metavar="TOKENS",
        help="longer texts are cut, questions' texts into windows (default: %(default)s)",
    )
    if reads_train:
        group.add_argument(
            "--train-limit", type=int, metavar="N", help="only the first N training examples"
        )
    else:
        parser.set_defaults(train_limit=None)


def data_of(args: argparse.Namespace, **more: Any) -> dict[str, Any]:
    """The data section that `add_data`'s options describe."""
    return {
        "task": args.task,
        "dir": args.data_dir,
        "text_column": args.text_column,
        "pair_column": args.pair_column,
        "label_column": args.label_column,
        "regression": args.regression,
        "kind": args.kind,
        "doc_stride": args.doc_stride or max(args.max_length // 2, 1),
        "max_length": args.max_length,
        "train_limit": args.train_limit,
        **more,
    }


def numbers(text: str) -> tuple[int, ...]:
    """Parses "32,64,128"."""
    try:
        values = tuple(int(part) for part in text.split(","))
    except ValueError:
        values = ()
    if not values or min(values) < 1:
        raise argparse.ArgumentTypeError(
            f"expected positive numbers such as 32,64, received {text!r}"
        )
    return values


def listed(values: Sequence[Any]) -> str:
    """Writes values as an option takes them: "32,64,128"."""
    return ",".join(map(str, values))


def show(result: Mapping[str, Any], *, as_json: bool, lines: Sequence[str]) -> None:
    """Writes a result to stdout: JSON, or lines for a person."""
    if as_json:
        json.dump(result, sys.stdout, indent=2, ensure_ascii=False)
        print()
    else:
        print("\n".join(lines))
