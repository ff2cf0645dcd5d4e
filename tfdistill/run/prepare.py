"""From a data section to encoded sets: task, files, vocabulary, unlabelled and augmented texts."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from tfdistill import analysis, augmentation, config, errors, losses, tasks, weights
from tfdistill.data import from_config, labelled_file, task_data, unlabelled
from tfdistill.data.task_data import TaskData, TextData
from tfdistill.io import files
from tfdistill.run import corpora, cutting, digests, soft_labels
from tfdistill.tasks import parquet
from tfdistill.tokenization.tokenizer import Tokenizer

_log = logging.getLogger(__name__)


def load_data(
    path: files.Path | parquet.Frame,
    tokenizer: str | os.PathLike[str],
    *,
    task: str | None = None,
    text_column: str | None = None,
    pair_column: str | None = None,
    label_column: str | None = None,
    kind: str | None = None,
    max_length: int | None = None,
    seed: int = 1,
    allow_weak: bool = False,
    **settings: Any,
) -> TaskData:
    """Reads and encodes the data of a task, as `tfdistill distill` does.

    Args:
      path: A folder with a file for each split; or one labelled file, a pandas DataFrame or a
        Dataset of Hugging Face, whose columns and kind are recognised and whose development and
        test sets are split off.
      tokenizer: The model whose tokenizer is used, in the forms of `load_teacher`, or a run folder;
        or a vocabulary file.
      task: The name of a built-in task; of your own any name, or none.
      text_column: The column of the text, for a task of your own.
      pair_column: The column of the second text.
      label_column: The column of the label.
      kind: "classification", "regression", "multi_label", "token", "span" or "embedding".
      max_length: The longest text in tokens; None: that of the run that `tokenizer` is,
        else 128, or the positions of the model where they are fewer.
      seed: Seed of the order of the training set, and of the split of one file.
      allow_weak: Whether words that the tokenizer does not know may be many.
      **settings: Further keys of the section `data` of a recipe, such as ``unlabelled``; not
        `augment`, which only a run makes.

    Returns:
      The task and its sets: `train`, `dev` and `test` are batches.

    Raises:
      ConfigError: If a setting is not valid.
      DataError: If a file is missing, malformed, does not fit the task or would mislead.
      VocabularyError: If the vocabulary is missing or malformed.
      WeightsError: If there is no such model.

    Examples:
      >>> data = tfdistill.load_data("glue/SST-2", tokenizer="teacher", task="sst2")
      >>> data.task.labels, data.test is None
      (('negative', 'positive'), True)
    """
    errors.check_types(tokenizer=(tokenizer, (str, os.PathLike)))
    model, choice = os.fspath(tokenizer), "teacher"
    if pathlib.Path(model).is_file():
        choice = model
    length = max_length or config.usual_max_length(model)
    with files.temporary_folder("data") as folder:
        table = parquet.path_of(path, folder)
        place = "file" if pathlib.Path(table).is_file() else "dir"
        values = {
            "task": task or labelled_file.name_of(table),
            place: os.fspath(table),
            "split_seed": seed,
            "text_column": text_column,
            "pair_column": pair_column,
            "label_column": label_column,
            "kind": kind,
            "vocab": choice,
            "max_length": length,
            "doc_stride": max(length // 2, 1),
            **settings,
        }
        section = config.parse_section(config.DataConfig, values, source="load_data", place="data")
        if section.augment:
            remedy = "Leave it out, or run a recipe: `tfdistill run`."
            raise errors.ConfigError("data.augment", "none in load_data", "augment", remedy)
        from_config.check(section)
        spec, train, dev = from_config.train_and_dev(section, folder / "data")
        test = from_config.test_examples(section, folder / "data")
        source = from_config.source_of(section, folder / "data")
        further = _unlabelled(section, spec, source, train)
    words = corpora.tokenizer_of(section, config.model_folder(model))
    text = TextData(settings=section, seed=seed, tokenizer=words, task=None)
    data = read_sets(text, spec, train, dev, allow_weak=allow_weak)
    data = _with_unlabelled(data, further)
    if test is None:
        return data
    return dataclasses.replace(data, test=task_data.to_evaluate(data.encode(test)))


def prepare(
    recipe: config.Recipe, folder: pathlib.Path
) -> tuple[TextData, Mapping[str, corpora.Corpus], soft_labels.SoftLabels | None]:
    """Reads and encodes everything that a recipe names, before any training.

    Returns the data, `TaskData` for a recipe with a task; plain text by stage name, that of the
    teacher's pre-training as "teacher"; and the teacher's answers, where they come in files. A
    recipe with `data.cut` has its models cut first, see `cutting.with_cut_models`.

    Generated data and vocabularies are written into ``data`` of the run folder. A run that is
    resumed has to have the examples that it began with.
    """
    settings, generated = recipe.data, folder / "data"
    inputs = digests.of_inputs(recipe)
    digests.check_same(generated / digests.INPUTS, inputs, "the files")
    if settings.task is None:
        texts = corpora.open_texts(recipe, generated)
        files.atomic_write_json(generated / digests.INPUTS, inputs)
        return *texts, None
    source = from_config.source_of(settings, generated)
    task, train, dev = from_config.train_and_dev(settings, generated)
    further, teacher = _unlabelled(settings, task, source, train), None
    recipe = cutting.cut_models(recipe, folder, (train, dev, further))
    sentences = [*train.texts, *(train.pairs or ())]
    text, plain = corpora.open_texts(recipe, generated, source, sentences)
    data = read_sets(
        text,
        task,
        train,
        dev,
        allow_weak=recipe.teacher.allow_weak,
        refuse=not (folder / "teacher").is_dir(),  # not on --resume what was trained on
    )
    if settings.unlabelled:
        say_use(recipe.used_stages, task, len(train))
    parts: dict[str, str] = {}
    if recipe.teacher.answers is not None:
        pieces = {"training": data.train.encoded, "development": data.dev.encoded}
        if further is not None and task.traits.tags_words:
            pieces["unlabelled"] = data.encode(further)
        teacher, further = soft_labels.read_for_run(recipe, train, dev, further, pieces)
        parts["answers"] = teacher.sha256
        if len(teacher.train_examples) < len(train):
            train = train.select(teacher.train_examples)
            encoded = data.train.encoded.select(teacher.train_examples)
            data = dataclasses.replace(
                data, train=task_data.to_train(encoded, data.seed), train_examples=train
            )
    parts |= {
        name: digests.of_examples(examples)
        for name, examples in (("train", train), ("dev", dev), ("unlabelled", further))
    }
    digests.check_same(generated / digests.EXAMPLES, parts, "the examples")
    files.atomic_write_json(generated / digests.EXAMPLES, parts)
    files.atomic_write_json(generated / digests.INPUTS, inputs)
    return _with_unlabelled(data, further), plain, teacher


def read_sets(
    text: TextData,
    task: tasks.TaskSpec,
    train: tasks.Examples,
    dev: tasks.Examples,
    *,
    allow_weak: bool,
    refuse: bool = True,
) -> TaskData:
    """Encodes the sets of a task; refuses what would mislead, unless only warnings are wanted."""
    settings, tokenizer = text.settings, text.tokenizer
    encoded = task_data.encode(settings, tokenizer, train)
    findings = analysis.check_data(
        task,
        train,
        dev,
        lengths=_full_lengths(train, encoded, tokenizer, settings.max_length),
        max_length=settings.max_length,
    )
    ids, _ = tokenizer.pieces([*train.texts, *(train.pairs or ())])
    words = analysis.check_words(ids, tokenizer)
    if refuse:
        findings.check()
        if not allow_weak:
            words.check()
    for warning in (*findings.warnings, *(words.faults if allow_weak else ())):
        _log.info(f"data: {warning}")
    class_weights = None
    if settings.class_weights is not None:
        assert train.labels is not None
        class_weights = losses.balanced_weights(train.labels, task.num_labels)
        pairs = zip(task.labels, class_weights, strict=True)
        shown = ", ".join(f"{name} {weight:.3g}" for name, weight in pairs)
        _log.info(f"class weights: {errors.shortened(shown)}")
    return TaskData(
        **{**vars(text), "task": task},
        train=task_data.to_train(encoded, text.seed),
        train_examples=train,
        dev=task_data.to_evaluate(task_data.encode(settings, tokenizer, dev)),
        dev_examples=dev,
        class_weights=class_weights,
    )


def _full_lengths(
    examples: tasks.Examples,
    encoded: Any,
    tokenizer: Tokenizer,
    max_length: int,
) -> np.ndarray | None:
    """The tokens of each text without a limit, int64 (n,); None where texts are not cut."""
    if examples.word_offsets is not None or examples.questions is not None:
        return None
    lengths = encoded.lengths.copy()
    filled = np.flatnonzero(lengths >= max_length)
    if len(filled):
        whole = examples.select(filled)
        lengths[filled] = tokenizer.lengths(whole.texts, whole.pairs)
    return lengths


def own_tokens(recipe: config.Recipe, data: TaskData) -> TaskData | None:
    """The task's examples in the tokens of a student whose vocabulary is not the teacher's.

    None where the student is no checkpoint, has no vocabulary of its own, or the teacher's. Refused
    where a stage compares teacher and student token by token.
    """
    settings = recipe.student
    if not config.is_checkpoint(settings.preset) or settings.start != settings.preset:
        return None
    checkpoint = weights.open_checkpoint(settings.preset, shapes_only=True)
    tokenizer = checkpoint.tokenizer
    if tokenizer is None:
        rows = checkpoint.raw_config.get("vocab_size")
        if rows != data.tokenizer.vocab_size:
            raise errors.VocabularyError(
                f"student {settings.preset}",
                f"a tokenizer.json, or the teacher's {data.tokenizer.vocab_size} tokens",
                f"{rows} tokens and neither tokenizer.json nor vocab.txt",
                "Copy its tokenizer.json into the folder.",
            )
        return None
    if tokenizer.vocab == data.tokenizer.vocab:
        return None
    wholes = not data.task.traits.over_tokens
    for name, stage in recipe.used_stages.items():
        if stage.traits.has_teacher and not (wholes and stage.traits.answers_alone):
            raise errors.VocabularyError(
                f"student {settings.preset}, stages.{name}",
                "the teacher's vocabulary, since the two are compared token by token",
                f"another vocabulary and a stage of kind {stage.kind} on a {data.task.kind} task",
                "Answers about whole texts can be learnt all the same: use --stages logits (or "
                "joint, prediction, labels).",
            )
    cut, prompt = data.tokenizer.truncation, data.tokenizer.prompt
    return data.read_by(tokenizer.replace(truncation=cut, prompt=prompt))


def _unlabelled(
    settings: config.DataConfig,
    task: tasks.TaskSpec,
    source: pathlib.Path,
    train: tasks.Examples,
) -> tasks.Examples | None:
    """Reads `data.unlabelled`; None where there is nothing new.

    No unlabelled text may be of the development or the test set.
    """
    if not settings.unlabelled:
        return None
    held_out = {"development": tasks.load_examples(task, source, "dev", labelled=False)}
    if source.is_dir() and task.dev_split != "test":
        with contextlib.suppress(errors.AbsentSplitError):
            held_out["test"] = tasks.load_examples(task, source, "test", labelled=False)
    read = unlabelled.read_unlabelled(task, settings.unlabelled)
    new = unlabelled.select_new(read, train, held_out)
    left_out = f", {new.dropped} empty or repeated ones left out" if new.dropped else ""
    _log.info(f"data: {len(new.examples)} texts without labels{left_out}")
    return new.examples if len(new.examples) else None


def _with_unlabelled(data: TaskData, further: tasks.Examples | None) -> TaskData:
    if further is None:
        return data
    encoded = data.encode(further)
    return dataclasses.replace(data, unlabelled=encoded, unlabelled_examples=further)


def say_use(named: Mapping[str, config.Stage], task: tasks.TaskSpec, num_labelled: int) -> None:
    """Says which stages learn from the texts without labels."""
    stages = {
        name: stage.needs_labels(task.traits)
        for name, stage in named.items()
        if not stage.on_corpus
    }
    used = [name for name, needs in stages.items() if not needs]
    unused = [name for name, needs in stages.items() if needs]
    if used:
        _log.info(f"data: the teacher answers them in the stages {', '.join(used)}")
    if unused:
        _log.info(
            f"data: the stages {', '.join(unused)} need gold labels and learn from the "
            f"{num_labelled} labelled texts alone"
        )


def texts_used(settings: config.DataConfig, folder: pathlib.Path | None) -> list[tasks.Examples]:
    """What a model has learnt from or was chosen on; of a run `folder` has the generated data.

    The training and the development set, then the unlabelled and the augmented texts, if any.
    """
    used = []
    for split, limit in (("train", settings.train_limit), ("dev", settings.dev_limit)):
        part = settings.model_copy(update={"dev_limit": limit})  # which cuts any split
        used.append(from_config.labelled(part, split, folder=folder, may_hide_labels=True)[1])
    if settings.unlabelled:
        used.append(unlabelled.read_unlabelled(used[0].spec, settings.unlabelled).examples)
    if folder is not None and augmentation.is_whole(folder / "augmented"):
        used.append(augmentation.load_augmented(folder / "augmented", used[0].spec))
    return used


def augmented(
    recipe: config.Recipe, data: TaskData, root: pathlib.Path, masked_lm: str
) -> TaskData:
    """Adds the augmented training set, made once in a run, where a stage learns from it.

    The set is written into ``data/augmented`` of the run folder; `masked_lm` is the masked language
    model where `data.augment` names none.
    """
    settings = recipe.data.augment
    if settings is None or not any(s.augmented for s in recipe.used_stages.values()):
        return data
    folder = root / "data" / "augmented"
    if not augmentation.is_whole(folder):
        finder = augmentation.load_finder(
            settings.masked_lm or masked_lm,
            vectors_file=settings.vectors,
            tokenizer=data.tokenizer,
            max_length=recipe.data.max_length,
            num_candidates=settings.candidates,
            stop_words=augmentation.STOP_WORDS,
        )
        options = augmentation.AugmentOptions(
            copies=settings.copies or augmentation.copies_for(data.task.name),
            probability=settings.probability,
            num_candidates=settings.candidates,
            seed=settings.seed,
        )
        train = data.train_examples
        augmentation.augment_train(train, finder, options, folder, resume=folder.exists())
    examples = augmentation.load_augmented(folder, data.task)
    encoded = data.encode(examples)
    return dataclasses.replace(data, augmented=encoded, augmented_examples=examples)
