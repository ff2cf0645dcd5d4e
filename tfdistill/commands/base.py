"""What a command is, how it becomes a parser, and what of it reaches the terminal."""

from __future__ import annotations

import argparse
import codecs
import contextlib
import dataclasses
import fnmatch
import io
import json
import logging
import math
import os
import re
import shlex
import sys
import textwrap
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, TextIO

from tfdistill import errors

_KEYWORD = re.compile(r"""\b([a-z_]+)=('[^']*'|"[^"]*")""")
_HELP_WIDTH = 78  # of argparse, in a terminal of 80 columns


@dataclasses.dataclass(frozen=True)
class Command:
    """A command of the command line, or a group of commands."""

    name: str  # what is typed after ``tfdistill``, or after the name of its group
    summary: str  # one line for the list of commands
    examples: Sequence[str]  # at least two command lines, without the program's name
    arguments: Callable[[argparse.ArgumentParser], None] = lambda _: None  # those of a group
    # May return an exit code. A group has None: it prints its help.
    execute: Callable[[argparse.Namespace], int | None] | None = None
    description: str = ""  # a paragraph for ``--help``; the summary when empty
    # The commands of a group, such as ``prepare`` of ``tfdistill data``.
    actions: Sequence[Command] = ()
    # Arguments that may be addresses such as s3://bucket/x, see `storage`.
    addresses: Sequence[str] = ()
    # The options that ``--help`` shows where there are more than a dozen; ``--help-all`` shows the
    # others too. Empty: it shows all.
    usual: str = ""


