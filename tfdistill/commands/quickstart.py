"""quickstart: a teacher and one labelled file -> recipe, data files, run, a short table."""

from __future__ import annotations

import argparse
import contextlib
import filecmp
import functools
import pathlib
import shutil
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tfdistill import config, errors, results, tasks
from tfdistill.commands import (
    base,
    options,
    plan,
    quickstart_budget,
    quickstart_page,
    quickstart_recipe,
    quickstart_verdict,
)
from tfdistill.data import from_config
from tfdistill.io import files, locks, work_folder

if TYPE_CHECKING:
    from tfdistill.analysis import DataFindings
    from tfdistill.budget.fitting import FittedShape
    from tfdistill.data.labelled_file import LabelledFile

_DATA = "data"
# What the files in that folder are like, and the option that says it.
_OF_FILES = {
    **{"text_column": "--text-column", "pair_column": "--pair-column"},
    **{"label_column": "--label-column", "kind": "--kind"},
    **{"label_separator": "--label-separator", "dir": "--data", "file": "--data"},
}


def _arguments(parser: argparse.ArgumentParser) -> None:
    teacher = parser.add_mutually_exclusive_group(required=True)
    options.add_teacher(
        teacher,
        "a Hugging Face folder or hub id of a BERT, general or fine-tuned on the labels of "
        "the file, or a run folder",
    )
    options.add_field(
        teacher,
        config.AnswersConfig,
        "files",
        flag="--answers",
        help="instead of a model, files with the answers of one that tfdistill cannot open, to "
        "each text (see `tfdistill answers`); --student is a checkpoint then",
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
    options.add_field(parser, config.DataConfig, "other")
    group = parser.add_argument_group("data, where it is not recognised")
    for field in ("text_column", "pair_column", "label_column", "label_separator"):
        options.add_field(group, config.DataConfig, field, None)
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
        help="a preset, a part of the teacher, such as pruned:layers=3,ffn=384, or a checkpoint, "
        "./FOLDER (default: by the budget, or a part about as fast as TinyBERT with 4 layers)",
    )
    group.add_argument(
        "--finetune",
        choices=("auto", "always", "never"),
        default="auto",
        help="whether the teacher is fine-tuned first (default: unless its head has the labels)",
    )
    options.add_field(group, config.DataConfig, "class_weights")
    options.add_field(group, config.DataConfig, "truncation")
    options.add_field(group, config.FineTuneConfig, "precision")
    options.add_seed(group, "the split and the training")
    options.add_set(group, "the recipe that is written", "student.allow_weak=true")
    quickstart_budget.add_arguments(parser)
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
    if args.teacher is not None:
        plan.model(args.teacher, "--teacher")
    plan.existing(args.data, "--data")
    student = None if args.student is None else plan.student(args.student)
    if args.answers and not (student and config.is_checkpoint(student)):
        remedy = "Its vocabulary and its weights are what the student starts from."
        raise errors.ConfigError(
            "--student", "a checkpoint with --answers, ./FOLDER or an id", student, remedy
        )
    quickstart_budget.check(args)
    from tfdistill.data import labelled_file

    name = labelled_file.name_of(args.data)
    out = pathlib.Path(args.out or f"runs/{name}")
    folder = work_folder.WorkFolder(out, "run")
    folder.check(resume=args.resume, overwrite=args.overwrite)
    record = quickstart_budget.earlier(out, args)
    read = functools.partial(
        labelled_file.read_labelled_file,
        args.data,
        name,
        text=args.text_column,
        pair=args.pair_column,
        label=args.label_column,
        kind=args.kind,
        separator=args.label_separator,
        seed=args.seed,
        promise=True,
        other=None if args.other is None else pathlib.Path(args.other),
        similar_together=record is None or record.similar_together,
    )
    trained = student is not None or args.finetune != "auto" or args.class_weights is not None
    bounded = args.latency_ms is not None or args.size_mb is not None
    data = read(few=not (trained or bounded or args.answers))
    findings = _findings(data)
    *notes, sets = data.notes
    _say([*notes, quickstart_page.label_note(data)])

    from tfdistill import run, weights
    from tfdistill.run import teachers

    teacher = config.model_folder(str(args.teacher or student))
    checkpoint = weights.open_checkpoint(teacher)
    if data.cross_fitted and quickstart_recipe.answers_task(checkpoint, data.task)[0]:
        data = read(few=False)
        findings = _findings(data)
        *_, sets = data.notes
    _say([sets])
    proposal = quickstart_recipe.make_recipe(
        name,
        teacher,
        checkpoint,
        data,
        out / _DATA,
        answers=args.answers or (),
        student=student,
        finetune=args.finetune,
        seed=args.seed,
        class_weights=args.class_weights,
        truncation=args.truncation,
        precision=args.precision,
        changes=args.set or [],
    )
    _check_files(proposal.recipe.data, data.section(out / _DATA))
    if proposal.recipe.data.train_limit or proposal.recipe.data.dev_limit:
        findings = _findings(data, proposal.recipe.data)
    _check(proposal.recipe)
    proposal, fitted = quickstart_budget.bound_size(proposal, args.size_mb), None
    if record is not None:
        proposal = quickstart_budget.as_before(proposal, out)
    else:
        proposal, fitted = quickstart_budget.fit_student(proposal, args, data.task)
    page = _page(proposal, data, fitted)
    if record is None:
        bounded = quickstart_budget.bound_steps(proposal, [*page.parts], args.max_minutes)
        page = page if bounded is proposal else _page(bounded, data, fitted)
    recipe = page.proposal.recipe
    _say(page.proposal.notes)
    if args.dry_run:
        teachers.check_fit(recipe, data.task)
        _say(f"WARNING: {warning}" for warning in findings.warnings)
        lines = [*page.lines(), "Nothing was written."]
        if args.verbose:
            lines = [config.dump_recipe(recipe).rstrip(), "", *lines]
        base.show(page.as_json(), as_json=args.json, lines=lines)
        return
    _say(page.lines())
    began = time.monotonic()
    record = record or results.QuickstartRecord(
        estimated_seconds=page.seconds,
        latency_ms=args.latency_ms,
        device=args.device,
        size_mb=args.size_mb,
        max_minutes=args.max_minutes,
        similar_together=True,
    )
    lock = locks.output_lock(out) if args.out is None else contextlib.nullcontext()
    with lock:
        with files.temporary_folder("quickstart") as written:
            data.write(written)
            _check(recipe, written)
            _place(folder, recipe, record, written, args)
        print(f"recipe: {out / config.RECIPE_FILE}, data: {out / _DATA}", file=sys.stderr)
        try:
            metrics = run.run_recipe(recipe, out, devices=args.gpus, resume=True)
        finally:
            seconds = (record.seconds or 0.0) + time.monotonic() - began
            record = record.model_copy(update={"seconds": seconds})
            if (out / results.QUICKSTART_FILE).is_file():
                results.write_result_file(record, out / results.QUICKSTART_FILE)
    lines = quickstart_verdict.lines_of(metrics, record, out)
    base.show(metrics.model_dump(mode="json"), as_json=args.json, lines=lines)
    _say([quickstart_verdict.took(record)])


