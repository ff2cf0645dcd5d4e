"""The command line: parses, calls one command, turns errors into exit codes.

Results go to stdout, progress and errors to stderr. Exit codes: 0 done, 1 failed, 2 misused,
130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib
import os
import re
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from tfdistill import errors
from tfdistill._version import __version__
from tfdistill.commands import base
from tfdistill.io import cluster, files, locks, processes, storage, work_folder
from tfdistill.lazy_exports import refuse_other_export

# Shells leave "~" alone behind "=", as in --out=~/runs and in --set data.dir=~/glue.
_TILDE = re.compile(r"^([\w.-]+=)~(?=/|$)")
# What TensorFlow and LiteRT log in C++ below errors of ours, straight to the file descriptor.
_NATIVE_LOGS = re.compile(
    rb"(INFO: |WARNING: All log messages before absl|[IWE][0-9]{4} "
    rb"|[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:.]+: [IWE] )"
)
_NO_PATHS = ("pipeline", "query", "text")  # options for a runner, and texts
_LONG_SECONDS = 10  # from which on the time is told
_MISUSE = (errors.ConfigError, errors.OutputExistsError)
_EXPLAINED = (errors.TfdistillError, OSError, MemoryError, KeyboardInterrupt, ModuleNotFoundError)
# Options that name what is written: one process at a time.
_OUTPUTS = ("out", "saved_model", "keras", "hf", "mediapipe", "android")
# The verbs in the order and under the headings of the help, each with its module in
# `tfdistill.commands`.
_HEADINGS = {
    "start": {"quickstart": "quickstart", "demo": "runs"},
    "train": {
        **{"recipes": "runs", "run": "runs", "finetune": "models", "distill": "models"},
        **{"compress": "models", "answers": "answers"},
        **{"pretrain": "pretraining", "data": "data"},
    },
    "ship": {"export": "export", "predict": "predict", "index": "index"},
    "measure": {
        **{"evaluate": "answers", "benchmark": "benchmarks", "compare": "results"},
        **{"inspect": "inspection", "report": "runs"},
    },
    "more": {"doctor": "inspection"},
}
_VERBS = {verb: module for verbs in _HEADINGS.values() for verb, module in verbs.items()}


def parser(verb: str | None = None) -> base.Parser:
    """Builds the parser of one verb, or of all where that is none; imports no TensorFlow."""
    root = base.Parser(
        prog="tfdistill",
        description="From a BERT teacher to a small student in a checked, measured TFLite file.",
        epilog="examples:\n  tfdistill quickstart --teacher bert-base-uncased --data intents.csv\n"
        "  tfdistill export ./my-bert --data my.csv --android app/src/main/assets",
    )
    root.set_defaults(execute=None, quiet=False, verbose=False, no_lock=False)
    root.add_argument("--version", action="version", version=f"tfdistill {__version__}")
    headings = {name: heading for heading, names in _HEADINGS.items() for name in names}
    base.add_commands(root, commands(verb), headings=headings)
    return root


def commands(verb: str | None = None) -> list[base.Command]:
    """Imports the module of a verb, or of all where that is none, and returns their commands."""
    modules = [_VERBS[verb]] if verb in _VERBS else dict.fromkeys(_VERBS.values())
    loaded = [importlib.import_module(f"tfdistill.commands.{module}") for module in modules]
    order = list(_VERBS)
    listed = [command for module in loaded for command in module.COMMANDS]
    return sorted(listed, key=lambda command: order.index(command.name))


def program() -> NoReturn:
    """Runs the program ``tfdistill``: `main`, without what libraries log on stderr."""
    _open_closed_streams()
    with contextlib.suppress(errors.ConfigError):  # which the command reports
        if cluster.this_worker() is not None:
            processes.continue_in_child("tfdistill")
    if not {"-v", "--verbose"} & set(sys.argv) and "_ARGCOMPLETE" not in os.environ:
        _filter_native_logs()
    processes.import_less()
    sys.exit(main())


def _open_closed_streams() -> None:
    """Opens what the shell closed (`>&-`): the next file would get the number, and the output.

    Input is then empty, and messages go nowhere. Results that could not be printed end the program.
    """
    for descriptor, mode in ((0, "r"), (1, "w"), (2, "w")):
        try:
            os.fstat(descriptor)
        except OSError:
            nowhere = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115 (the lowest number)
            setattr(sys, ("stdin", "stdout", "stderr")[descriptor], nowhere)
            if descriptor == 1:
                text = errors.explain(
                    "standard output", "an open stream", "a closed one", "Use >/dev/null instead."
                )
                with contextlib.suppress(OSError):
                    os.write(2, f"tfdistill: {text}\n".encode())
                sys.exit(1)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command."""
    try:
        with base.plain_streams():
            return _main(sys.argv[1:] if argv is None else argv)
    except OSError as error:  # of --help and --version, which print before there is a command
        print(f"tfdistill: {errors.explain_os_error(error)}", file=sys.stderr)
        return 1


