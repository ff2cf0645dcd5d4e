"""recipes: what can be run, which students there are, and whether a recipe is valid."""

from __future__ import annotations

import argparse
import pathlib
import shlex

from tfdistill import config, errors, models
from tfdistill.commands import base, options, plan
from tfdistill.io import files, work_folder
from tfdistill.results import quantities, tables


def _list(args: argparse.Namespace) -> None:
    headers = {name: header(path.read_text("utf-8")) for name, path in config.recipes().items()}
    rows = [["recipe", "what it does"]]
    rows += [[name, text.splitlines()[0]] for name, text in headers.items()]
    base.show(headers, as_json=args.json, lines=tables.table(rows, left=2))


def _recipe_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", help="a name (see `tfdistill recipes ls`) or a YAML file")
    options.add_set(parser, "the recipe", "seeds=[1,2]")


def _show(args: argparse.Namespace) -> None:
    print(config.dump_recipe(config.load_recipe(args.recipe, args.set)))


def _check(args: argparse.Namespace) -> None:
    recipe = config.load_recipe(args.recipe, args.set)
    plan.check_fit(recipe)
    named = "" if recipe.name == args.recipe else f", named {recipe.name}"
    print(f"{args.recipe}: valid{named}")
    missing = config.missing_inputs(recipe)
    if missing:
        print("\n  - ".join(["To run, it still needs:", *missing]))


def _copy_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", help="a name (see `tfdistill recipes ls`)")
    parser.add_argument("file", help="YAML file to write")
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier file")


def _copy(args: argparse.Namespace) -> None:
    source, target = config.find_recipe(args.recipe), pathlib.Path(args.file)
    if target.suffix not in (".yaml", ".yml"):
        raise errors.ConfigError("file", "a name that ends in .yaml", repr(args.file))
    work_folder.check_file(target, overwrite=args.overwrite)
    files.atomic_write_text(target, source.read_text("utf-8"))
    print(f"{target}: edit it, then `tfdistill run {shlex.quote(str(target))}`")


def header(text: str) -> str:
    """The comment that a recipe file begins with, without the comment signs."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return "\n".join(lines)


def _list_presets(args: argparse.Namespace) -> None:
    presets = {}
    for name in models.presets():
        shape = models.preset(name)
        parameters = models.count_parameters(shape)
        presets[name] = {
            "num_layers": shape.num_layers,
            "hidden_size": shape.hidden_size,
            "num_heads": shape.num_heads,
            "parameters": parameters,
            "float32_bytes": 4 * parameters,
            "int8_bytes": parameters,
        }
    rows = [["preset", "layers", "width", "heads", "parameters", "float32 MB", "int8 MB"]]
    for name, row in presets.items():
        sizes = [quantities.megabytes(row[key]) for key in ("float32_bytes", "int8_bytes")]
        counts = [str(row[key] or "-") for key in ("num_layers", "hidden_size", "num_heads")]
        rows.append([name, *counts, quantities.count(row["parameters"]), *sizes])
    lines = [
        *tables.table(rows),
        "",
        "Sizes are estimates with 30,522 tokens: 4 bytes, or 1, for each parameter.",
        "Besides presets, --student takes a part of the teacher (pruned:layers=3,ffn=384,heads=6,"
        "width=192,",
        "also head_size, embedding, choose=greedy), static:width=128, and a Hugging Face folder.",
    ]
    base.show(presets, as_json=args.json, lines=lines)


_RECIPES = (
    base.Command(
        name="ls",
        summary="list the recipes that come with tfdistill",
        arguments=options.add_json,
        execute=_list,
        examples=("recipes ls", "recipes ls --json"),
    ),
    base.Command(
        name="show",
        summary="print a recipe with every default filled in",
        arguments=_recipe_arguments,
        execute=_show,
        examples=("recipes show demo", "recipes show tinybert_4l --set seeds=[1,2]"),
    ),
    base.Command(
        name="check",
        summary="validate a recipe and report every fault",
        arguments=_recipe_arguments,
        execute=_check,
        examples=(
            "recipes check my-recipe.yaml",
            "recipes check demo --set student.num_heads=2",
        ),
    ),
    base.Command(
        name="cp",
        summary="copy a recipe to a file of your own, to edit it",
        arguments=_copy_arguments,
        execute=_copy,
        examples=(
            "recipes cp tinybert_4l my-recipe.yaml",
            "recipes cp demo demo.yaml --overwrite",
        ),
    ),
    base.Command(
        name="presets",
        summary="list the architectures that students and teachers can have, with their sizes",
        arguments=options.add_json,
        execute=_list_presets,
        examples=("recipes presets", "recipes presets --json"),
    ),
)
COMMANDS = (
    base.Command(
        name="recipes",
        summary="list, show, check and copy recipes; list presets",
        actions=_RECIPES,
        examples=("recipes ls", "recipes show demo --set seeds=[1,2]"),
    ),
)
