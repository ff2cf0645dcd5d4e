"""The plan of a recipe: checked before TensorFlow is imported, then printed or run."""

from __future__ import annotations

import argparse
import logging
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tfdistill import config, errors, manifest, models
from tfdistill.commands import base, options
from tfdistill.data import from_config, unlabelled
from tfdistill.io import work_folder
from tfdistill.weights import folders

if TYPE_CHECKING:
    from tfdistill import tasks

    Sets = tuple[tasks.TaskSpec, tasks.Examples, tasks.Examples]

_log = logging.getLogger(__name__)

_PRESET = "preset:"
_FOLDER = "a Hugging Face folder or hub id, or a run folder"
_EXPORTED = "a .tflite file, an export or a run folder"
_MODULES = "modules.json"  # of sentence-transformers: the encoder may lie in any folder


def existing(path: str, option: str, *, hub: bool = True) -> None:
    """Refuses a path that does not exist; with `hub` a name on the hub passes."""
    wanted = pathlib.Path(path)
    if not (config.is_missing(path) if hub else not wanted.exists()):
        return
    there = sorted(p.name for p in wanted.parent.iterdir()) if wanted.parent.is_dir() else []
    near = errors.nearest(wanted.name, there)
    hint = near if near.startswith("Did") else "Check the path."
    raise errors.ConfigError(option, "an existing path", f"{path!r}", hint)


def no_file_of_others(path: str, option: str, *, exported: bool = False) -> None:
    """Refuses the files of other programs by their names, whether they exist or not.

    `exported`: the command takes exported files, too.
    """
    wanted, place = pathlib.Path(path), _EXPORTED if exported else _FOLDER
    other = None if wanted.is_dir() else folders.format_of_file(wanted.name)
    if other is None or (exported and wanted.suffix == ".tflite"):
        return
    received, remedy = other
    if exported:
        remedy += " `tfdistill export` writes the .tflite file."
    raise errors.ConfigError(option, place, f"{path!r}: {received}", remedy)


def model(
    path: str, option: str, *, exported: bool = False, roberta: bool = False, hub: bool = True
) -> None:
    """Refuses what no model can be loaded from; reads no weights.

    A preset and, with `hub`, a name on the hub pass. `exported`, `roberta`: the command takes
    exports, and RoBERTas and CamemBERTs, too.
    """
    if path.startswith(_PRESET):
        return
    no_file_of_others(path, option, exported=exported)
    existing(path, option, hub=hub)
    folder = pathlib.Path(path)
    if not folder.is_dir():
        if folder.exists() and not exported:
            remedy = "Name the folder that holds it."
            raise errors.ConfigError(option, _FOLDER, f"the file {path!r}", remedy)
        return
    descriptions = [folder / folders.DESCRIPTION, folder / "student" / folders.DESCRIPTION]
    if exported:
        descriptions.append(folder / manifest.FILE_NAME)
    if any(file.is_file() for file in descriptions):
        return
    from tfdistill.weights import checkpoint, hf_config  # safetensors: who measures has none

    folder = pathlib.Path(config.model_folder(path))
    if (folder / checkpoint.CONFIG_FILE).is_file() or not (folder / _MODULES).is_file():
        checkpoint.read_kind(folder, also=hf_config.ROBERTA_KINDS if roberta else ())


def student(text: str, option: str = "--student") -> str:
    """What --student names: a checked folder with a checkpoint, or the shape that was typed."""
    if not config.is_checkpoint(text):
        no_file_of_others(text, option)
        return text
    model(text, option)
    return config.model_folder(text)


def check_data(
    values: dict[str, Any], splits: Sequence[str], *, may_hide_labels: bool = False
) -> config.DataConfig:
    """Validates a data section that options describe, and its files; see `from_config.check`."""
    settings = options.data_section(values)
    if settings.dir is not None and not pathlib.Path(settings.dir).exists():
        raise errors.ConfigError("data.dir", "an existing path", repr(settings.dir))
    from_config.check(settings, splits, may_hide_labels=may_hide_labels)
    return settings


def with_answers(args: argparse.Namespace, settings: config.DataConfig) -> config.DataConfig:
    """Returns a data section with what options say of a large model's answers."""
    named = options.section_of(args, "data.model_answers")
    declared = settings.model_answers or config.ModelAnswersConfig()
    before, now = declared.answered_by, named.get("answered_by")
    if None not in (before, now) and before != now:
        _log.warning(f"answers of {now}: the training texts were answered by {before}")
    values = {"model_answers": {**declared.model_dump(), **named}}
    return options.data_section({**settings.model_dump(), **values}) if named else settings


