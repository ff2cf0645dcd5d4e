"""What a valid recipe still needs before it can run on this machine."""

from __future__ import annotations

import os.path
import pathlib
from typing import Any

from tfdistill import errors, manifest
from tfdistill.config.recipe import Recipe
from tfdistill.config.recipe_files import ENVIRONMENT_FILE, RECIPE_FILE, load_recipe, parse_section
from tfdistill.config.sections import BUILT_IN_DATA, STARTS, DataConfig
from tfdistill.config.short_forms import is_pruned
from tfdistill.config.stages import STAGES, Stage
from tfdistill.io import files, reading, storage

# Losses of a combination that need no more than the vectors of a sentence encoder.
_VECTOR_LOSSES = ("VectorMSE", "VectorCosine", "SimilarityKL")
RECIPE_SHA256 = "recipe_sha256"
"""The key of that checksum."""
_GENERAL = "`tfdistill run tinybert_general` makes a student that has learnt plain text"
SPLIT_FILE = "section.json"
"""Beside the sets of one labelled file in a run: the fields of a data section that read them."""


def saved_recipe(folder: str | pathlib.Path) -> Recipe | None:
    """The recipe of a run folder, None where there is none; refuses a damaged one."""
    file = pathlib.Path(folder) / RECIPE_FILE
    if not file.is_file():
        return None
    check_saved_recipe(file)
    return load_recipe(str(file))


def run_folder(source: str | None) -> pathlib.Path | None:
    """The folder of a run, or of the run around an export or a file in it; None where none is."""
    path = pathlib.Path(source or "")
    if source is None or not path.exists():
        return None
    exported = path if path.is_dir() else path.parent
    around = exported.parents[:2] if (exported / manifest.FILE_NAME).is_file() else ()
    return next((place for place in (path, *around) if (place / RECIPE_FILE).is_file()), None)


def data_of_run(source: str | None) -> DataConfig | None:
    """The data section of the run of `run_folder`; None where there is none.

    Generated data has the folder that the run keeps it in; so has data that the run split, from
    wherever the run is named, moved or not. The words are those of the run's models.
    """
    folder = run_folder(source)
    recipe = None if folder is None else saved_recipe(folder)
    if folder is None or recipe is None:
        return None
    changes: dict[str, Any] = {"vocab": "teacher", "cut": None, "augment": None}
    generated = recipe.data.dir is None and recipe.data.file is None
    data_folder = folder / "data"
    split = pathlib.Path(recipe.data.dir or "")
    was_split = split.name == data_folder.name and any(data_folder.glob("train.*"))
    if was_split or (generated and data_folder.is_dir()):
        changes["dir"] = str(data_folder)
    for key in ("promise_on", "other"):
        held_out = pathlib.Path(getattr(recipe.data, key) or "")
        if was_split and held_out.parent == split:
            changes[key] = str(data_folder / held_out.name)
    if was_split:
        changes["unlabelled"] = tuple(
            str(data_folder / pathlib.Path(path).name)
            if pathlib.Path(path).parent == split
            else path
            for path in recipe.data.unlabelled
        )
    source_file, section_file = folder / RECIPE_FILE, data_folder / SPLIT_FILE
    if recipe.data.file is not None and section_file.is_file():
        source_file = section_file
        recognised = reading.read_json_object(section_file, error=errors.ConfigError)
        changes |= {**recognised, "file": None, "dir": str(data_folder)}
        changes["metrics"] = recipe.data.metrics or recognised.get("metrics")
    values = {**recipe.data.model_dump(), **changes}
    return parse_section(DataConfig, values, source=f"{source_file}", place="data")


def check_saved_recipe(file: pathlib.Path) -> None:
    """Refuses the recipe of a run folder where the run recorded another one."""
    recorded = file.with_name(ENVIRONMENT_FILE)
    if not recorded.is_file():
        return
    digest = reading.read_json_object(recorded, error=errors.ConfigError).get(RECIPE_SHA256)
    if digest is not None and digest != files.sha256_of(file):
        raise errors.ConfigError(
            f"{file}",
            f"the recipe that {recorded.name} records",
            "another content",
            "Restore it from a copy; to change a run, copy its recipe and start another one.",
        )


def usual_max_length(source: str | None) -> int:
    """The `max_length` where none is named: that of a run or an export, else 128 or a model's."""
    usual, path = DataConfig.model_fields["max_length"].default, pathlib.Path(source or "")
    if source is None:
        return usual
    if path.exists() and (recipe := saved_recipe(path)) is not None:
        return recipe.data.max_length
    folder = path if path.is_dir() else path.parent
    if path.exists() and (folder / manifest.FILE_NAME).is_file():
        tokenizer = manifest.read_manifest(path).tokenizer
        if tokenizer is not None:
            return tokenizer.max_length
    file = pathlib.Path(model_folder(source)) / "config.json"
    try:
        positions = reading.read_json_object(file).get("max_position_embeddings")
    except errors.TfdistillError:
        return usual  # none, or damaged: an error where the model is opened
    return min(usual, positions) if type(positions) is int and positions > 0 else usual


