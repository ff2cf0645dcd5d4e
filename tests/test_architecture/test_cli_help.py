"""`--help` of every command and action: every option explained, lines that fit, live examples."""

import argparse
import shlex
from collections.abc import Iterator

import pytest

from tfdistill import cli


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yields a parser and those of its commands and actions."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from parsers(inner)


PARSERS = {parser.prog: parser for parser in parsers(cli.parser())}


def test_commands_and_actions_are_found():
    assert {
        "tfdistill",
        "tfdistill run",
        "tfdistill data prepare",
        "tfdistill recipes show",
    } <= set(PARSERS)


@pytest.mark.parametrize("program", PARSERS)
def test_every_option_is_explained(program):
    actions = PARSERS[program]._actions
    bare = [action for action in actions if action.option_strings and not action.help]

    assert [action.option_strings for action in bare] == []


@pytest.mark.parametrize("program", PARSERS)
def test_prose_fits_a_terminal_of_80_columns(program, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, _, text = PARSERS[program].format_help().partition("\n\n")  # after the usage
    prose, _, _ = text.partition("examples:\n")

    assert [line for line in prose.splitlines() if len(line) >= 80] == []


@pytest.mark.parametrize("program", PARSERS)
def test_two_examples_end_the_help_and_are_understood(program):
    _, _, tail = PARSERS[program].format_help().partition("examples:\n")
    examples = [shlex.split(line) for line in tail.strip().splitlines()]

    assert len(examples) == 2
    for example in examples:
        assert " ".join(example).startswith(program)
        cli.parser().parse_args(example[1:])


def test_an_unknown_command_is_misuse(capsys):
    with pytest.raises(SystemExit) as exit_:
        cli.main(["distil"])

    assert exit_.value.code == 2
    assert "distil" in capsys.readouterr().err
