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


@pytest.mark.parametrize("program", PARSERS)
def test_help_shows_at_most_a_dozen_options_and_help_all_every_one(program):
    parser = PARSERS[program]
    every = {action.option_strings[-1] for action in parser._actions if action.option_strings}
    few, full = shown(parser.format_help()), shown(parser.format_help_all())
    assert len(few) <= 12
    assert {option.removeprefix("--").removeprefix("no-") for option in every} == {
        option.removeprefix("--").removeprefix("no-") for option in full
    }
    assert ("--help-all" in few) == (few < full)
    assert "examples:\n" in parser.format_help_all()


@pytest.mark.parametrize("program", PARSERS)
def test_a_short_help_names_what_is_required_and_options_that_there_are(program):
    parser = PARSERS[program]
    usual = parser._usual - {"--help", "--help-all"}
    assert usual <= set(parser.visible_options())
    required = {a.option_strings[0] for a in parser._actions if a.option_strings and a.required}
    assert not usual or required <= usual


def test_help_all_prints_what_help_leaves_out(capsys):
    for option, program_help in (("--help", "format_help"), ("--help-all", "format_help_all")):
        with pytest.raises(SystemExit) as exit_:
            cli.main(["export", option])
        assert exit_.value.code == 0
        assert capsys.readouterr().out == getattr(PARSERS["tfdistill export"], program_help)()


def test_the_help_lists_at_most_twenty_verbs_below_headings():
    listed = re.search(r"^  COMMAND\n(.+?)\n\n", PARSERS["tfdistill"].format_help(), re.M | re.S)
    headings = re.findall(r"^  (\w+):$", listed[1], re.M)
    verbs = re.findall(r"^    ([a-z]+)", listed[1], re.M)
    assert headings == ["start", "train", "ship", "measure", "more"]
    assert verbs == [command.name for command in cli.commands()]
    assert len(verbs) <= 20


def test_an_unknown_command_is_misuse(capsys):
    with pytest.raises(SystemExit) as exit_:
        cli.main(["distil"])

    assert exit_.value.code == 2
    assert "distil" in capsys.readouterr().err