def model_folder(source: str) -> str:
    """Finds the Hugging Face folder of a model, which may be `source` itself; reads no weights.

    `source` is a run folder (of `finetune` its teacher, otherwise its student), the folder
    ``teacher`` of a run, a folder with ``hf`` in it, a Hugging Face folder or a hub id. A run that
    has trained nothing yet is refused. A teacher that a run took as it is stays where it was.
    """
    path = pathlib.Path(source)
    candidates = (path / "student" / "hf", path / "model" / "hf", path / "hf")
    checkpoint = next((folder for folder in candidates if folder.is_dir()), None)
    if checkpoint is None and path.name == "teacher" and (run := saved_recipe(path.parent)):
        if run.student.is_teacher:
            checkpoint = path.parent / "student" / "hf"
        elif run.teacher.finetune is None and run.teacher.answers is None:
            return run.teacher.source
    recipe = saved_recipe(path) if checkpoint is None else None
    if recipe is not None:
        checkpoint = path / "teacher" / "model" / "hf"
        # Only of `finetune` is the teacher the result: elsewhere students come after it.
        students_began = (path / "stages").is_dir()
        students_began |= recipe.teacher.finetune is None
        if students_began or not checkpoint.is_dir():
            raise errors.WeightsError(
                f"run {path}", "a trained model", "none yet", "Continue it with --resume first."
            )
    return str(checkpoint or source)


def is_missing(source: str) -> bool:
    """Whether a model's name is a path that does not exist, and no name on the hub."""
    path = pathlib.Path(source).expanduser()
    explicit = source.startswith((".", "/", "~")) or source.partition("@")[0].count("/") > 1
    inside = source.count("/") == 1 and path.parent.is_dir()
    return (explicit or inside) and not path.exists()


def missing_inputs(recipe: Recipe) -> list[str]:
    """Names every input of a valid recipe that is not there, with its remedy, a sentence each."""
    faults = []
    embedded = recipe.data.task == BUILT_IN_DATA
    if recipe.data.file is not None:
        if not os.path.exists(recipe.data.file):
            faults.append(f"data.file: {recipe.data.file} is not there")
    elif recipe.data.dir is None and not embedded and recipe.data.task is not None:
        faults.append("data.dir: the task's files. Give them with --set data.dir=FOLDER")
    elif recipe.data.dir is not None and not pathlib.Path(recipe.data.dir).exists():
        faults.append(f"data.dir: {recipe.data.dir} is not there")
    absent = (path for path in recipe.data.unlabelled if not os.path.isfile(path))
    faults += [f"data.unlabelled: {path} is not there" for path in absent]
    for key in ("promise_on", "other"):
        path = getattr(recipe.data, key)
        if path is not None and not pathlib.Path(path).exists():
            faults.append(f"data.{key}: {path} is not there")
    faults += _teacher_faults(recipe) if recipe.teacher.answers is None else answers_faults(recipe)
    faults += _augment_faults(recipe)
    for key, remedy in (("preset", ""), ("initialise", f". {_GENERAL}")):
        if is_missing(path := getattr(recipe.student, key)):
            faults.append(f"student.{key}: {path} is not there{remedy}")
    if recipe.student.keep_head and recipe.student.start in STARTS:
        faults.append(
            "student.keep_head: a finished student has a head to keep. Name its folder with "
            "--set student.initialise=FOLDER"
        )
    choice = recipe.data.vocab
    if choice == "teacher" and recipe.teacher.source.startswith("preset:"):
        faults.append("data.vocab: a preset has none. Use --set data.vocab=train:SIZE or a file")
    elif choice != "teacher" and not choice.startswith("train:") and not os.path.isfile(choice):
        faults.append(f"data.vocab: {choice} is not there")
    words = recipe.data.cut and recipe.data.cut.languages_of
    if words and not os.path.isfile(words):
        faults.append(f"data.cut.languages_of: {words} is not there")
    used = sorted(recipe.used_stages.items())
    texts = {f"stages.{name}.corpus": stage.corpus for name, stage in used if stage.on_corpus}
    if recipe.teacher.pretrain is not None:
        texts["teacher.pretrain.corpus"] = recipe.teacher.pretrain.corpus
    for key, paths in texts.items():
        if not paths and not embedded:
            faults.append(f"{key}: plain text. Give it with --set {key}=[FILE,...]")
            if key in [f"stages.{name}.corpus" for name, stage in used if stage.kind == "general"]:
                faults[-1] += f". {_GENERAL}: --set student.initialise=FOLDER, and other variants"
        absent = (path for path in paths if not storage.located(path).exists())
        faults += [f"{key}: {path} is not there" for path in absent]
    return faults


