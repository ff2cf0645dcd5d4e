"""data: prepare corpora, vocabularies and training sets."""

from __future__ import annotations

import argparse

from tfdistill.commands import augment, base, pretraining

# What can be done with data; each is typed after `tfdistill data`.
ACTIONS: tuple[base.Command, ...] = (*pretraining.DATA_ACTIONS, *augment.DATA_ACTIONS)


def _arguments(parser: argparse.ArgumentParser) -> None:
    base.add_actions(parser, "data", ACTIONS)


def _execute(args: argparse.Namespace) -> int | None:
    return args.run_action(args)


COMMANDS = (
    base.Command(
        name="data",
        summary="prepare corpora, vocabularies and training sets",
        arguments=_arguments,
        execute=_execute,
        examples=tuple(f"data {action.examples[0]}" for action in ACTIONS[:2]),
    ),
)
