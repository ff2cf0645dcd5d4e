"""recipes, run, demo, report: recipes and whole runs."""

from __future__ import annotations

import argparse
import pathlib
import shlex
from collections.abc import Sequence

from tfdistill import config, errors, models
from tfdistill.commands import base, options, plan
from tfdistill.io import files, locks, work_folder
from tfdistill.results import UNDERTRAINED, BaselineResult, RunMetrics, part_of, quantities, tables


def _run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", help="a name (see `tfdistill recipes ls`) or a YAML file")
    options.add_set(parser, "the recipe", "data.dir=glue/SST-2")
    text = "also train the student without a teacher, where the recipe does not"
    options.add_plain(parser, {"--no-teacher": text})
    options.add_output(
        parser, what="run folder (default: runs/RECIPE)", required=False, resume=True, kind="run"
    )
    options.add_gpus(parser)
    options.add_dry_run(parser)
    options.add_json(parser)
    options.add_runner(parser, "compute the teacher's answers over a training set")


def _run(args: argparse.Namespace) -> None:
    recipe = config.load_recipe(args.recipe, args.set)
    if args.no_teacher:
        recipe = config.with_baseline(recipe)
    out = args.out or f"runs/{recipe.name}"
    options_of_run = {"devices": args.gpus, "pipeline": args.pipeline}
    plan.run(recipe, args, "run_recipe", _summary, out=out, **options_of_run)


def _demo_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_output(parser, "runs/demo", what="run folder", resume=True, kind="run")
    options.add_dry_run(parser)
    options.add_json(parser)


def _demo(args: argparse.Namespace) -> None:
    plan.run(config.load_recipe("demo"), args, "run_recipe", _summary, devices=1)


def _summary(metrics: RunMetrics, out: pathlib.Path) -> list[str]:
    metric = metrics.task.primary_metric
    lines = [f"{metric} on {metrics.task.name}:"]
    for model in metrics.models:
        seed = f" (seed {model.seed})" if model.role == "student" else ""
        value = model.metrics.get(metric)
        shown = "-" if value is None else f"{value:.4f}"
        lines.append(f"  {model.name + seed:28} {shown}")
    chosen = next((m for m in metrics.models if m.folder == metrics.chosen), None)
    teacher = next((m for m in metrics.models if m.role == "teacher"), None)
    if metrics.baselines and chosen is not None:
        teacher_value = None if teacher is None else teacher.metrics.get(metric)
        lines += compared(
            metric,
            chosen.metrics.get(metric),
            teacher_value,
            metrics.baselines,
            answered=teacher and part_of(teacher.num_examples, chosen.num_examples),
        )
    if metrics.synthetic_data:
        lines.append("The data is synthetic: these figures say nothing about real text.")
    if not metrics.exports:
        return [*lines, f"student: {out / 'student' / 'hf'}"]
    return [*lines, f"phone file: {out / 'export'}", f"report: {out / 'report.html'}"]


def compared(
    metric: str,
    student: float | None,
    teacher: float | None,
    baselines: Sequence[BaselineResult],
    *,
    answered: tuple[int, int] | None = None,
) -> list[str]:
    """The teacher and the baselines beside a student, a line each, and who is below one.

    `answered` is of a teacher that was scored on a part of the examples, see `results.part_of`; it
    is then compared with nothing.
    """
    measured = [(row, row.metrics.get(metric)) for row in baselines]
    rows = [(row, value) for row, value in measured if value is not None]
    part = f" (of the {answered[0]} of {answered[1]} examples that it answered)" if answered else ""
    lines = [] if teacher is None else [f"  teacher: {teacher:.4f}{part}"]
    for row, value in rows:
        lines.append(f"  {row.name}: {value:.4f}" + (f" ({row.note})" if row.note else ""))
    if not lines:
        return []
    lines.insert(0, f"compared with, {metric}")
    for model, model_value in (
        ("student", student or 0.0),
        ("teacher", None if answered else teacher),
    ):
        others = [(row.name, value) for row, value in rows if row.is_alternative]
        better = [name for name, value in others if model_value is not None and model_value < value]
        if better:
            lines.append(f"WARNING: the {model} is below the baseline {' and '.join(better)}.")
        if model == "teacher" and "frozen_teacher" in better:
            lines.append(UNDERTRAINED)
    return lines


def _report_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a run folder (of run, finetune, distill, compress), an export folder alone, a result "
        "of `tfdistill benchmark --out`, a folder of `tfdistill export --list`, or a folder that "
        "holds such things",
    )
    text = "show development sentences that models answer differently, or leave all of them out "
    shown = {"action": argparse.BooleanOptionalAction, "default": True}
    options.add_plain(parser, {"--texts": f"{text}(default: show)"}, **shown)
    text = "folder to write (default: the run folder of a single run, else report)"
    options.add_plain(parser, {"--out DIR": text})


def _report(args: argparse.Namespace) -> None:
    missing = [path for path in args.paths if not pathlib.Path(path).exists()]
    if missing:
        raise errors.ConfigError(
            "run folder or result",
            "a folder that `tfdistill run` wrote, or a file of `tfdistill benchmark --out`",
            f"{', '.join(missing)}: no such file or folder",
            "Check the path.",
        )
    from tfdistill import report

    single = len(args.paths) == 1 and report.is_run(args.paths[0])
    target = args.out or (args.paths[0] if single else "report")
    report.check_output(target)
    work_folder.check_writable(pathlib.Path(target) / report.HTML_NAME, target)
    with locks.output_lock(pathlib.Path(target) / "report.html"):
        if single:
            page, _ = report.write(args.paths[0], args.out, texts=args.texts)
        else:
            page, _ = report.write_comparison(args.paths, target)
    print(page)


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
        "also head_size, embedding, choose=top), static:width=128, and a Hugging Face folder.",
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
            "recipes check demo --set student.preset=pruned:layers=1",
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
        name="demo",
        summary="run all steps on embedded synthetic data, in minutes",
        arguments=_demo_arguments,
        execute=_demo,
        examples=("demo", "demo --out runs/first --overwrite"),
    ),
    base.Command(
        name="run",
        summary="run a recipe: teacher, students, export, measurement, report",
        arguments=_run_arguments,
        execute=_run,
        usual=("--set --no-teacher --out --resume --overwrite --gpus --dry-run --json"),
        examples=(
            "run tinybert_4l --set teacher=bert-base-uncased --set data.dir=glue/SST-2 "
            "--set stages.general.corpus=[books.txt]",
            "run runs/sst2/recipe.yaml --out runs/sst2 --resume",
        ),
    ),
    base.Command(
        name="report",
        summary="write a page about a run, or one that compares many runs and results",
        description="Writes report.html, report.md and, as CSV, report-tables. Of one run folder: "
        "its summary and measurements. Of several paths: accuracy against latency against size, a "
        "section for each device; hosts, emulated devices and phones are never mixed.",
        arguments=_report_arguments,
        execute=_report,
        examples=(
            "report runs/demo",
            "report runs/sst2 pixel8.json runs/sst2-quantizations --out runs/compared",
        ),
    ),
    base.Command(
        name="recipes",
        summary="list, show, check and copy recipes; list presets",
        actions=_RECIPES,
        examples=("recipes ls", "recipes show demo --set seeds=[1,2]"),
    ),
)
