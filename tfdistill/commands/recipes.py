"""recipes: what can be run, and whether a recipe is valid."""

from __future__ import annotations

import argparse

from tfdistill import config, errors
from tfdistill.commands import base


def _list(args: argparse.Namespace) -> None:
    found = {name: header(path.read_text("utf-8")) for name, path in config.recipes().items()}
    width = max(map(len, found))
    lines = [f"{name:{width}}  {text.splitlines()[0]}" for name, text in found.items()]
    base.show(found, as_json=args.json, lines=lines)


def _recipe_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", help="a name (see `tfdistill recipes ls`) or a YAML file")
    base.add_set(parser, "the recipe", "seeds=[1,2]")


def _show(args: argparse.Namespace) -> None:
    print(config.dump_recipe(config.load_recipe(args.recipe, args.set)))


def _check(args: argparse.Namespace) -> None:
    from tfdistill.run import shapes

    recipe = config.load_recipe(args.recipe, args.set)
    faults = shapes.shape_faults(recipe)
    if faults:
        raise errors.ConfigError("\n  - ".join([f"{recipe.name} does not fit together:", *faults]))
    print(f"{recipe.name}: valid")
    missing = config.missing_inputs(recipe)
    if missing:
        print("\n  - ".join(["To run, it still needs:", *missing]))


def header(text: str) -> str:
    """The comment that a recipe file begins with, without the comment signs."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return "\n".join(lines)


ACTIONS = (
    base.Command(
        name="ls",
        summary="list the recipes that come with tfdistill",
        arguments=base.add_json,
        execute=_list,
        examples=("ls", "ls --json"),
    ),
    base.Command(
        name="show",
        summary="print a recipe with every default filled in",
        arguments=_recipe_arguments,
        execute=_show,
        examples=("show demo", "show tinybert_4l_sst2 --set seeds=[1,2]"),
    ),
    base.Command(
        name="check",
        summary="validate a recipe and report every fault",
        arguments=_recipe_arguments,
        execute=_check,
        examples=("check my-recipe.yaml", "check demo --set student.num_heads=2"),
    ),
)


def _arguments(parser: argparse.ArgumentParser) -> None:
    base.add_actions(parser, "recipes", ACTIONS)


def _execute(args: argparse.Namespace) -> int | None:
    return args.run_action(args)


COMMANDS = (
    base.Command(
        name="recipes",
        summary="list, show and check recipes",
        arguments=_arguments,
        execute=_execute,
        examples=("recipes ls", "recipes show demo --set seeds=[1,2]"),
    ),
)
