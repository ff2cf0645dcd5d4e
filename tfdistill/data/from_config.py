"""The task and the files that a data section names. Imports no TensorFlow."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Sequence
from typing import Any

from tfdistill import config, errors, tasks
from tfdistill.data import labelled_file, synthetic
from tfdistill.io import files
from tfdistill.tasks import tables


def task_of(settings: config.DataConfig, source: pathlib.Path) -> tasks.TaskSpec:
    """The task of a data section: a built-in one, the synthetic one, or one of your own."""
    stated = settings.kind is not None
    task = declared_task(settings)
    named = settings.text_column is None and settings.label_column is None
    return task.with_labels_of(source, stated=stated or named)


def check(
    settings: config.DataConfig,
    splits: Sequence[str] = ("train", "dev"),
    *,
    may_hide_labels: bool = False,
) -> None:
    """Checks the task, the files of its splits and their columns, without reading the rows.

    Labels may be absent with `may_hide_labels`, as for `labelled`.
    """
    task = declared_task(settings)
    if settings.dir is None and _is_written(settings):
        return
    source = source_of(settings)
    for split in splits:
        path = task.split_file(source, task.dev_split if split == "dev" else split)
        texts_alone = task.traits.vectors and split == "train"
        if task.layout != "table" or task.header or path.suffix.lower() not in tables.SUFFIXES:
            continue
        columns = tables.column_names(path)
        for field in ("text_column", "pair_column", "label_column"):
            name = getattr(task, field)
            if not name or name in columns or (may_hide_labels and field == "label_column"):
                continue
            if texts_alone and field != "text_column":
                continue
            is_chosen = getattr(settings, field) is not None
            raise (errors.ConfigError if is_chosen else errors.DataError)(
                f"data.{field}" if is_chosen else path,
                f"one of the columns {', '.join(columns)}" + (f" of {path}" if is_chosen else ""),
                repr(name),
                errors.nearest(name, columns),
            )


def declared_task(settings: config.DataConfig) -> tasks.TaskSpec:
    """The task without the labels that only its files name; see `task_of`.

    Refuses what its data do not read, class weights without classes, a promise without
    probabilities, and to cut the middle out of texts that are not cut.
    """
    task = _declared(settings)
    if settings.class_weights is not None and not task.traits.one_class:
        raise errors.ConfigError(
            "data.class_weights",
            "a task of kind classification",
            task.kind,
            "Leave class weights out.",
        )
    if settings.other is not None and settings.promise_on is None:
        remedy = "Leave it out: no answer is sure without a promise, which takes a test set of 100."
        raise errors.ConfigError("data.other", "data.promise_on too", "none", remedy)
    if settings.min_recall is not None and not (task.traits.tags_words and settings.promise_on):
        expected = "words with tags, and data.promise_on: a test set of 100 texts, or held-out ones"
        received = f"kind {task.kind}, promise_on {settings.promise_on}"
        raise errors.ConfigError("data.min_recall", expected, received, "Leave it out.")
    if settings.promise_on is not None and not task.traits.gives_probabilities:
        kinds = [name for name, kind in tasks.KINDS.items() if kind.gives_probabilities]
        raise errors.ConfigError(
            "data.promise_on",
            f"a task of kind {', '.join(kinds)}",
            task.kind,
            "Its answers have no probability: leave it out.",
        )
    unread = [] if task.traits.many_classes else ["label_separator"]
    unread += [] if task.layout == "conll" else ["offsets"]
    unread += ["other"] if task.traits.over_tokens else []
    if not task.traits.decodes_spans:
        unread += ["unanswerable", "null_threshold", "max_answer_length"]
    _check_unread(settings, f"none with a task of kind {task.kind}", *unread)
    if settings.truncation == "middle" and not task.traits.cuts_texts:
        raise errors.ConfigError(
            "data.truncation",
            "end, or a task that cuts long texts",
            f"{settings.truncation}, of a {task.kind} task",
            "It reads a long text whole, in several parts: leave truncation out.",
        )
    if settings.prompt and task.traits.over_tokens:
        raise errors.ConfigError(
            "data.prompt",
            "none, or a task that reads texts whole",
            f"{settings.prompt!r}, of a {task.kind} task",
            "Its answers stand at places in the text: leave prompt out.",
        )
    return task


def _check_unread(settings: config.DataConfig, expected: str, *names: str) -> None:
    """Refuses fields of a section that its task does not read."""
    for name in names:
        value = getattr(settings, name)
        if value != config.DataConfig.model_fields[name].default:
            raise errors.ConfigError(f"data.{name}", expected, repr(value), "Leave it out.")


def _is_written(settings: config.DataConfig) -> bool:
    """Whether the files of the splits are written into the run folder."""
    return settings.task == synthetic.TASK.name or settings.file is not None


def of_file(settings: config.DataConfig) -> labelled_file.LabelledFile:
    """Reads and splits the one labelled file of a section, once."""
    assert settings.file is not None
    usual = config.DataConfig.model_fields["label_separator"].default
    options = {
        "text": settings.text_column,
        "pair": settings.pair_column,
        "label": settings.label_column,
        "offsets": settings.offsets,
        "kind": settings.kind,
        "separator": None if settings.label_separator == usual else settings.label_separator,
        "seed": settings.split_seed,
    }
    name = settings.task or labelled_file.name_of(settings.file)
    time_ns = pathlib.Path(settings.file).stat().st_mtime_ns
    return _read(settings.file, time_ns, name, tuple(options.items()))


@functools.lru_cache(maxsize=1)
def _read(
    path: str, time_ns: int, name: str, options: tuple[tuple[str, Any], ...]
) -> labelled_file.LabelledFile:
    return labelled_file.read_labelled_file(path, name, **dict(options))


def _declared(settings: config.DataConfig) -> tasks.TaskSpec:
    if settings.file is not None:
        task = of_file(settings).task
        metrics = settings.metrics or task.metrics
        return dataclasses.replace(task, metrics=metrics, primary_metric=metrics[0])
    columns = settings.text_column or settings.label_column
    if settings.gives_vectors and not columns and settings.task is not None:
        return _embedding_of(settings, settings.task)
    if settings.kind or columns:
        return _own_task(settings)
    if settings.task is None:
        raise errors.ConfigError("data.task", "a task", "none", "Name one.")
    built_in = settings.task == synthetic.TASK.name
    task = synthetic.TASK if built_in else tasks.task(settings.task)
    expected = f"none with the built-in task {settings.task}"
    _check_unread(settings, expected, "pair_column", "layout")
    if settings.labels:
        task = task.with_labels(settings.labels)
    rules = dataclasses.replace(
        task.spans,
        unanswerable=task.spans.unanswerable or settings.unanswerable,
        max_answer_length=settings.max_answer_length,
        null_threshold=settings.null_threshold,
    )
    metrics = settings.metrics or task.metrics
    return dataclasses.replace(
        task,
        metrics=metrics,
        primary_metric=metrics[0] if settings.metrics else task.primary_metric,
        encoding=settings.encoding,
        offsets=settings.offsets,
        dev_split=settings.dev_split or task.dev_split,
        spans=rules,
    )


def _embedding_of(settings: config.DataConfig, name: str) -> tasks.TaskSpec:
    """A built-in task of pairs as an embedding task: its numbers, or classes 0 and 1."""
    task = tasks.task(name)
    if task.pair_column is None or task.layout != "table":
        raise errors.ConfigError(
            f"data.task {name} of kind embedding",
            "a built-in task of pairs (stsb, mrpc, qqp), or columns of your own files",
            f"a task of kind {task.kind} without pairs",
        )
    expected = f"none with the built-in task {name} of kind {settings.kind}"
    _check_unread(settings, expected, "pair_column", "layout", "labels")
    usual = ("auc", "accuracy") if task.labels else ()
    return dataclasses.replace(
        task,
        kind=settings.kind or task.kind,
        labels=(),
        label_values=(),
        positive_label=None,
        metrics=settings.metrics or usual,
        primary_metric="",
        encoding=settings.encoding,
        dev_split=settings.dev_split or task.dev_split,
    )


def _own_task(settings: config.DataConfig) -> tasks.TaskSpec:
    kind = tasks.kind_named(settings.kind or "classification")
    text, label = settings.text_column, settings.label_column
    if kind.usual_columns or settings.layout == "folders":
        usual = kind.usual_columns or ("text", "label")
        text, label = text or usual[0], label or usual[1]
    if not text or not (label or kind.vectors):
        raise errors.ConfigError(
            "data",
            "text_column and label_column together",
            "only one of them" if text or label else "none of them",
        )
    return tasks.TaskSpec(
        settings.task or "own",
        text_column=text,
        pair_column=kind.pair_column or settings.pair_column,
        label_column=label or "",
        labels=settings.labels or (),
        kind=kind.name,
        layout=settings.layout or "",
        metrics=settings.metrics or (),
        label_separator=settings.label_separator,
        encoding=settings.encoding,
        offsets=settings.offsets,
        dev_split=settings.dev_split or "dev",
        spans=tasks.SpanRules(
            unanswerable=settings.unanswerable,
            max_answer_length=settings.max_answer_length,
            null_threshold=settings.null_threshold,
        ),
    )


def source_of(settings: config.DataConfig, folder: pathlib.Path | None = None) -> pathlib.Path:
    """The folder of a data section's files; embedded data is written into `folder` first."""
    if settings.dir is not None:
        return pathlib.Path(settings.dir)
    if folder is None or not _is_written(settings):
        raise errors.ConfigError(
            f"folder of task {settings.task}",
            "the folder with its files",
            "none",
            "Name it: dir='FOLDER'.",
        )
    if not folder.is_dir():  # a resumed run reads what is there
        with files.atomic_folder(folder) as temporary:
            if settings.task == synthetic.TASK.name:
                synthetic.write_task(temporary)
            else:
                read = of_file(settings)
                read.write(temporary, languages=settings.cut is not None)
                section = read.section(temporary)
                section = {name: section[name] for name in section.keys() - {"dir", "promise_on"}}
                files.atomic_write_json(temporary / config.SPLIT_FILE, section)
    return folder


