"""A run cuts the vocabulary of its models first, once: `data.cut` of its recipe.

The models that the recipe names, as far as they read the teacher's vocabulary, are written as
Hugging Face folders into ``data/cut`` of the run. Everything after that uses these.
"""

from __future__ import annotations

import dataclasses
import logging
import pathlib
from collections.abc import Iterator, Mapping

import numpy as np

from tfdistill import config, results, tasks, weights
from tfdistill.compress import languages, vocabulary
from tfdistill.data import columns, from_config
from tfdistill.io import files, ledger
from tfdistill.run import corpora, task_models
from tfdistill.tokenization.tokenizer import Tokenizer

_log = logging.getLogger(__name__)

FOLDER = pathlib.PurePath("data", "cut")
RECORD = "vocabulary.json"
_TEACHER = ("teacher", "source")
_COMPARED = 100  # texts whose ids are compared when a folder is written
Sets = tuple[tasks.Examples, tasks.Examples, tasks.Examples | None]


def record_of(root: pathlib.Path) -> results.VocabularyCut | None:
    """What a run cut away; None where it cut nothing."""
    return results.read_finished(root / FOLDER / RECORD, results.VocabularyCut)


def with_cut_models(recipe: config.Recipe, root: pathlib.Path) -> config.Recipe:
    """A recipe with the models that its run has cut, in the place of those that it names."""
    if recipe.data.cut is None:
        return recipe
    values = recipe.model_dump()
    values["data"]["cut"] = None
    for section, key in _models_of(recipe):
        folder = _folder_of(root, (section, key))
        if _is_whole(folder):
            values[section][key] = str(folder / "hf")
    return config.Recipe.model_validate(values)


def cut_models(recipe: config.Recipe, root: pathlib.Path, sets: Sets) -> config.Recipe:
    """Cuts the models of a recipe, unless that is done; returns `with_cut_models`.

    `sets` are the training, the development and the unlabelled texts; the first and the last choose
    the pieces.
    """
    done = record_of(root) is not None and _is_whole(_folder_of(root, _TEACHER))
    if recipe.data.cut is None or done:
        return with_cut_models(recipe, root)
    train, dev, further = sets
    settings = recipe.data
    tokenizer = corpora.tokenizer_of(settings, recipe.teacher.source)
    texts = texts_of(train, further)
    choice = languages.choose(tokenizer, texts, **recipe.data.cut.model_dump())
    _log.info(choice.note)
    for place, source in _models_of(recipe).items():
        folder = _folder_of(root, place)
        loaded = None if _is_whole(folder) else _opened(recipe, place, source, train.spec)
        if loaded is None or loaded.tokenizer is None or loaded.tokenizer.vocab != tokenizer.vocab:
            continue
        pruned = vocabulary.keep_tokens(loaded.model, loaded.tokenizer, choice.ids)
        with files.atomic_folder(folder) as temporary:
            weights.save_hf(
                pruned.model,
                temporary / "hf",
                labels=loaded.labels or None,
                tokenizer=pruned.tokenizer,
                texts=texts[:_COMPARED],
                max_length=loaded.max_length,
            )
            ledger.write_checksums(temporary)
    read = {"development": None if settings.cross_fitted else dev}
    read["test"] = from_config.test_examples(settings, root / "data")
    described = record(tokenizer, choice, read)
    for line in described.lines[1:]:
        _log.info(line.strip())
    results.write_result_file(described, root / FOLDER / RECORD)
    return with_cut_models(recipe, root)


def _models_of(recipe: config.Recipe) -> dict[tuple[str, str], str]:
    """Section and key of a recipe -> the model there, of those that may read its vocabulary."""
    teacher, student = recipe.teacher, recipe.student
    named = {_TEACHER: teacher.source, ("teacher", "general"): teacher.general or ""}
    if config.is_checkpoint(student.preset):
        named["student", "preset"] = student.preset
    if student.initialise not in config.STARTS:
        named["student", "initialise"] = student.initialise
    return {place: source for place, source in named.items() if source}


def _folder_of(root: pathlib.Path, place: tuple[str, str]) -> pathlib.Path:
    return root / FOLDER / "-".join(place)


def _is_whole(folder: pathlib.Path) -> bool:
    """Whether a model is there: a run removes it when it has its student."""
    names = ledger.recorded(folder)
    return bool(names) and all((folder / name).is_file() for name in names)


def _opened(
    recipe: config.Recipe, place: tuple[str, str], source: str, task: tasks.TaskSpec
) -> weights.LoadedModel:
    """Opens a model with the head that the run needs of it."""
    stages = recipe.used_stages.values()
    section, key = place
    answers = recipe.student.keep_head if section == "student" else recipe.teacher.finetune is None
    if answers and key != "general":
        return task_models.open_for_task(source, task)
    if any(stage.traits.predicts_words and stage.traits.has_teacher for stage in stages):
        nsp = any(stage.next_sentence for stage in stages)
        return weights.load_masked_lm(source, next_sentence=nsp)
    if weights.sentence_head(source) is not None:
        return weights.load_embedder(source)
    return weights.load_model(source, "none")


def planned(recipe: config.Recipe, train: tasks.Examples, dev: tasks.Examples) -> list[str]:
    """What a run will keep, as its training texts choose it, and what that costs: lines."""
    assert recipe.data.cut is not None
    tokenizer = corpora.tokenizer_of(recipe.data, recipe.teacher.source)
    choice = languages.choose(tokenizer, texts_of(train), **recipe.data.cut.model_dump())
    cross_fitted = recipe.data.cross_fitted
    described = record(tokenizer, choice, {"development": None if cross_fitted else dev})
    return [choice.note, *(line.strip() for line in described.lines[1:])]


def record(
    tokenizer: Tokenizer,
    choice: languages.VocabularyChoice,
    sets: Mapping[str, tasks.Examples | None],
) -> results.VocabularyCut:
    """Describes a cut, and how the texts of sets fare that did not choose it."""
    return results.VocabularyCut(
        num_pieces=len(choice.ids),
        num_pieces_before=choice.num_before,
        words_of=choice.words_of,
        rows=tuple(_rows(tokenizer, choice, sets)),
    )


def _rows(
    tokenizer: Tokenizer,
    choice: languages.VocabularyChoice,
    sets: Mapping[str, tasks.Examples | None],
) -> Iterator[results.CutTexts]:
    part = tokenizer.subset(choice.ids)
    for name, examples in sets.items():
        if examples is None:
            continue
        rows = {"": range(len(examples))}
        if named := columns.languages_of(examples):
            rows |= {
                each: np.flatnonzero(np.array(named) == each) for each in sorted({*named} - {""})
            }
        for language, indices in rows.items():
            texts = texts_of(examples.select(indices))
            counts = vocabulary.coverage(tokenizer, part, choice.ids, texts)
            yield results.CutTexts(texts=name, language=language, **dataclasses.asdict(counts))


def texts_of(*sets: tasks.Examples | None) -> list[str]:
    """The texts of sets, second ones included."""
    present = [examples for examples in sets if examples is not None]
    return [text for each in present for text in (*each.texts, *(each.pairs or ()))]
