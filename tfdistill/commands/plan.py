"""What is checked before TensorFlow is imported, and the plan that --dry-run prints."""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tfdistill import config, errors, manifest, models
from tfdistill.commands import base
from tfdistill.data import from_config, unlabelled
from tfdistill.io import work_folder
from tfdistill.weights import folders

if TYPE_CHECKING:
    from tfdistill import analysis

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
    exports, and models of RoBERTa's family, too.
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
    settings = config.parse_section(config.DataConfig, values, source="command line", place="data")
    if settings.dir is not None and not pathlib.Path(settings.dir).exists():
        raise errors.ConfigError("data.dir", "an existing path", repr(settings.dir))
    from_config.check(settings, splits, may_hide_labels=may_hide_labels)
    return settings


def check(recipe: config.Recipe, out: str | pathlib.Path, args: argparse.Namespace) -> None:
    """Checks what a run needs, and its data; reads no weights.

    All that does not exist is named at once: paths, presets, task, columns. Data that would mislead
    are refused unless an earlier run is continued.
    """
    faults = [*preset_faults(recipe), *config.missing_inputs(recipe), *source_faults(recipe)]
    if recipe.data.task is not None:
        try:
            from_config.declared_task(recipe.data)
            if not faults:
                from_config.check(recipe.data)
        except errors.TfdistillError as error:
            faults.append(str(error))
    if faults:
        head = [f"{len(faults)} faults."] if len(faults) > 1 else []
        raise errors.ConfigError("\n  - ".join([*head, *faults]))
    work_folder.WorkFolder(pathlib.Path(out), "run").check(
        resume=args.resume, overwrite=args.overwrite
    )
    if not args.resume:
        data_findings(recipe.data).check()


def data_findings(settings: config.DataConfig) -> analysis.DataFindings:
    """What misleads in a data section's files; nothing where they are generated."""
    from tfdistill import analysis

    if settings.task is None or not (settings.dir or settings.file):
        return analysis.DataFindings()
    return analysis.check_data(*from_config.train_and_dev(settings))


def preset_faults(recipe: config.Recipe) -> Iterator[str]:
    """Presets of a recipe that do not exist, each with its key and the nearest name."""
    named = {"student.preset": recipe.student.preset}
    if recipe.teacher.source.startswith(_PRESET):
        named["teacher.source"] = recipe.teacher.source.removeprefix(_PRESET)
    presets = models.presets()
    preset = recipe.student.preset
    if recipe.student.is_teacher:
        del named["student.preset"]
    elif config.is_checkpoint(preset) or config.is_pruned(preset) or config.is_static(preset):
        del named["student.preset"]
        yield from config.short_form_faults(preset)
    for key, name in named.items():
        if name not in presets:
            near = errors.nearest(name, presets)
            hint = f"{near} " if near.startswith("Did") else ""
            if pathlib.Path(name).is_dir():
                hint = f"A folder is written ./{name}. "
            yield errors.explain(
                key, "a known preset", repr(name), f"{hint}Try `tfdistill recipes presets`."
            )


def source_faults(recipe: config.Recipe) -> Iterator[str]:
    """Models of a recipe that cannot be loaded; `config.missing_inputs` lists absent ones."""
    named = {
        "teacher.source": "" if recipe.teacher.answers else recipe.teacher.source,
        "student.preset": recipe.student.preset,
        "student.initialise": recipe.student.initialise,
        "data.augment.masked_lm": recipe.data.augment and recipe.data.augment.masked_lm,
    }
    shapes = (*models.presets(), *config.STARTS)
    for key, source in named.items():
        if not source or source in shapes or config.is_missing(source):
            continue
        try:
            student(source, key) if key == "student.preset" else model(source, key)
        except errors.TfdistillError as error:
            yield str(error)


def show(recipe: config.Recipe, out: str | pathlib.Path, args: argparse.Namespace) -> None:
    """Prints what a run would do: data, models, stages, files."""
    check_fit(recipe)
    fit_weights(recipe)
    data = _data(recipe.data)
    used = list(dict.fromkeys(name for v in recipe.variants.values() for name in v.stages))
    stages = {name: _stage(recipe.stages[name], data) for name in used}
    variants = {name: " -> ".join(variant.stages) for name, variant in recipe.variants.items()}
    result = {
        "recipe": recipe.model_dump(mode="json"),
        "data": data,
        "stages": stages,
        "out": str(out),
    }
    finetune = recipe.teacher.finetune
    lines = [
        f"data      {', '.join(f'{key} {value}' for key, value in data.items())}",
        f"teacher   {recipe.teacher.source or _answers(recipe)}"
        + ("" if finetune is None else f", fine-tuned: {_stage(finetune, data)}"),
        f"student   {recipe.student.preset}, starts from {recipe.student.initialise}",
        *(f"stage     {name}: {text}" for name, text in stages.items()),
        *(f"variant   {name}: {text}" for name, text in variants.items()),
        f"seeds     {', '.join(map(str, recipe.seeds))}",
        f"output    {out}",
        *(f"WARNING: {warning}" for warning in data_findings(recipe.data).warnings),
        "Nothing was written.",
    ]
    base.show(result, as_json=args.json, lines=lines)


def check_fit(recipe: config.Recipe) -> None:
    """Refuses a recipe whose task, models, losses and files do not fit together."""
    faults = [*preset_faults(recipe), *source_faults(recipe), *_task_faults(recipe)]
    if not faults:
        from tfdistill.run import shapes

        faults = shapes.shape_faults(recipe)
    if faults:
        raise errors.ConfigError("\n  - ".join([f"{recipe.name} does not fit together:", *faults]))


def _task_faults(recipe: config.Recipe) -> list[str]:
    """What is wrong with the task, as far as no file says it."""
    if recipe.data.task is None or recipe.data.file is not None:
        return []
    try:
        from_config.declared_task(recipe.data)
    except errors.TfdistillError as error:
        return [str(error)]
    return []


def fit_weights(recipe: config.Recipe) -> None:
    """Fits the headers of the weights to their models, as the run will fit the weights."""
    from tfdistill.run import teachers

    task = None
    if recipe.data.task is not None:
        settings = recipe.data
        source = None if settings.dir is None else from_config.source_of(settings)
        declared = from_config.declared_task(settings)
        task = declared if source is None else from_config.task_of(settings, source)
    teachers.check_fit(recipe, task)


def _answers(recipe: config.Recipe) -> str:
    answers = recipe.teacher.answers
    return "" if answers is None else f"answers in {', '.join(answers.files)}"


def _data(settings: config.DataConfig) -> dict[str, Any]:
    """The task, its metric and, where the files exist, how many examples there are."""
    if settings.task is None:
        return {"task": "none: plain text"}
    facts: dict[str, Any] = {"task": settings.task}
    if not (settings.dir or settings.file):
        return {**facts, "files": "generated"}
    task, train, dev = from_config.train_and_dev(settings)
    facts |= {"metric": task.primary_metric, "files": settings.dir or settings.file}
    facts |= {"train": len(train), "dev": len(dev)}
    if settings.unlabelled:
        facts["unlabelled"] = len(unlabelled.read_unlabelled(task, settings.unlabelled).examples)
    return facts


def _stage(stage: Any, data: dict[str, Any]) -> str:
    """What a fit takes: its kind, epochs or steps, batch size and rate."""
    kind = getattr(stage, "kind", None)  # none of a fine-tuning
    num_train, least = data.get("train"), stage.min_steps
    if kind is not None and not stage.on_corpus and not stage.needs_labels():
        num_train = num_train and num_train + data.get("unlabelled", 0)
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