def train_and_dev(
    settings: config.DataConfig, folder: pathlib.Path | None = None
) -> tuple[tasks.TaskSpec, tasks.Examples, tasks.Examples]:
    """Reads what a run learns from and is measured on: the task, with its labels, and both sets.

    Generated data is in `folder`, or is written there; None for data that is there, and for one
    labelled file, which is split and not written.
    """
    if folder is None and settings.file is not None:
        task, sets = declared_task(settings), of_file(settings).sets
        train, dev = (dataclasses.replace(sets[name], spec=task) for name in ("train", "dev"))
        return task, train.first(settings.train_limit), dev.first(settings.dev_limit)
    source = source_of(settings, folder)
    task = task_of(settings, source)
    train = tasks.load_examples(task, source, "train").first(settings.train_limit)
    if settings.cross_fitted:
        return task, train, train
    dev = tasks.load_examples(task, source, "dev", labelled=True).first(settings.dev_limit)
    return task, train, dev


def test_examples(
    settings: config.DataConfig, folder: pathlib.Path | None = None
) -> tasks.Examples | None:
    """Reads the test set; None without one, without labels, or where it is the development set."""
    source = source_of(settings, folder)
    task = task_of(settings, source)
    try:
        path = task.split_file(source, "test")
    except errors.AbsentSplitError:
        return None
    if path == task.split_file(source, task.dev_split):
        return None
    _, examples = labelled(settings, "test", folder=folder, may_hide_labels=True)
    return None if examples.labels is None else examples


