"""The page of the command line: every verb with its options, as the parsers have them.

A hook of MkDocs: nothing is stored, so that the page cannot differ from the program.
"""

import argparse
import html
from collections.abc import Iterator
from typing import Any

PAGE = "reference/command-line.md"
_OF_EVERY_VERB = ("help", "help_all", "no_lock", "quiet", "verbose")


def to_markdown(root: argparse.ArgumentParser) -> str:
    """Returns the page: a section for each verb and action, with a table for each group."""
    lines = [
        "# Command line",
        "",
        f"{root.description}",
        "",
        "Every command has these options:",
        "",
    ]
    lines += _table(root, root._actions, only=_OF_EVERY_VERB)
    for parser in parsers(root):
        lines += ["", f"## {parser.prog}", "", html.escape(f"{parser.description}", quote=False)]
        for group in parser._action_groups:
            rows = _table(parser, group._group_actions)
            lines += ["", f"{str(group.title).capitalize()}:", "", *rows] if rows else []
        examples = [line.strip() for line in f"{parser.epilog}".splitlines()[1:]]
        lines += ["", "```console", *examples, "```"]
    return "\n".join(lines) + "\n"


def parsers(root: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yields the parsers of the commands and of their actions."""
    for action in root._actions:
        if isinstance(action, argparse._SubParsersAction):
            for parser in action.choices.values():
                yield parser
                yield from parsers(parser)


def _table(
    parser: argparse.ArgumentParser, actions: list[argparse.Action], only: tuple[str, ...] = ()
) -> list[str]:
    """The rows of options and arguments; those of every verb only where they are named."""
    formatter: Any = parser._get_formatter()
    rows = [
        f"| `{_cell(formatter._format_action_invocation(action))}` "
        f"| {_cell(html.escape(formatter._expand_help(action), quote=False))} |"
        for action in actions
        if action.help and action.help is not argparse.SUPPRESS
        if (action.dest in _OF_EVERY_VERB) == bool(only)
    ]
    return ["| option | what it does |", "| --- | --- |", *rows] if rows else []


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def on_files(files: Any, config: Any) -> Any:
    """Hook of MkDocs: adds the page."""
    from mkdocs.structure.files import File

    from tfdistill import cli

    files.append(File.generated(config, PAGE, content=to_markdown(cli.parser())))
    return files
