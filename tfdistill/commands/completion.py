"""Names, options and files completed by the shell. Imports no TensorFlow."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence

from argcomplete import completers, finders

from tfdistill import config, models, tasks
from tfdistill.commands import base


def _quantizations() -> list[str]:
    from export.conversion import quantize

    return [*quantize.quantizations(), *config.SHORT_QUANTIZATIONS]


def _devices() -> list[str]:
    from export.conversion import device_form

    return list(device_form.FORMS)


# What the values of an argument are completed with, by the name that the parser gives it.
_VALUES: dict[str, Callable[[], Sequence[str]]] = {
    "recipe": lambda: list(config.recipes()),
    "student": lambda: [*models.presets(), "pruned:layers=", "static:width="],
    "task": lambda: [*tasks.tasks(), config.BUILT_IN_DATA],
    "quantize": _quantizations,
    "devices": _devices,
}


def complete(root: base.Parser) -> None:
    """Answers a shell that asks what could be typed next, and ends the process."""
    for parser in _parsers(root):
        for action in parser._actions:
            if action.dest in _VALUES:
                names = _VALUES[action.dest]
                vars(action)["completer"] = completers.ChoicesCompleter(dict.fromkeys(names(), ""))
    finders.CompletionFinder()(root, always_complete_options="long")


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _parsers(inner)
