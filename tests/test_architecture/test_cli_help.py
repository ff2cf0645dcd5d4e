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


def test_every_command_and_action_has_two_examples_that_are_understood():
    assert {
        "tfdistill",
        "tfdistill run",
        "tfdistill data prepare",
        "tfdistill recipes show",
    } <= set(PARSERS)
    for program, parser in PARSERS.items():
        _, _, tail = parser.format_help().partition("examples:\n")
        examples = [shlex.split(line) for line in tail.strip().splitlines()]
        assert len(examples) == 2, program
        for example in examples:
            assert " ".join(example).startswith(program)
            cli.parser().parse_args(example[1:])


def test_every_option_is_explained_in_lines_that_fit_a_terminal_of_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    bare, wide = [], []
    for program, parser in PARSERS.items():
        options = [action for action in parser._actions if action.option_strings]
        bare += [(program, action.option_strings) for action in options if not action.help]
        _, _, text = parser.format_help_all().partition("\n\n")  # after the usage
        prose, _, _ = text.partition("examples:\n")
        wide += [line for line in prose.splitlines() if len(line) >= 80]
    assert (bare, wide) == ([], [])


def shown(text):
    """The options that a help lists."""
    return set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", text, re.M))


@pytest.mark.parametrize("program", PARSERS)
def test_help_shows_a_dozen_options_with_the_required_ones_and_help_all_every_one(program):
    parser = PARSERS[program]
    options = [action for action in parser._actions if action.option_strings]
    few, full = shown(parser.format_help()), shown(parser.format_help_all())
    assert len(few) <= 12
    assert {
        action.option_strings[-1].removeprefix("--").removeprefix("no-") for action in options
    } == {option.removeprefix("--").removeprefix("no-") for option in full}
    assert ("--help-all" in few) == (few < full)
    assert "examples:\n" in parser.format_help_all()
    usual = parser._usual - {"--help", "--help-all"}
    assert usual <= set(parser.visible_options())
    required = {action.option_strings[0] for action in options if action.required}
    assert not usual or required <= usual


def test_help_all_prints_what_help_leaves_out_and_an_unknown_command_is_misuse(capsys):
    for option, program_help in (("--help", "format_help"), ("--help-all", "format_help_all")):
        with pytest.raises(SystemExit) as exit_:
            cli.main(["export", option])
        assert exit_.value.code == 0
        assert capsys.readouterr().out == getattr(PARSERS["tfdistill export"], program_help)()
    with pytest.raises(SystemExit) as exit_:
        cli.main(["distil"])

    assert exit_.value.code == 2
    assert "distil" in capsys.readouterr().err


def test_the_help_lists_at_most_twenty_verbs_below_headings():
    listed = re.search(r"^  COMMAND\n(.+?)\n\n", PARSERS["tfdistill"].format_help(), re.M | re.S)
    headings = re.findall(r"^  (\w+):$", listed[1], re.M)
    verbs = re.findall(r"^    ([a-z]+)", listed[1], re.M)
    assert headings == ["start", "train", "ship", "measure", "more"]
    assert verbs == [command.name for command in cli.commands()]
    assert len(verbs) <= 20
