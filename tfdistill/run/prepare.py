"""From a recipe's data section to encoded sets: task, files, vocabulary, tokenizer."""

from __future__ import annotations

import dataclasses
import functools
import pathlib

from tfdistill import config, errors, files, weights
from tfdistill.data import batches, corpus, synthetic, tasks, tokenize, vocab


@dataclasses.dataclass(frozen=True)
class Prepared:
    """What the stages learn from.

    Attributes:
      task: The task.
      train: The training set, encoded.
      dev: The development set, encoded, as batches in a fixed order.
      dev_examples: Its texts, for the golden vectors of the export.
      tokenizer: The tokenizer that both models share.
      vocab_file: Its vocabulary.
      corpora: Encoded corpora by stage name.
    """

    task: tasks.TaskSpec
    train: batches.EncodedExamples
    dev: batches.Batches
    dev_examples: tasks.Examples
    tokenizer: tokenize.Tokenizer
    vocab_file: pathlib.Path
    corpora: dict[str, batches.EncodedExamples]


def prepare(recipe: config.Recipe, folder: pathlib.Path) -> Prepared:
    """Reads and encodes everything that a recipe names, before any training.

    Args:
      recipe: The recipe.
      folder: The run folder; generated data and vocabularies are written into its ``data``.

    Returns:
      The encoded sets.

    Raises:
      DataError: If a file is missing, malformed or does not fit the task.
      VocabularyError: If the vocabulary is malformed.
    """
    settings = recipe.data
    source = source_of(settings, folder / "data")
    task = task_of(settings, source)
    train = first(tasks.load_examples(task, source, "train"), settings.train_limit)
    dev = first(tasks.load_examples(task, source, "dev", labelled=True), settings.dev_limit)
    vocab_file, lower_case = _vocabulary(recipe, train, folder / "data")
    tokenizer = tokenize.Tokenizer(vocab_file, lower_case=lower_case)
    encode = functools.partial(
        batches.encode_examples, tokenizer=tokenizer, max_length=settings.max_length
    )
    return Prepared(
        task=task,
        train=encode(train),
        dev=batches.Batches(encode(dev), batch_size=64, shuffle=False),
        dev_examples=dev,
        tokenizer=tokenizer,
        vocab_file=vocab_file,
        corpora=_corpora(recipe, tokenizer, source),
    )


def task_of(settings: config.DataConfig, source: pathlib.Path) -> tasks.TaskSpec:
    """The task of a data section: a GLUE name, the synthetic one, or named columns.

    Raises:
      ConfigError: If the name is unknown and no columns are given.
    """
    if settings.text_column or settings.label_column:
        if not (settings.text_column and settings.label_column):
            raise errors.ConfigError(
                errors.explain("data", "text_column and label_column together", "only one of them")
            )
        metrics = ("pearson", "spearman") if settings.regression else ("accuracy",)
        return tasks.TaskSpec(
            settings.task,
            text_column=settings.text_column,
            pair_column=settings.pair_column,
            label_column=settings.label_column,
            labels=settings.labels or (),
            metrics=metrics,
            primary_metric=metrics[0],
            regression=settings.regression,
        ).with_labels_of(source)
    if settings.task == synthetic.TASK.name:
        return synthetic.TASK
    task = tasks.task(settings.task)
    return task.with_labels(settings.labels) if settings.labels else task


def source_of(settings: config.DataConfig, folder: pathlib.Path | None = None) -> pathlib.Path:
    """Where a data section's files lie; embedded data is written into `folder` first.

    Raises:
      ConfigError: If the section names no folder and its data is not embedded.
    """
    if settings.dir is not None:
        return pathlib.Path(settings.dir)
    if settings.task == synthetic.TASK.name and folder is not None:
        return _synthetic(folder)
    raise errors.ConfigError(
        errors.explain(
            f"folder of task {settings.task}",
            "the folder with its files",
            "none",
            "Give it with --set data.dir=FOLDER (recipes) or --data-dir FOLDER.",
        )
    )


def _synthetic(folder: pathlib.Path) -> pathlib.Path:
    """Writes the embedded data once; a resumed run reads what is there."""
    if not folder.is_dir():
        with files.atomic_folder(folder) as temporary:
            synthetic.write_task(temporary)
    return folder


def first(examples: tasks.Examples, limit: int | None) -> tasks.Examples:
    """The first `limit` examples, or all."""
    return examples if limit is None else examples.select(range(min(limit, len(examples))))


def _vocabulary(
    recipe: config.Recipe, train: tasks.Examples, folder: pathlib.Path
) -> tuple[pathlib.Path, bool]:
    """The vocabulary (the teacher's, a file, or one trained on the texts) and its case."""
    choice = recipe.data.vocab
    lower_case = recipe.data.lower_case is not False
    if choice.startswith("train:"):
        path = folder / "vocab.txt"
        if not path.is_file():
            words = vocab.train_vocab(
                [*train.texts, *(train.pairs or ())],
                int(choice.removeprefix("train:")),
                lower_case=lower_case,
            )
            vocab.write_vocab(words, path)
        return path, lower_case
    if choice != "teacher":
        return pathlib.Path(choice), lower_case
    checkpoint = weights.open_checkpoint(recipe.teacher.source)
    if checkpoint.vocab_file is None:
        raise errors.VocabularyError(
            errors.explain(
                f"vocabulary of {recipe.teacher.source}",
                "a vocab.txt beside the weights",
                "none",
                "Give one with --set data.vocab=FILE.",
            )
        )
    if recipe.data.lower_case is None:
        lower_case = checkpoint.lower_case
    return checkpoint.vocab_file, lower_case


def _corpora(
    recipe: config.Recipe, tokenizer: tokenize.Tokenizer, source: pathlib.Path
) -> dict[str, batches.EncodedExamples]:
    used = {stage for variant in recipe.variants.values() for stage in variant.stages}
    found = {}
    for index, (name, stage) in enumerate(recipe.stages.items()):
        if stage.kind != "general" or name not in used:
            continue
        paths = [pathlib.Path(path) for path in stage.corpus] or [source / "corpus.txt"]
        found[name] = corpus.encode_corpus(
            paths,
            tokenizer,
            max_length=stage.max_length or recipe.data.max_length,
            max_tokens=stage.max_tokens,
            seed=recipe.seeds[0] + index,
        )
    return found