class _HelpAll(argparse.Action):
    """Prints every option and exits."""

    def __call__(self, parser: Any, *_: Any) -> None:
        """Prints the help of the parser that was given ``--help-all``."""
        sys.stdout.write(parser.format_help_all())
        parser.exit()


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Lists commands below their headings, where they have some."""

    def _iter_indented_subactions(self, action: Any) -> Iterator[argparse.Action]:
        heading = ""
        for choice in super()._iter_indented_subactions(action):
            before, heading = heading, getattr(choice, "heading", "")
            if heading != before:
                self._dedent()
                yield argparse.Action([], "", metavar=f"{heading}:")
                self._indent()
            yield choice


class Parser(argparse.ArgumentParser):
    """A parser that takes no abbreviations and suggests the nearest name for a misspelt one."""

    def __init__(self, **options: Any):
        """Takes the options of `argparse.ArgumentParser`."""
        super().__init__(allow_abbrev=False, formatter_class=_Formatter, **options)
        self._usual: frozenset[str] = frozenset()
        self.set_defaults(parser=self)
        self.add_argument(
            "--no-lock",
            action="store_true",
            default=argparse.SUPPRESS,
            help="skip file locking; make sure that no other command uses the folder",
        )
        talk = self.add_mutually_exclusive_group()
        for short, name, text in (
            ("-q", "--quiet", "print results and errors only"),
            ("-v", "--verbose", "also print the logs of libraries, and where an error arose"),
        ):
            talk.add_argument(
                short, name, action="store_true", default=argparse.SUPPRESS, help=text
            )

    def shorten_help(self, usual: Sequence[str]) -> None:
        """Leaves the options that are not named to ``--help-all``."""
        self._usual = frozenset([*usual, "--help", "--help-all"])
        self.add_argument(
            "--help-all", action=_HelpAll, nargs=0, default=argparse.SUPPRESS,
            help="show all options and exit",
        )  # fmt: skip

    def _print_message(self, message: str, file: Any = None) -> None:
        """Writes a message; argparse would pass over a full disk."""
        (file or sys.stderr).write(message)

    def format_help(self) -> str:
        """Returns what ``--help`` prints: the usual options, or all where none are named."""
        if not self._usual:
            return self.format_help_all()
        options = [action for action in self._actions if action.option_strings]
        others = {a: a.help for a in options if self._usual.isdisjoint(a.option_strings)}
        exclusive, self._mutually_exclusive_groups = self._mutually_exclusive_groups, []
        try:
            for action in others:
                action.help = argparse.SUPPRESS
            return self.format_help_all()
        finally:
            self._mutually_exclusive_groups = exclusive
            for action, text in others.items():
                action.help = text

    def format_help_all(self) -> str:
        """Returns what ``--help-all`` prints: every option."""
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """Exits with 2: what is wrong, and where help is."""
        self.exit(2, f"{self.prog}: {message}\nTry `{self.prog} --help`.\n")

    def take_words(self, args: argparse.Namespace, words: list[str]) -> list[str]:
        """Adds words behind options to those before them, as in `predict RUN --json TEXT`.

        argparse gives an argument of several words only the first row of them. Returns the words
        that belong nowhere.
        """
        several = [a for a in self._actions if not a.option_strings and a.nargs in ("*", "+")]
        if not several or any(word.startswith("-") for word in words):
            return words
        name = several[0].dest
        setattr(args, name, [*(getattr(args, name) or ()), *words])
        return []

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """Exits with 2 because of arguments that this command does not have."""
        name = unknown[0].partition("=")[0]
        hint = ""
        if name.startswith("-"):
            close = errors.nearest(name, self.visible_options())
            hint = f" {close}" if close.startswith("Did") else ""
        self.error(f"unknown argument {unknown[0]!r}.{hint}")

    def visible_options(self) -> list[str]:
        """The options that the help shows."""
        shown = (a for a in self._actions if a.help is not argparse.SUPPRESS)
        return [option for action in shown for option in action.option_strings]

    def options_of(self, text: str, typed: Collection[str] = ()) -> list[str]:
        """Names the options that set the keys in a message, but for keys that were typed.

        A name alone is one of the section data, which is read without a recipe, too.
        """
        return [
            f"{'/'.join(action.option_strings) or action.metavar or action.dest} sets {key}."
            for key in dict.fromkeys(_keys_in(text))
            if key not in typed
            for action in self._actions
            if f"--{key.replace('_', '-')}" not in action.option_strings  # the same word
            if fnmatch.fnmatchcase(key, getattr(action, "key", ""))
            or getattr(action, "key", "") == f"data.{key}"
        ]

    def in_options(self, text: str) -> str:
        """Writes the keywords of Python in a message, such as kind='token', as options."""
        keys = ((action, getattr(action, "key", "")) for action in self._actions)
        flags = {k.removeprefix("data."): a.option_strings for a, k in keys if k[:5] == "data."}

        def option(match: re.Match[str]) -> str:
            names, value = flags.get(match[1]), match[2].strip("'\"")
            return f"{names[-1]} {shlex.quote(value)}" if names else match[0]

        return _KEYWORD.sub(option, text)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            hint = errors.nearest(value, map(str, action.choices))
            raise argparse.ArgumentError(action, f"unknown: {value!r}. {hint}")


def _keys_in(text: str) -> Iterator[str]:
    """What a message may call keys: the subject of each line, and what it tells to set."""
    for line in text.splitlines():
        subject = line.removeprefix("  - ").partition(":")[0].partition(",")[0]
        key, _, index = subject.rpartition(".")
        if subject:
            yield key if index.isdigit() else subject  # an entry of a list: the list
        for part in line.split("--set ")[1:]:
            yield part.partition("=")[0].partition(":")[0]


def add_commands(
    parser: Parser,
    commands: Iterable[Command],
    *,
    prefix: str = "",
    headings: Mapping[str, str] = types.MappingProxyType({}),
) -> None:
    """Adds the parsers of commands, each below its heading in the help, and of those in groups."""
    metavar = "ACTION" if prefix else "COMMAND"
    choices = parser.add_subparsers(dest=metavar.lower(), metavar=metavar)
    for command in commands:
        name = f"{prefix}{command.name}"
        description = command.description or f"{command.summary[0].upper()}{command.summary[1:]}."
        sub = choices.add_parser(
            command.name,
            help=command.summary,
            description=textwrap.fill(description, _HELP_WIDTH),
            epilog="\n".join(["examples:", *(f"  tfdistill {line}" for line in command.examples)]),
        )
        vars(choices._choices_actions[-1])["heading"] = headings.get(command.name, "")
        sub.set_defaults(execute=command.execute, called=name)
        sub.set_defaults(addresses=command.addresses)
        command.arguments(sub)
        if command.usual:
            sub.shorten_help(command.usual.split())
        if command.actions:
            add_commands(sub, command.actions, prefix=f"{name} ")


def show(result: Any, *, as_json: bool, lines: Sequence[str]) -> None:
    """Writes a result to stdout: JSON, or lines for a person."""
    print(json_text(result, indent=2) if as_json else "\n".join(lines))


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Writes a value as the JSON that every parser reads, whatever the encoding of stdout.

    JSON has no infinity and no NaN: both are null.
    """
    encoding = getattr(sys.stdout, "encoding", None)
    escaped = encoding is not None and codecs.lookup(encoding).name != "utf-8"
    return json.dumps(_finite(value), indent=indent, ensure_ascii=escaped, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# C0 without line feed and tab, DEL, C1, and what reorders text or breaks lines in Unicode.
_CONTROL = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_ALL = re.compile(f"[{_CONTROL}]")
# A progress bar returns to the start of its line, moves up to it, and clears it.
_BUT_BARS = re.compile(rf"\x1b\[[AK]|(?!\r)[{_CONTROL}]")
_PACKAGES = ("tfdistill", "export")  # whose messages are printed


def plain(text: str) -> str:
    """Writes control characters, but for line feed and tab, as JSON does."""
    return _ALL.sub(_escaped, text)


@contextlib.contextmanager
def plain_streams() -> Iterator[None]:
    """Lets stdout and stderr write plain text while the block runs.

    What their encoding cannot hold, as in the locale C, is escaped, too.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    out, err = PlainStream(sys.stdout, bars=False), PlainStream(sys.stderr, bars=True)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            yield
        finally:
            out.flush()


class PlainStream:
    """A text stream that writes control characters as text, and nothing where nobody reads it.

    A reader that has seen enough, as ``head`` has, ends no command: what it began is finished, and
    the exit code is that of its result. `is_read` says whether no reader has closed it yet.
    """

    def __init__(self, stream: TextIO, *, bars: bool) -> None:
        self._stream, self._bars = stream, bars
        self.is_read = True

    def write(self, text: str) -> int:
        """Writes text; returns its length."""
        with self._open_or_discarded():
            self._stream.write((_BUT_BARS if self._bars else _ALL).sub(_escaped, text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Writes several texts."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Passes on what the stream holds back."""
        with self._open_or_discarded():
            self._stream.flush()

    @contextlib.contextmanager
    def _open_or_discarded(self) -> Iterator[None]:
        """Sends what follows nowhere if the reader has closed the stream, or it cannot be written.

        Otherwise Python would try again at its end, and end with an exit code of its own.
        """
        try:
            yield
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
            self.is_read = False
            if isinstance(error, BrokenPipeError):
                return
            name = "messages" if self._bars else "standard output"
            raise OSError(error.errno, error.strerror, name) from error

    def __getattr__(self, name: str) -> Any:
        """Everything else is the stream's own."""
        return getattr(self._stream, name)


def is_read() -> bool:
    """Whether somebody may still read what the command prints."""
    return not isinstance(sys.stdout, PlainStream) or sys.stdout.is_read


def _escaped(match: re.Match[str]) -> str:
    return match[0] if len(match[0]) > 1 else f"\\u{ord(match[0]):04x}"  # a move of a bar stays


class _Messages(logging.Handler):
    """Prints the bare messages of tfdistill on stderr, and the errors of other libraries."""

    def __init__(self, *, verbose: bool) -> None:
        super().__init__()
        self._verbose = verbose

    def emit(self, record: logging.LogRecord) -> None:
        """Prints a line on what is `sys.stderr` now: --quiet exchanges it."""
        ours = record.name.partition(".")[0] in _PACKAGES
        if ours or self._verbose or record.levelno >= logging.ERROR:
            mark = "WARNING: " if ours and record.levelno == logging.WARNING else ""
            text = errors.bounded(record.getMessage())
            print(f"{mark}{text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def messages(*, verbose: bool = False) -> Iterator[None]:
    """Prints what modules log while the block runs; inside another such block nothing changes."""
    root, handler = logging.getLogger(), _Messages(verbose=verbose)
    if any(isinstance(other, _Messages) for other in root.handlers):
        yield
        return
    loggers = [logging.getLogger(name) for name in _PACKAGES]
    levels = [logger.level for logger in loggers]
    root.addHandler(handler)
    try:
        for logger in loggers:
            logger.setLevel(logging.INFO)
        yield
    finally:
        root.removeHandler(handler)
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
