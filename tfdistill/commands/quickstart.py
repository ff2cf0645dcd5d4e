"""quickstart: a teacher and one labelled file -> recipe, data files, run, a short table."""

from __future__ import annotations

import argparse
import contextlib
import filecmp
import functools
import math
import pathlib
import shutil
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tfdistill import config, errors, results, tasks
from tfdistill.commands import (
    base,
    measurement_options,
    options,
    plan,
    quickstart_verdict,
    vocabulary_options,
)
from tfdistill.data import from_config
from tfdistill.io import files, locks, work_folder
from tfdistill.tasks import conll

if TYPE_CHECKING:
    from tfdistill.analysis import DataFindings
    from tfdistill.commands.quickstart_plan import QuickstartPlan
    from tfdistill.data.answered_file import AnsweredFile
    from tfdistill.data.labelled_file import LabelledFile

_DATA = "data"
_COLUMNS = ("text_column", "pair_column", "label_column", "label_separator")
_NAMED = (*_COLUMNS, "offsets")
_ANSWERS = ("answer_column", "answered_by", "learn", "abstains", "drop_suspects")
_BUDGETS = ("latency_ms", "size_mb", "max_minutes")


def _arguments(parser: argparse.ArgumentParser) -> None:
    options.add_teacher_or_answers(
        parser,
        "a Hugging Face folder or hub id of a BERT, general or fine-tuned on the labels of "
        "the file, or a run folder",
        "files with the answers of one that tfdistill cannot open, to every text (see `tfdistill "
        "answers`); --student must then be a checkpoint",
    )
    text = "labelled texts: CSV, TSV, JSON Lines, Parquet or Excel with a header row; or tagged "
    text += "words: CoNLL, or records with entities"
    file = {"flag": "--data", "required": True, "metavar": "FILE", "help": text}
    options.add_field(parser, config.DataConfig, "file", **file)
    options.add_field(parser, config.DataConfig, "other")
    options.add_field(parser, config.DataConfig, "min_recall")
    group = parser.add_argument_group("data, where it is not recognised")
    for field in _NAMED:
        options.add_field(group, config.DataConfig, field, None)
    for field in _ANSWERS:
        options.add_field(group, config.ModelAnswersConfig, field, None)
    text = "all labels that a model's answers may have (default: gold labels, probabilities.LABEL)"
    options.add_plain(group, {"--labels NAME,...": text}, default="")
    text = "kind of task (default: by the labels)"
    kinds = (name for name, kind in tasks.KINDS.items() if kind.in_one_file)
    shown = "{" + ",".join(kinds) + "}"  # questions are refused with a remedy
    options.add_field(group, config.DataConfig, "kind", help=text, metavar=shown)
    group = parser.add_argument_group("training")
    text = "a preset, a part of the teacher, such as pruned:layers=3,ffn=384, or a checkpoint, "
    text += "./FOLDER (default: by the budget, or a part about as fast as TinyBERT with 4 layers)"
    student = {"flag": "--student", "metavar": "PRESET", "help": text}
    options.add_field(group, config.StudentConfig, "preset", **student)
    text = "whether to fine-tune the teacher first (default: unless its head has the labels)"
    when = {"choices": ("auto", "always", "never"), "default": "auto"}
    options.add_plain(group, {"--finetune": text}, **when)
    options.add_field(group, config.DataConfig, "class_weights")
    options.add_field(group, config.DataConfig, "truncation")
    options.add_field(group, config.FineTuneConfig, "precision")
    options.add_seed(group, "the split and the training")
    options.add_set(group, "the recipe that is written", "student.allow_weak=true")
    vocabulary_options.add(parser, "cut of a teacher of many languages, and of others where asked")
    group = parser.add_argument_group("budget, which chooses the largest student within it")
    text = "maximum median latency at the longest length, on one thread (default: none)"
    options.add_plain(group, {"--latency-ms MS": text})
    options.add_field(group, config.ExportConfig, "size_mb", metavar="MB")
    text = "maximum time of the whole command; the student gets fewer steps (default: none)"
    options.add_plain(group, {"--max-minutes MIN": text})
    measurement_options.add_device(group)
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


