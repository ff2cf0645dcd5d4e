"""quickstart: a teacher and one labelled file -> recipe, data files, run, a short table."""

from __future__ import annotations

import argparse
import contextlib
import filecmp
import functools
import pathlib
import shutil
import sys
from collections.abc import Mapping
from typing import Any

from tfdistill import config, errors, files, locks, manifest, results, tables, tasks, work_folder
from tfdistill.commands import base, options, plan, quickstart_recipe

_DATA = "data"


def _arguments(parser: argparse.ArgumentParser) -> None:
    options.add_teacher(
        parser,
        "a Hugging Face folder or hub id of a BERT, general or fine-tuned on the labels of "
        "the file, or a run folder",
        required=True,
    )
    options.add_field(
        parser,
        config.DataConfig,
        "file",
        flag="--data",
        required=True,
        metavar="FILE",
        help="labelled texts: CSV, TSV, JSON Lines, Parquet or Excel, with the names of the "
        "columns on top",
    )
    group = parser.add_argument_group("data, where it is not recognised")
    for field in ("text_column", "pair_column", "label_column"):
        options.add_field(group, config.DataConfig, field)
    text = "kind of task (default: by the labels)"
    shown = "{" + ",".join(_kinds()) + "}"  # words and questions are refused with a remedy
    options.add_field(group, config.DataConfig, "kind", help=text, metavar=shown)
    group = parser.add_argument_group("training")
    options.add_field(
        group,
        config.StudentConfig,
        "preset",
        flag="--student",
        metavar="PRESET",
        help="a preset, or a part of the teacher, such as pruned:layers=3,ffn=384 (default: a part "
        "about as fast as TinyBERT with 4 layers)",
    )
    group.add_argument(
        "--finetune",
        choices=("auto", "always", "never"),
        default="auto",
        help="whether the teacher is fine-tuned first (default: unless its head has the labels)",
    )
    options.add_field(group, config.DataConfig, "class_weights")
    options.add_field(group, config.FineTuneConfig, "precision")
    options.add_seed(group, "the split and the training")
    options.add_set(group, "the recipe that is written", "student.allow_weak=true")
    options.add_output(
        parser,
        what="run folder (default: runs/NAME of the file)",
        required=False,
        resume=True,
        kind="run",
    )
    options.add_gpus(parser)
    options.add_dry_run(parser)
    options.add_json(parser)


def _kinds() -> list[str]:
    """The kinds of tasks that one table of texts and labels makes."""
    return [name for name, kind in tasks.KINDS.items() if kind.row_a_text]


def _quickstart(args: argparse.Namespace) -> None:
    plan.model(args.teacher, "--teacher")
    plan.existing(args.data, "--data")
    student = None if args.student is None else plan.student(args.student)
    from tfdistill.data import labelled_file

    name = labelled_file.name_of(args.data)
    out = pathlib.Path(args.out or f"runs/{name}")
    folder = work_folder.WorkFolder(out, "run")
    folder.check(resume=args.resume, overwrite=args.overwrite)
    from tfdistill import analysis

    read = functools.partial(
        labelled_file.read_labelled_file,
        args.data,
        name,
        text=args.text_column,
        pair=args.pair_column,
        label=args.label_column,
        kind=args.kind,
        seed=args.seed,
        promise=True,
    )
    data = read(few=student is None and args.finetune == "auto")
    train = data.sets["train"]
    findings = analysis.check_data(data.task, train, data.sets.get("dev", train))
    findings.check()
    _say(data.notes)

    from tfdistill import run, weights
    from tfdistill.run import few_rows, teachers

    teacher = config.model_folder(args.teacher)
    checkpoint = weights.open_checkpoint(teacher)
    if data.cross_fitted:
        tuned, _ = quickstart_recipe.answers_task(checkpoint, data.task)
        road = None if tuned else few_rows.choose(teacher, train)
        _say([] if road is None else [road.note])
        if road is None or not road.frozen:
            data = read(few=False)
            _say(data.notes[-1:])
    recipe, notes = quickstart_recipe.make_recipe(
        name,
        teacher,
        checkpoint,
        data,
        out / _DATA,
        student=student,
        finetune=args.finetune,
        seed=args.seed,
        class_weights=args.class_weights,
        precision=args.precision,
        changes=args.set,
    )
    _say(notes)
    if args.dry_run:
        _check(recipe)
        teachers.check_fit(recipe, data.task)
        _say(f"WARNING: {warning}" for warning in findings.warnings)
        lines = [config.dump_recipe(recipe).rstrip(), "Nothing was written."]
        base.show(recipe.model_dump(mode="json"), as_json=args.json, lines=lines)
        return
    lock = locks.output_lock(out) if args.out is None else contextlib.nullcontext()
    with lock:
        with files.temporary_folder("quickstart") as written:
            data.write(written)
            _check(recipe, written)
            _place(folder, recipe, written, args)
        print(f"recipe: {out / config.RECIPE_FILE}, data: {out / _DATA}", file=sys.stderr)
        metrics = run.run_recipe(recipe, out, devices=args.gpus, resume=True)
    base.show(metrics.model_dump(mode="json"), as_json=args.json, lines=_summary(metrics, out))


def _say(notes: Any) -> None:
    for note in notes:
        print(note, file=sys.stderr, flush=True)


