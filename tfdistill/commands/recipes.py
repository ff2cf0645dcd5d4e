"""recipes: what can be run, and whether a recipe is valid."""

from __future__ import annotations

import argparse

from tfdistill import config
from tfdistill.commands import base


def _arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("ls", help="list the recipes that come with tfdistill")
    base.add_json(listing)
    for name, text in (
        ("show", "print a recipe with every default filled in"),
        ("check", "validate a recipe and report every fault"),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument("recipe", help="a name or a YAML file")
        action.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")


def _execute(args: argparse.Namespace) -> None:
    if args.action == "ls":
        found = {name: header(path.read_text("utf-8")) for name, path in config.recipes().items()}
        width = max(map(len, found))
        lines = [f"{name:{width}}  {text.splitlines()[0]}" for name, text in found.items()]
        base.show(found, as_json=args.json, lines=lines)
        return
    recipe = config.load_recipe(args.recipe, args.set)
    print(config.dump_recipe(recipe) if args.action == "show" else f"{recipe.name}: valid")


def header(text: str) -> str:
    """The comment that a recipe file begins with, without the comment signs."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return "\n".join(lines)


COMMANDS = (
    base.Command(
        name="recipes",
        summary="list, show and check recipes",
        arguments=_arguments,
        execute=_execute,
        examples=("recipes ls", "recipes show demo --set seeds=[1,2]"),
    ),
)