def _check_options(args: argparse.Namespace) -> None:
    if args.teacher is not None:
        plan.model(args.teacher, "--teacher")
    plan.existing(args.data, "--data")
    args.student = None if args.student is None else plan.student(args.student)
    if args.answers and not (args.student and config.is_checkpoint(args.student)):
        remedy = "Its vocabulary and its weights are what the student starts from."
        raise errors.ConfigError(
            "--student", "a checkpoint with --answers, ./FOLDER or an id", args.student, remedy
        )
    faults = measurement_options.device_faults(args)
    for name in _BUDGETS:
        value = getattr(args, name)
        if value is not None and not (math.isfinite(value) and value > 0):
            faults.append(errors.explain(options.flag_of(name), "a number above 0", value))
    chosen = "--answers" if args.answers else "--student" if args.student else ""
    if args.latency_ms is not None and chosen:
        remedy = "A latency chooses a part of the teacher: leave one of the two out."
        faults.append(errors.explain("--latency-ms", f"no {chosen}", "both", remedy))
    if args.drop_suspects and args.answers:
        faults.append(errors.explain("--drop-suspects", "--teacher, which finds them", "--answers"))
    if args.device == "adb" and args.latency_ms is None:
        faults.append(errors.explain("--device adb", "--latency-ms", "none"))
    if faults:
        raise errors.ConfigError("\n".join(faults))


def _earlier(folder: pathlib.Path, args: argparse.Namespace) -> results.QuickstartRecord | None:
    """The record of the run that --resume continues with equal budgets; None where none is."""
    file = folder / results.QUICKSTART_FILE
    if not args.resume or not file.is_file() or not (folder / config.RECIPE_FILE).is_file():
        return None
    record = results.read_result_file(file, results.QuickstartRecord)
    before, now = (tuple(getattr(of, name) for name in _BUDGETS) for of in (record, args))
    if before != now:
        remedy = "Resume with the same, or start again with --overwrite."
        raise errors.ConfigError("--resume, latency, size, minutes", before, now, remedy)
    return record


def _quickstart(args: argparse.Namespace) -> None:
    _check_options(args)
    from tfdistill.data import labelled_file

    name = labelled_file.name_of(args.data)
    folder = work_folder.WorkFolder(pathlib.Path(args.out or f"runs/{name}"), "run")
    folder.check(resume=args.resume, overwrite=args.overwrite)
    record = _earlier(folder.path, args)
    planned, findings = _plan(args, name, folder.path, record)
    _say(planned.notes)
    if not args.dry_run:
        _say(planned.lines())
        _run(args, planned, folder, record)
        return
    from tfdistill.run import teachers

    teachers.check_fit(planned.recipe, planned.data.task)
    _say(f"WARNING: {warning}" for warning in findings.warnings)
    lines = [*planned.lines(), "Nothing was written."]
    if args.verbose:
        lines = [config.dump_recipe(planned.recipe).rstrip(), "", *lines]
    base.show(planned.as_json(), as_json=args.json, lines=lines)


def _plan(
    args: argparse.Namespace, name: str, out: pathlib.Path, record: results.QuickstartRecord | None
) -> tuple[QuickstartPlan, DataFindings]:
    """Reads the file and plans its run, and says what it recognised; writes nothing.

    `record` is that of an earlier run, which is continued.
    """
    from tfdistill.data import labelled_file

    read = functools.partial(
        labelled_file.read_labelled_file,
        args.data,
        name,
        text=args.text_column,
        pair=args.pair_column,
        label=args.label_column,
        kind=args.kind,
        offsets=args.offsets,
        separator=args.label_separator,
        seed=args.seed,
        promise=True,
        other=None if args.other is None else pathlib.Path(args.other),
        answered=_answered(args),
        similar_together=record is None or record.similar_together,
    )
    trained = args.student is not None or args.finetune != "auto" or args.class_weights is not None
    trained |= args.drop_suspects
    bounded = args.latency_ms is not None or args.size_mb is not None
    data = read(few=not (trained or bounded or args.answers))
    findings = _findings(data)
    flags = base.Parser()
    _arguments(flags)
    _say(map(flags.in_options, [*data.notes[:-1], data.label_note]))

    from tfdistill import weights
    from tfdistill.commands import quickstart_budget, quickstart_recipe

    teacher = config.model_folder(str(args.teacher or args.student))
    checkpoint = weights.open_checkpoint(teacher, shapes_only=True)
    if data.cross_fitted and quickstart_recipe.answers_task(checkpoint, data.task)[0]:
        data = read(few=False)
        findings = _findings(data)
    _say(data.notes[-1:])  # the sets
    planned = quickstart_recipe.make_plan(args, name, checkpoint, data, out / _DATA)
    section = planned.recipe.data
    _check_files(section, data.section(out / _DATA))
    if section.train_limit or section.dev_limit:
        findings = _findings(data, section)
    _check(planned.recipe)
    _say(_recall_note(data, section.min_recall))
    return quickstart_budget.within(planned, args, None if record is None else out), findings


