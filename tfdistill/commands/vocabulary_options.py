"""Options that cut a vocabulary of many languages to those of an app."""

from __future__ import annotations

import argparse
import contextlib
import pathlib
from typing import Any

from tfdistill import config, errors
from tfdistill.commands import options

PLACE = options.PLACES[config.CutConfig]


def add(parser: argparse.ArgumentParser, which: str) -> None:
    """Adds the options that cut a vocabulary; `which` says of what model."""
    group = parser.add_argument_group(f"vocabulary ({which})")
    codes = {"type": options.names, "metavar": "CODE,..."}
    options.add_field(group, config.CutConfig, "languages", None, nargs=None, **codes)
    options.add_field(group, config.CutConfig, "languages_of")
    options.add_field(group, config.CutConfig, "vocab_size")


def cut_of(args: argparse.Namespace, source: str | None, *, fetch: bool) -> dict[str, Any]:
    """The key `cut` of a data section, where options or the model in `source` ask for it.

    A vocabulary of many languages is cut by default. Without `fetch` a model on the hub is not
    looked at. A model that cannot be opened is a fault of what opens it later.
    """
    named = options.section_of(args, PLACE)
    if not named and source is not None and (fetch or pathlib.Path(source).is_dir()):
        from tfdistill import weights

        with contextlib.suppress(errors.TfdistillError):
            tokenizer = weights.open_checkpoint(source, shapes_only=True).tokenizer
            if tokenizer is not None and tokenizer.of_many_languages:
                return {"cut": named}
    return {"cut": named} if named else {}
