"""`--help` of every command and action: every option explained, lines that fit, live examples."""

import argparse
import re
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
    _, _, text = PARSERS[program].format_help_all().partition("\n\n")  # after the usage
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


def shown(text):
    """The options that a help lists."""
    return set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", text, re.M))


@pytest.mark.parametrize("verb", ["export", "benchmark"])
def test_help_shows_the_usual_options_and_help_all_every_one(verb, capsys):
    texts = {}
    for option in ("--help", "--help-all"):
        with pytest.raises(SystemExit) as exit_:
            cli.main([verb, option])
        assert exit_.value.code == 0
        texts[option] = capsys.readouterr().out
    few, all_ = (shown(text) for text in texts.values())
    assert 8 <= len(few) <= 12
    assert {"--help", "--help-all"} < few < all_
    named = {
        "--" + action.dest.replace("_", "-") for action in PARSERS[f"tfdistill {verb}"]._actions
    }
    assert all_ >= {
        name for name in named if name in PARSERS[f"tfdistill {verb}"].visible_options()
    }
    assert all(text.partition("examples:\n")[2] for text in texts.values())


def test_a_short_help_names_options_that_there_are():
    for command in cli.commands():
        options = PARSERS[f"tfdistill {command.name}"].visible_options()
        assert set(command.usual) <= set(options)


def test_an_unknown_command_is_misuse(capsys):
    with pytest.raises(SystemExit) as exit_:
        cli.main(["distil"])

    assert exit_.value.code == 2
    assert "distil" in capsys.readouterr().err