def run(
    recipe: config.Recipe,
    args: argparse.Namespace,
    work: str,
    lines_of: Callable[[Any, pathlib.Path], Sequence[str]],
    *,
    out: str | pathlib.Path | None = None,
    **options: Any,
) -> None:
    """Checks a recipe; then does `work`, a function of `tfdistill.run`, or prints the plan.

    All that does not exist is named at once: paths, presets, task, columns. Data that would
    mislead are refused unless an earlier run is continued. No weights are read.
    """
    target = pathlib.Path(args.out if out is None else out)
    faults = [*config.missing_inputs(recipe), *_model_faults(recipe)]
    faults += _task_faults(recipe, and_files=not faults)
    if faults:
        head = [f"{len(faults)} faults."] if len(faults) > 1 else []
        raise errors.ConfigError("\n  - ".join([*head, *faults]))
    work_folder.WorkFolder(target, "run").check(resume=args.resume, overwrite=args.overwrite)
    if args.dry_run or not args.resume:
        from tfdistill import analysis

        settings, sets = recipe.data, None  # where files are generated
        if settings.task is not None and (settings.dir or settings.file):
            sets = from_config.train_and_dev(settings)
        findings = analysis.DataFindings() if sets is None else analysis.check_data(*sets)
        if not args.resume:
            findings.check()
        if args.dry_run:
            trains = work != "finetune"
            _show(recipe, target, sets, findings.warnings, trains=trains, as_json=args.json)
            return
    from tfdistill import run

    begin = getattr(run, work)
    record = begin(recipe, target, resume=args.resume, overwrite=args.overwrite, **options)
    lines = lines_of(record, target)
    base.show(record.model_dump(mode="json"), as_json=args.json, lines=lines)


def _show(
    recipe: config.Recipe,
    out: pathlib.Path,
    sets: Sets | None,
    warnings: Sequence[str],
    *,
    trains: bool,
    as_json: bool,
) -> None:
    """Prints what a run would do: data, models, stages, files; whether it `trains` a student."""
    from tfdistill.run import durations, teachers

    check_fit(recipe)
    settings = recipe.data
    task = None if sets is None else sets[0]
    if sets is None and settings.task is not None:
        task = from_config.declared_task(settings)
    teachers.check_fit(recipe, task)
    data = _facts(recipe, sets)
    timed = sets is not None and trains
    seconds = durations.seconds_of(recipe, data, sets[1]) if sets is not None and trains else None
    used = list(dict.fromkeys(name for v in recipe.variants.values() for name in v.stages))
    stages = {name: _stage(recipe.stages[name], data) for name in used}
    variants = {name: " -> ".join(variant.stages) for name, variant in recipe.variants.items()}
    plain = recipe.model_dump(mode="json")
    result = {"recipe": plain, "data": data, "stages": stages, "out": str(out)}
    result |= {"estimated_seconds": seconds}
    finetune, answers = recipe.teacher.finetune, recipe.teacher.answers
    answered = "" if answers is None else f"answers in {', '.join(answers.files)}"
    student = [
        f"student   {recipe.student.preset}, starts from {recipe.student.initialise}",
        *(f"stage     {name}: {text}" for name, text in stages.items()),
        *(f"variant   {name}: {text}" for name, text in variants.items()),
    ]
    lines = [
        f"data      {', '.join(f'{key} {value}' for key, value in data.items())}",
        f"teacher   {recipe.teacher.source or answered}"
        + ("" if finetune is None else f", fine-tuned: {_stage(finetune, data)}"),
        *(student if trains else ()),
        f"seeds     {', '.join(map(str, recipe.seeds))}",
        *(f"vocab     {line}" for line in _vocabulary(recipe, sets)),
        *([f"time      {_time(recipe, seconds)}"] if timed else ()),
        f"output    {out}",
        *(f"WARNING: {warning}" for warning in warnings),
        "Nothing was written.",
    ]
    base.show(result, as_json=as_json, lines=lines)


def _vocabulary(recipe: config.Recipe, sets: Sets | None) -> list[str]:
    """How a vocabulary is cut that the run can read now, and what that costs."""
    if recipe.data.cut is None or sets is None or not pathlib.Path(recipe.teacher.source).is_dir():
        return []
    from tfdistill.run import cutting

    _, train, dev = sets
    return cutting.planned(recipe, train, dev)


def _time(recipe: config.Recipe, seconds: float | None) -> str:
    texts = ", ".join(name for name, stage in recipe.used_stages.items() if stage.on_corpus)
    about = "known where teacher.source is a folder"
    if seconds is not None:
        about = f"about {seconds / 60:.1f} minutes on this machine"
    return f"{about}, and what {texts} takes on plain text" if texts else about


