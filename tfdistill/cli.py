"""The command line: parses, calls one command, turns errors into exit codes.

Results go to stdout, talk to stderr. Exit codes: 0 done, 1 failed, 2 misused, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

from tfdistill import __version__, errors
from tfdistill.commands import (
    base,
    benchmarks,
    compression,
    data,
    export,
    inspection,
    models,
    pretraining,
    quantizations,
    recipes,
    results,
    runs,
    search,
    table,
)

# Shells leave "~" alone behind "=", as in --out=~/runs and in --set data.dir=~/glue.
_TILDE = re.compile(r"^([\w.-]+=)~(?=/|$)")
# TensorFlow imports google.api_core, which dates the support of Python versions we support.
_DATED_PYTHON = "You are using a (non-supported )?Python version"
_MISUSE = (errors.ConfigError, errors.OutputExistsError)
_COMMANDS = (
    *recipes.COMMANDS,
    *runs.COMMANDS,
    *models.COMMANDS,
    *compression.COMMANDS,
    *export.COMMANDS,
    *quantizations.COMMANDS,
    *data.COMMANDS,
    *pretraining.COMMANDS,
    *inspection.COMMANDS,
    *table.COMMANDS,
    *benchmarks.COMMANDS,
    *search.COMMANDS,
    *results.COMMANDS,
)


def parser() -> argparse.ArgumentParser:
    """Builds the parser of all commands; imports no TensorFlow."""
    root = argparse.ArgumentParser(
        prog="tfdistill",
        description="From a BERT teacher to a small student in a checked, measured TFLite file.",
        epilog="examples:\n  tfdistill demo\n  tfdistill run tinybert_4l_sst2 --scaled-down",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    root.add_argument("--version", action="version", version=f"tfdistill {__version__}")
    commands = root.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        sub = base.add_parser(commands, command)
        sub.set_defaults(execute=command.execute)
    return root


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
      argv: The arguments after the program's name; those of the process when left out.

    Returns:
      The exit code.
    """
    given = sys.argv[1:] if argv is None else argv
    args = parser().parse_args([_TILDE.sub(_home, argument) for argument in given])
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    warnings.filterwarnings("ignore", _DATED_PYTHON, FutureWarning)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        result: Any = args.execute(args)
    except errors.TfdistillError as error:
        print(f"tfdistill {args.command}: {error}", file=sys.stderr)
        return 2 if isinstance(error, _MISUSE) else 1
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"tfdistill {args.command}: {errors.explain_os_error(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        hint = " Go on with --resume." if "resume" in vars(args) else ""
        print(
            f"tfdistill {args.command}: interrupted; what is finished is kept.{hint}",
            file=sys.stderr,
        )
        return 130
    return result if isinstance(result, int) else 0


def _home(found: re.Match[str]) -> str:
    return found[1] + os.path.expanduser("~")


def _interrupt(number: int, frame: object) -> NoReturn:
    """Treats a polite kill like Ctrl-C, so that files and folders are cleaned up."""
    raise KeyboardInterrupt
