"""`tfdistill --help` is the map, and each command ends its help in two examples that hold."""

import argparse
import re
import shlex

import pytest


def commands() -> dict[str, argparse.ArgumentParser]:
    from tfdistill import cli

    (choices,) = (
        action.choices
        for action in cli.parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    return dict(choices)


def test_help_lists_every_command(capsys):
    from tfdistill import cli

    with pytest.raises(SystemExit) as exit_:
        cli.main(["--help"])

    assert exit_.value.code == 0
    shown = capsys.readouterr().out
    named = {
        "run", "recipes", "finetune", "distill", "evaluate", "export", "inspect", "benchmark",
        "report", "doctor", "demo",
    }  # fmt: skip
    assert named <= set(commands())
    assert all(re.search(rf"^ +{name}\b", shown, re.M) for name in commands())


def test_each_command_ends_its_help_in_two_examples_that_parse(capsys):
    from tfdistill import cli

    for name in commands():
        with pytest.raises(SystemExit) as exit_:
            cli.main([name, "--help"])
        assert exit_.value.code == 0
        _, _, tail = capsys.readouterr().out.partition("examples:\n")
        examples = [line.strip() for line in tail.strip().splitlines()]

        assert len(examples) >= 2, name
        for example in examples:
            program, *arguments = shlex.split(example)
            assert program == "tfdistill" and arguments[0] == name
            cli.parser().parse_args(arguments)


def test_an_unknown_command_is_misuse(capsys):
    from tfdistill import cli

    with pytest.raises(SystemExit) as exit_:
        cli.main(["distil"])

    assert exit_.value.code == 2
    assert "distil" in capsys.readouterr().err