def labelled(
    settings: config.DataConfig,
    split: str,
    *,
    folder: pathlib.Path | None = None,
    may_hide_labels: bool = False,
    of_run: config.DataConfig | None = None,
) -> tuple[tasks.TaskSpec, tasks.Examples]:
    """Reads a labelled split of a data section; of a cross-fitted one "dev" has no labels.

    A run has written generated data into `folder`; without one a labelled file is split and not
    written. With `may_hide_labels` a table may lack its
    labels; the examples then have none. `of_run` is the section of the run that the labels come
    from, where the split is a file whose columns have other names. Returns the task, with its
    labels, too.
    """
    if _is_written(settings) and settings.dir is None and folder is not None:
        settings = settings.model_copy(update={"dir": str(folder)})
    if settings.file is not None and settings.dir is None and folder is None:
        task = declared_task(settings)
        rows = dataclasses.replace(of_file(settings).sets[split], spec=task)
        return task, rows.first(settings.dev_limit)
    source = source_of(settings)
    task = task_of(settings if of_run is None else of_run, source)
    if of_run is not None:
        named = declared_task(settings)
        columns = ("text_column", "pair_column", "label_column")
        task = dataclasses.replace(task, **{name: getattr(named, name) for name in columns})
    if split == "dev" and settings.cross_fitted:
        return _without_labels(settings, task, source, may_hide_labels=may_hide_labels)
    examples = tasks.load_examples(
        task,
        source,
        split,
        labelled=None if may_hide_labels else True,
        may_hide_labels=may_hide_labels,
    )
    return examples.spec, examples.first(settings.dev_limit)


def _without_labels(
    settings: config.DataConfig,
    task: tasks.TaskSpec,
    source: pathlib.Path,
    *,
    may_hide_labels: bool,
) -> tuple[tasks.TaskSpec, tasks.Examples]:
    """The rows that a finished model has learnt: they do not say how well it answers others."""
    if not may_hide_labels:
        remedy = "Name labelled texts of your own: --split FILE."
        received = "the training rows: the run was cross-validated"
        raise errors.DataError("development set", "rows that trained nothing", received, remedy)
    examples = tasks.load_examples(task, source, "train", labelled=True)
    return task, dataclasses.replace(examples.first(settings.train_limit), labels=None)