def _main(argv: Sequence[str]) -> int:
    if "_ARGCOMPLETE" in os.environ:
        _complete(parser())
    root = parser(next((argument for argument in argv if not argument.startswith("-")), None))
    home = os.path.expanduser("~")
    words = [_TILDE.sub(lambda prefix: prefix[1] + home, argument) for argument in argv]
    args, unknown = root.parse_known_args(words)
    chosen = vars(args).pop("parser")
    unknown = chosen.take_words(args, unknown)
    if unknown:
        chosen.refuse(unknown)
    if args.execute is None:
        chosen.print_help()
        return 0
    try:
        refuse_other_export()
    except ImportError as error:
        print(f"tfdistill: {error}", file=sys.stderr)
        return 1
    if args.verbose:
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"
    if args.no_lock:
        os.environ[locks.VARIABLE] = "1"  # the programs that it starts read it too
    files.remove_leftovers()
    with processes.interruptible(), base.messages(verbose=args.verbose):
        return _run(args, chosen)


def _complete(root: base.Parser) -> None:
    """Answers a shell that asks what could be typed next, and ends the process."""
    from argcomplete import completers, finders

    from export.conversion import device_form, quantize
    from tfdistill import config, models, tasks

    values = {  # by the name that the parser gives an argument
        "recipe": config.recipes(),
        "student": [*models.presets(), "pruned:layers=", "static:width="],
        "task": [*tasks.tasks(), config.BUILT_IN_DATA],
        "quantize": [*quantize.quantizations(), *config.SHORT_QUANTIZATIONS],
        "devices": device_form.FORMS,
    }
    for action in _actions(root):
        if action.dest in values:
            choices = dict.fromkeys(values[action.dest], "")
            vars(action)["completer"] = completers.ChoicesCompleter(choices)
    finders.CompletionFinder()(root, always_complete_options="long")


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _actions(inner)


def _run(args: argparse.Namespace, parser_of_command: base.Parser) -> int:
    stderr = sys.stderr
    try:
        with contextlib.ExitStack() as stack:
            if args.quiet:
                nowhere = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
                stack.enter_context(contextlib.redirect_stderr(nowhere))
            _check_addresses(args)
            # Of several workers that train together only the chief writes.
            writes = "gpus" not in args or cluster.keeps_files()
            if writes and not getattr(args, "dry_run", False):
                _check_output(args)
                for path in _local_outputs(args):
                    stack.enter_context(locks.output_lock(path))
            began = time.monotonic()
            result: Any = args.execute(args)
            sys.stdout.flush()
            seconds = time.monotonic() - began
            if seconds >= _LONG_SECONDS:
                minutes, rest = divmod(round(seconds), 60)
                taken = f"{minutes}:{rest:02d} minutes" if minutes else f"{seconds:.1f} seconds"
                print(f"finished in {taken}", file=sys.stderr)
        return result if isinstance(result, int) else 0
    except (Exception, KeyboardInterrupt) as error:
        if not isinstance(error, _EXPLAINED) and errors.errno_of(error) is None:
            raise
        if args.verbose:
            traceback.print_exc(file=stderr)
        text, code = _explained(error, args, parser_of_command)
        print(f"tfdistill {args.called}: {base.plain(text)}", file=stderr)
        return code