def _facts(recipe: config.Recipe, sets: Sets | None) -> dict[str, Any]:
    """The task, its metric and, where the files exist, how many examples there are at most."""
    settings = recipe.data
    if settings.task is None:
        return {"task": "none: plain text"}
    if sets is None:
        return {"task": settings.task, "files": "generated"}
    task, train, dev = sets
    facts = {"task": settings.task, "metric": task.primary_metric}
    facts |= {"files": settings.dir or settings.file, "train": len(train), "dev": len(dev)}
    if settings.augment and any(stage.augmented for stage in recipe.used_stages.values()):
        from tfdistill.augmentation import copies_for

        copies = settings.augment.copies or copies_for(task.name)
        facts["augmented"] = len(train) * (1 + copies * (1 if train.pairs is None else 2))
    if settings.unlabelled:
        texts = unlabelled.read_unlabelled(task, settings.unlabelled)
        facts["unlabelled"] = len(texts.examples)
    return facts


def check_fit(recipe: config.Recipe) -> None:
    """Refuses a recipe whose task, models, losses and files do not fit together."""
    faults = fit_faults(recipe)
    if faults:
        raise errors.ConfigError("\n  - ".join([f"{recipe.name} does not fit together:", *faults]))


def fit_faults(recipe: config.Recipe) -> list[str]:
    """What of a recipe's task, models, losses and files does not fit together."""
    faults = [*_model_faults(recipe), *_task_faults(recipe)]
    if not faults:
        from tfdistill.run import shapes

        faults = shapes.shape_faults(recipe)
    return faults


def _model_faults(recipe: config.Recipe) -> Iterator[str]:
    """Presets that do not exist, and models that cannot be loaded, each with its key.

    `config.missing_inputs` lists paths that do not exist.
    """
    named = {
        "student.preset": "" if recipe.student.is_teacher else recipe.student.preset,
        "teacher.source": "" if recipe.teacher.answers else recipe.teacher.source,
        "student.initialise": recipe.student.initialise,
        "data.augment.masked_lm": recipe.data.augment and recipe.data.augment.masked_lm,
    }
    for key, source in named.items():
        if not source or source in config.STARTS or config.is_missing(source):
            continue
        try:
            student(source, key) if key == "student.preset" else model(source, key)
        except errors.TfdistillError as error:
            yield str(error)
            continue
        yield from config.short_form_faults(source)
        short_forms = (config.is_checkpoint, config.is_pruned, config.is_static)
        is_preset = key == "student.preset" and not any(kind(source) for kind in short_forms)
        name, presets = source.removeprefix(_PRESET), models.presets()
        if name in presets or not (is_preset or source.startswith(_PRESET)):
            continue
        near = errors.nearest(name, presets)
        hint = f"{near} " if near.startswith("Did") else ""
        if pathlib.Path(name).is_dir():
            hint = f"A folder is written ./{name}. "
        remedy = f"{hint}Try `tfdistill recipes presets`."
        yield errors.explain(key, "a known preset", repr(name), remedy)


def _task_faults(recipe: config.Recipe, *, and_files: bool | None = None) -> list[str]:
    """What is wrong with the task; with `and_files` in its files, with None as no file says it."""
    if recipe.data.task is None or (and_files is None and recipe.data.file is not None):
        return []
    try:
        from_config.declared_task(recipe.data)
        if and_files:
            from_config.check(recipe.data)
    except errors.TfdistillError as error:
        return [str(error)]
    return []


def _stage(stage: Any, data: dict[str, Any]) -> str:
    kind = getattr(stage, "kind", None)  # none of a fine-tuning
    num_train, least = data.get("train"), stage.min_steps
    if kind is not None and not stage.on_corpus and not stage.needs_labels():
        num_train = num_train and num_train + data.get("unlabelled", 0)
    num_train = data.get("augmented") if getattr(stage, "augmented", False) else num_train
    steps = getattr(stage, "steps", None)
    long = f"{stage.epochs} epochs" if steps is None else f"{steps} steps"
    if steps is None and num_train is not None and not getattr(stage, "on_corpus", False):
        long += f" of about {-(-num_train // stage.batch_size)} steps"
    if steps is None and least is not None:
        fewest = "as many steps as its width needs" if least == "auto" else f"{least} steps"
        long += f", at least {fewest}"
    rate = "by width" if stage.learning_rate is None else f"{stage.learning_rate:g}"
    parts = [kind, long, f"batches of {stage.batch_size}", f"learning rate {rate}"]
    return ", ".join(part for part in parts if part)