def _check_files(settings: config.DataConfig, written: Mapping[str, Any]) -> None:
    """Refuses changes of the recipe that its files, `written`, would contradict."""
    faults = [
        errors.explain(
            f"--set data.{key}",
            f"{written.get(key)!r}, as in the files that quickstart writes",
            repr(getattr(settings, key)),
            f"Use {option} in its place.",
        )
        for key, option in _OF_FILES.items()
        if getattr(settings, key) != written.get(key)
    ]
    if faults:
        raise errors.ConfigError("\n".join(faults))
    from_config.declared_task(settings)


def _findings(data: LabelledFile, settings: config.DataConfig | None = None) -> DataFindings:
    """What is conspicuous in a file's sets, or in as many rows as the settings take."""
    from tfdistill import analysis

    train = data.sets["train"].first(settings and settings.train_limit)
    dev = data.sets["dev"].first(settings and settings.dev_limit) if "dev" in data.sets else train
    findings = analysis.check_data(data.task, train, dev)
    findings.check()
    return findings


def _page(
    proposal: quickstart_recipe.QuickstartPlan, data: LabelledFile, fitted: FittedShape | None
) -> quickstart_page.Page:
    """Estimates the parts of a run on this machine."""
    from tfdistill.run import durations

    student = durations.student_of(proposal.recipe, proposal.teacher)
    shape = proposal.teacher or student
    work = durations.Workload(
        proposal.teacher,
        None if proposal.recipe.student.is_teacher else student,
        {name: len(examples) for name, examples in data.sets.items()},
        proposal.tokens,
        data.task.num_labels,
    )
    tokens = round(float(proposal.tokens.clip(max=proposal.recipe.data.max_length).mean()))
    rate, load = durations.training_rate(shape, max(tokens, 2))
    parts = durations.estimate(proposal.recipe, work, rate)
    return quickstart_page.page_of(proposal, data, parts, fitted, load)


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
        for key in ("promise_on", "other"):
            if (path := getattr(recipe.data, key)) is not None:
                places[key] = str(data / pathlib.Path(path).name)
        section = recipe.data.model_copy(update=places)
        faults += config.missing_inputs(recipe.model_copy(update={"data": section}))
    if faults:
        raise errors.ConfigError("\n".join(faults))


def _place(
    folder: work_folder.WorkFolder,
    recipe: config.Recipe,
    record: results.QuickstartRecord,
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
        results.write_result_file(record, out / results.QUICKSTART_FILE)
        files.atomic_write_text(out / config.RECIPE_FILE, config.dump_recipe(recipe))


COMMANDS = (
    base.Command(
        name="quickstart",
        summary="from a teacher and one labelled file to a measured phone file",
        description="Recognises text and label columns, splits off a development set, a test set "
        "and a held-out set for confidence thresholds (below 2,000 rows: the test set), writes a "
        "recipe and these files into the run folder and runs it: teacher, baselines, student, int8 "
        "file, measurement on this host, report. `tfdistill run` reproduces it. Few "
        "rows of each label are cross-validated, not split, and train no student. A "
        "budget of latency or size chooses the largest student within it, measured with random "
        "weights before anything is trained. Before it starts it says what it will do and how long "
        "that takes; --dry-run ends there, with -v after the recipe.",
        arguments=_arguments,
        execute=_quickstart,
        usual=(
            "--teacher --data --label-column --student --latency-ms --size-mb --max-minutes "
            "--out --resume --dry-run"
        ),
        examples=(
            "quickstart --teacher bert-base-uncased --data intents.csv --latency-ms 3 --size-mb 8 "
            "--max-minutes 15",
            "quickstart --teacher ./bert-reviews --data reviews.csv --label-column stars "
            "--kind regression --student pruned:layers=2,ffn=384 --out runs/reviews",
        ),
    ),
)