def _check(recipe: config.Recipe, data: pathlib.Path | None = None) -> None:
    """Refuses a recipe that cannot run, before an earlier run is replaced."""
    from tfdistill.run import shapes

    faults = [*plan.preset_faults(recipe)] or shapes.shape_faults(recipe)
    if data is not None:
        # Where the files are until they are in the run.
        places = {"dir": str(data)}
        if recipe.data.promise_on is not None:
            places["promise_on"] = str(data / pathlib.Path(recipe.data.promise_on).name)
        section = recipe.data.model_copy(update=places)
        faults += config.missing_inputs(recipe.model_copy(update={"data": section}))
    if faults:
        raise errors.ConfigError("\n".join(faults))


def _place(
    folder: work_folder.WorkFolder,
    recipe: config.Recipe,
    data: pathlib.Path,
    args: argparse.Namespace,
) -> None:
    """Writes recipe and data files as the beginning of a run; keeps those of a run to continue."""
    out = folder.path
    if (out / config.RECIPE_FILE).is_file() and not args.overwrite:
        changed = [
            file.name
            for file in sorted(data.iterdir())
            if not (out / _DATA / file.name).is_file()
            or not filecmp.cmp(file, out / _DATA / file.name, shallow=False)
        ]
        if changed:
            raise errors.ConfigError(
                "--resume",
                f"the data in {out / _DATA}",
                f"another {', '.join(changed)}: the file, the seed or the columns changed",
                "Start again with --overwrite, or choose another --out.",
            )
        return
    with folder.open(resume=args.resume, overwrite=args.overwrite):
        shutil.copytree(data, out / _DATA, dirs_exist_ok=True)
        files.atomic_write_text(out / config.RECIPE_FILE, config.dump_recipe(recipe))


def _summary(metrics: results.RunMetrics, out: pathlib.Path) -> list[str]:
    """The table of teacher, baselines, student and file, and what comes next."""
    metric, test = metrics.task.primary_metric, metrics.test_metrics
    sizes, latencies, texts = _files(metrics, out)
    length = max(length for _, length in latencies)
    times = ["a text", f"latency, {length} tokens"]
    rows = [["", f"{metric} (dev)", "(test)", "size", *times]]
    chosen = next(m for m in metrics.models if m.folder == metrics.chosen)
    for model in metrics.models:
        if model.role == "teacher" or model is chosen:
            rows.append(_row(model.role, model.metrics, test.get(model.role, {}), metric))
    for file in metrics.exports:
        if file.name == "teacher":  # in the row of the model
            continue
        name = "file" if file.name == "student" else file.name
        card = manifest.read_manifest((out / file.manifest).parent)
        file_metrics = {} if card.parity is None else card.parity.file_metrics
        rows.append(_row(name, file_metrics, test.get(name, {}), metric))
    for row in rows[1:]:
        of = {"file": "student", "student": ""}.get(row[0], row[0])
        row[3:] = [sizes.get(of, "-"), texts.get(of, "-"), latencies.get((of, length), "-")]
    for baseline in metrics.baselines:
        rows.append(
            [*_row(f"baseline {baseline.name}", baseline.metrics, {}, metric), "-", "-", "-"]
        )
    return [
        *tables.table(rows),
        f"report: {out / 'report.html'}",
        f"again: tfdistill run {out / config.RECIPE_FILE} --out {out}-again",
        f'next: tfdistill predict {out} "a text"',
        f"      tfdistill benchmark {out} --device adb --binary benchmark_model --out phone.json",
        f"      tfdistill export {out} --android android_demo/demo/src/main/assets",
    ]


def _row(
    name: str, dev: Mapping[str, float | None], test: Mapping[str, float | None], metric: str
) -> list[str]:
    shown = [values.get(metric) for values in (dev, test)]
    return [name, *("-" if value is None else f"{value:.4f}" for value in shown)]


def _files(
    metrics: results.RunMetrics, out: pathlib.Path
) -> tuple[dict[str, str], dict[tuple[str, int], str], dict[str, str]]:
    """Sizes by file; on the fewest threads latencies by file and length, and those of a text."""
    from tfdistill import benchmark

    cards = {
        file.name: manifest.read_manifest((out / file.manifest).parent) for file in metrics.exports
    }
    sizes = {name: f"{card.model.size_bytes / 1e6:.1f} MB" for name, card in cards.items()}
    measured = benchmark.read_result(out / "benchmark.json")
    threads = min(row.threads for row in measured.summary)
    latencies = {
        (row.model, row.sequence_length): tables.marked(f"{row.p50_ms:.3g} ms", row.busy)
        for row in measured.summary
        if row.threads == threads
    }
    texts = {
        row.model: tables.marked(f"{row.expected_ms:.3g} ms", row.busy)
        for row in measured.text_times
        if row.threads == threads
    }
    return sizes, latencies, texts


COMMANDS = (
    base.Command(
        name="quickstart",
        summary="from a teacher and one labelled file to a measured phone file",
        description="Recognises text and label columns, splits development and test sets off, "
        "of 2,000 different texts or more also texts on which the file promises how sure it is, "
        "writes a recipe and these files into the run folder and runs it: teacher, baselines, "
        "student, int8 file, measurement on this host, report. `tfdistill run` reproduces it.",
        arguments=_arguments,
        execute=_quickstart,
        usual=(
            "--teacher",
            "--data",
            "--text-column",
            "--label-column",
            "--kind",
            "--student",
            "--out",
            "--resume",
            "--overwrite",
            "--dry-run",
        ),
        examples=(
            "quickstart --teacher bert-base-uncased --data intents.csv",
            "quickstart --teacher ./bert-reviews --data reviews.csv --label-column stars "
            "--kind regression --student pruned:layers=2,ffn=384 --out runs/reviews",
        ),
    ),
)