def _answered(args: argparse.Namespace) -> AnsweredFile | None:
    """What a model answered, where the file holds that."""
    from tfdistill.data import answered_file, model_answers

    fields = {key: v for key, v in options.section_of(args, "data.model_answers").items() if v}
    declared, labels = config.ModelAnswersConfig(**fields), options.names(args.labels)
    if args.kind in (None, model_answers.KIND):
        columns = (args.text_column, args.pair_column, args.label_column)
        return answered_file.read_answered_file(pathlib.Path(args.data), columns, declared, labels)
    if fields or labels:
        flag = options.flag_of(next(iter(fields), "labels"))
        raise errors.ConfigError(f"{flag} with --kind", model_answers.KIND, args.kind)
    return None


def _run(
    args: argparse.Namespace,
    planned: QuickstartPlan,
    folder: work_folder.WorkFolder,
    record: results.QuickstartRecord | None,
) -> None:
    from tfdistill import run

    began, recipe, out = time.monotonic(), planned.recipe, folder.path
    record = record or results.QuickstartRecord(
        estimated_seconds=planned.seconds,
        device=args.device,
        similar_together=True,
        **{name: getattr(args, name) for name in _BUDGETS},
    )
    with locks.output_lock(out) if args.out is None else contextlib.nullcontext():
        with files.temporary_folder("quickstart") as written:
            planned.data.write(written, languages=recipe.data.cut is not None)
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
    estimated = record.estimated_seconds / 60
    _say([f"estimated {estimated:.1f} minutes, took {(record.seconds or 0.0) / 60:.1f}"])


def _check_files(settings: config.DataConfig, written: Mapping[str, Any]) -> None:
    """Refuses changes of the recipe that its files, `written`, would contradict."""
    faults = [
        errors.explain(
            f"--set data.{key}",
            f"{written.get(key)!r}, as in the files that quickstart writes",
            repr(getattr(settings, key)),
            f"Use {'--data' if key in ('dir', 'file') else options.flag_of(key)} in its place.",
        )
        for key in (*_COLUMNS, "kind", "dir", "file")
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


def _recall_note(data: LabelledFile, min_recall: float | None) -> list[str]:
    """What there is to say before the training where a recall takes more texts than there are."""
    if min_recall is None or data.promising is None:
        return []
    from tfdistill.analysis import entities

    gold, names = data.sets[data.promising].labels, data.task.labels
    assert gold is not None
    counts = [len(conll.entities([names[tag] for tag in tags])) for tags in gold]
    texts, none = np.repeat(np.arange(len(counts)), counts), np.empty(0)
    masked = entities.JudgedEntities(none, none, none, np.ones(len(texts)), texts, none)
    recall = entities.find_recall(masked, min_recall)
    return [] if recall.threshold is not None else [f"WARNING: {recall.summary}"]


def _say(notes: Any) -> None:
    for note in notes:
        print(note, file=sys.stderr, flush=True)


def _check(recipe: config.Recipe, data: pathlib.Path | None = None) -> None:
    """Refuses a recipe that cannot run, before an earlier run is replaced."""
    faults = plan.fit_faults(recipe)
    if data is not None:  # where the files are until they are in the run
        named = {key: getattr(recipe.data, key) for key in ("promise_on", "other")}
        places: dict[str, Any] = {
            key: str(data / pathlib.Path(path).name) for key, path in named.items() if path
        }
        further = [(path, data / pathlib.Path(path).name) for path in recipe.data.unlabelled]
        places["unlabelled"] = [moved if moved.is_file() else path for path, moved in further]
        section = recipe.data.model_copy(update={"dir": str(data), **places})
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
        names = sorted(file.name for file in data.iterdir())
        equal, _, _ = filecmp.cmpfiles(data, out / _DATA, names, shallow=False)
        changed = [name for name in names if name not in equal]
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
        "rows of each label are cross-validated, not split, and train no student. Of a teacher of "
        "many languages the vocabulary is cut first. A "
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