def _augment_faults(recipe: Recipe) -> list[str]:
    settings = recipe.data.augment
    augmented = sorted(name for name, stage in recipe.used_stages.items() if stage.augmented)
    if not augmented:
        return []
    if settings is None:
        return [
            f"stages.{augmented[0]}.augmented: learns from an augmented training set, and "
            "data.augment does not say how to make it"
        ]
    if settings.vectors is not None and not os.path.isfile(settings.vectors):
        return [f"data.augment.vectors: {settings.vectors} is not there"]
    return []


def _teacher_faults(recipe: Recipe) -> list[str]:
    named = {
        "teacher.source": recipe.teacher.source,
        "teacher.general": recipe.teacher.general,
        "data.augment.masked_lm": recipe.data.augment and recipe.data.augment.masked_lm,
    }
    faults = [
        f"{key}: {path} is not there" for key, path in named.items() if path and is_missing(path)
    ]
    if faults:
        return faults
    if not recipe.teacher.source.startswith("preset:") or recipe.teacher.pretrain is not None:
        return []
    if recipe.data.task is None:
        return [
            "teacher.pretrain: a preset knows nothing, and there is no task to train it on. "
            "Name a pre-trained teacher, or say how to pre-train it"
        ]
    alone = recipe.data.augment is not None and recipe.data.augment.masked_lm is None
    return [
        f"teacher.pretrain: stages.{name} ({stage.kind}) needs a masked language model, "
        "and a preset is none before it is pre-trained"
        for name, stage in recipe.used_stages.items()
        if (stage.traits.predicts_words and stage.traits.has_teacher) or (alone and stage.augmented)
    ]


def answers_faults(recipe: Recipe) -> list[str]:
    """Finds stages, starts and vocabularies that need a teacher's model, and missing files."""
    answers = recipe.teacher.answers
    assert answers is not None
    faults = [
        f"teacher.answers.files: {path} is not there"
        for path in answers.files
        if not storage.located(path).is_file()
    ]
    if recipe.data.task is None:
        faults.append("teacher.answers: answers belong to a task, and data.task is null")
    embeds = recipe.data.gives_vectors
    if embeds and len(answers.files) > 1:
        faults.append(
            f"teacher.answers.files: {len(answers.files)} files are an ensemble, and vectors of "
            "several models are in several spaces. Name one file; join those of one model into one"
        )
    if embeds and answers.temperatures:
        faults.append("teacher.answers.temperatures: vectors have none. Leave them out")
    kinds = [
        name for name, kind in STAGES.items() if kind.answers_alone and kind.for_vectors == embeds
    ]
    for name, stage in recipe.used_stages.items():
        why = _needs_model(stage)
        if why is not None:
            faults.append(
                f"stages.{name}: a stage of kind {stage.kind} {why}, and teacher.answers holds "
                f"answers alone. Use a stage of kind {', '.join(kinds)}, or a teacher model"
            )
    student = recipe.student
    if is_pruned(student.preset) or student.start in ("pruned", "teacher", "layers"):
        said = student.preset if is_pruned(student.preset) else f"initialise: {student.start}"
        faults.append(
            f"student.preset: {said} is made of a teacher model, and teacher.answers holds answers "
            f"alone. Name a checkpoint (./FOLDER){' or' if embeds else ', static or'} a preset"
        )
    elif recipe.data.vocab == "teacher" and student.start in STARTS:
        faults.append(
            "data.vocab: answers come without a vocabulary, and a student that starts at random "
            "has none. Use --set data.vocab=train:SIZE or a vocab.txt"
        )
    return faults


def _needs_model(stage: Stage) -> str | None:
    """What a stage takes from a teacher besides answers to the task's texts, or None."""
    if not stage.traits.has_teacher or stage.own_teacher:
        return None
    if stage.on_corpus:
        return "asks the teacher about the text of a corpus"
    if stage.augmented:
        return "asks the teacher about augmented texts"
    if "losses" in stage.traits.keys:
        named = [loss.get("loss") for loss in stage.losses.values()]
        if all(name in _VECTOR_LOSSES for name in named):
            return None
    if not stage.traits.answers_alone:
        return "compares the student with the teacher's layers"
    return None
