"""run, demo, report: whole runs."""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Sequence

from tfdistill import config, errors
from tfdistill.commands import base, baseline_lines, options, plan
from tfdistill.io import locks, work_folder
from tfdistill.results import RunMetrics, part_of


def _run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", help="a name (see `tfdistill recipes ls`) or a YAML file")
    options.add_set(parser, "the recipe", "data.dir=glue/SST-2")
    parser.add_argument(
        "--no-teacher",
        action="store_true",
        help="also train the student without a teacher, where the recipe does not",
    )
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
    out = pathlib.Path(args.out or f"runs/{recipe.name}")
    _run_recipe(recipe, out, args, args.gpus, args.pipeline)


def _demo_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_output(parser, "runs/demo", what="run folder", resume=True, kind="run")
    options.add_dry_run(parser)
    options.add_json(parser)


def _demo(args: argparse.Namespace) -> None:
    _run_recipe(config.load_recipe("demo"), pathlib.Path(args.out), args, devices=1)


def _run_recipe(
    recipe: config.Recipe,
    out: pathlib.Path,
    args: argparse.Namespace,
    devices: int | None,
    pipeline: Sequence[str] | None = None,
) -> None:
    plan.check(recipe, out, args)
    if args.dry_run:
        plan.show(recipe, out, args)
        return
    from tfdistill import run

    metrics = run.run_recipe(
        recipe,
        out,
        devices=devices,
        pipeline=pipeline,
        resume=args.resume,
        overwrite=args.overwrite,
    )
    values = metrics.model_dump(mode="json")
    base.show(values, as_json=args.json, lines=_summary(metrics, out))


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
        lines += baseline_lines.compared(
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


def _report_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a run folder (of run, finetune, distill, compress), an export folder alone, a result "
        "of `tfdistill benchmark --out`, a folder of `tfdistill export --list`, or a folder that "
        "holds such things",
    )
    parser.add_argument(
        "--texts",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="show development sentences that models answer differently, or leave all of them out "
        "(default: show)",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="folder to write (default: the run folder of a single run, else report)",
    )


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
    if single:
        with locks.output_lock(pathlib.Path(args.out or args.paths[0]) / "report.html"):
            page, _ = report.write(args.paths[0], args.out, texts=args.texts)
    else:
        out = args.out or "report"
        with locks.output_lock(pathlib.Path(out) / "report.html"):
            page, _ = report.write_comparison(args.paths, out)
    print(page)


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
)