def _check_output(args: argparse.Namespace) -> None:
    kind, out = getattr(args, "output_kind", ""), getattr(args, "out", None)
    if not kind or out is None or storage.is_address(out):
        return
    if kind == "file":
        work_folder.check_file(out, overwrite=args.overwrite)
        return
    resume = getattr(args, "resume", False)
    work_folder.WorkFolder(out, kind).check(resume=resume, overwrite=args.overwrite)


def _local_outputs(args: argparse.Namespace) -> list[str]:
    """The paths here that a command writes, each another one."""
    options = {}
    for option in _OUTPUTS:
        path = getattr(args, option, None)
        if not isinstance(path, str) or storage.is_address(path):
            continue
        other = options.setdefault(os.path.realpath(path), option)
        if other != option:
            names = [f"--{name.replace('_', '-')}" for name in (option, other)]
            raise errors.ConfigError(names[0], f"another path than {names[1]}", repr(path))
    return [getattr(args, option) for option in options.values()]


def _check_addresses(args: argparse.Namespace) -> None:
    """Refuses paths such as s3://bucket/x: the file system would make folders of outputs here.

    Where a command takes addresses, their storage must answer.
    """
    for option, value in vars(args).items():
        if option in _NO_PATHS:
            continue
        for one in value if isinstance(value, list) else [value]:
            if not isinstance(one, str) or not storage.is_address(one):
                continue
            if option in args.addresses:
                storage.check(one)
            else:
                raise errors.ConfigError(
                    option.replace("_", "-"),
                    "a path on this machine",
                    repr(one),
                    "Remote storage is neither read nor written here: mount it, or copy to and "
                    "from it.",
                )


def _explained(
    error: BaseException, args: argparse.Namespace, command: base.Parser
) -> tuple[str, int]:
    if isinstance(error, errors.TfdistillError):
        text = command.in_options(str(error))
        typed = {assignment.partition("=")[0] for assignment in getattr(args, "set", ())}
        text = "\n".join([text, *command.options_of(text, typed)])
        return text, 2 if isinstance(error, _MISUSE) else 1
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or "").partition(".")[0]
        needed = f"it needs the package {package}, which is not installed here."
        return f"{needed} `pip install .` in a clone installs all.", 1
    if isinstance(error, MemoryError):
        return f"the memory of this machine does not suffice. {error}".strip(), 1
    number = errors.errno_of(error)
    if number == errno.ELOOP and not isinstance(error, OSError):
        return f"{error}. Remove the link.", 1
    if number is not None and not isinstance(error, OSError):
        error = OSError(number, os.strerror(number), getattr(args, "out", None))
    if isinstance(error, OSError):
        return errors.explain_os_error(error), 1
    text = "interrupted."
    if "resume" in vars(args) and not getattr(args, "dry_run", False):
        text += " Finished steps are kept. Continue with --resume."
    elif getattr(args, "list", False):
        text += " Finished steps are kept. The same command continues."
    return text, 130


def _filter_native_logs() -> None:
    """Sends what C++ writes to stderr through a filter, so that it breaks no progress bar.

    Python keeps the terminal itself. The filter is a process, which runs until the last writer ends
    and outlives a crash: its message passes, as every line does that is no log.
    """
    read, write = os.pipe()
    terminal = os.dup(2)
    if os.fork() == 0:
        os.close(write)
        os.setsid()  # apart from Ctrl-C
        for stream in (0, 1, 2):
            os.dup2(terminal, stream)
        with open(read, "rb") as lines:
            for line in lines:
                if not _NATIVE_LOGS.match(line):
                    os.write(terminal, line)
        os._exit(0)
    os.close(read)
    os.dup2(write, 2)
    os.close(write)
    sys.stderr = open(  # noqa: SIM115 (it lasts as long as the process)
        terminal, "w", buffering=1, encoding=sys.stderr.encoding, errors="backslashreplace"
    )
