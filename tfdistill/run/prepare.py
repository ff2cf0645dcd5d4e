"""From a recipe's data section to encoded sets: task, files, vocabulary, tokenizer."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import logging
import pathlib
from collections.abc import Callable, Mapping

import numpy as np

from tfdistill import analysis, config, errors, files, losses, reading, tasks, weights
from tfdistill.data import batches, corpus, from_config, synthetic, tokenize, vocab
from tfdistill.run import corpora, soft_labels, unlabelled

_log = logging.getLogger(__name__)

TEACHER = "teacher"  # the name of the text that the teacher is pre-trained on
_STAND_IN_DOCUMENTS = 150
_DIGESTS = "sha256.json"  # of the examples, below the folder "data"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextData:
    """What stages without a task learn from.

    Attributes:
      tokenizer: The tokenizer that both models share.
      vocab_file: Its vocabulary.
      corpora: Plain text by stage name; that of the teacher's pre-training is "teacher".
      task: None.
    """

    tokenizer: tokenize.Tokenizer
    vocab_file: pathlib.Path
    corpora: dict[str, corpora.Corpus]
    task: tasks.TaskSpec | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskData(TextData):
    """What the stages of a task learn from.

    Attributes:
      task: The task.
      train: The training set, encoded.
      train_examples: Its texts.
      dev: The development set, encoded, as batches in a fixed order.
      dev_examples: Its texts, for the golden vectors of the export.
      augmented: The augmented training set, encoded, where a stage learns from it.
      unlabelled: Further texts, encoded, for stages that need no gold labels.
      unlabelled_examples: These texts.
      soft_labels: Those of the teacher, where they come in files.
      class_weights: float32 (labels,), of losses on gold labels, or None.
    """

    task: tasks.TaskSpec
    train: batches.EncodedExamples
    train_examples: tasks.Examples
    dev: batches.Batches
    dev_examples: tasks.Examples
    augmented: batches.EncodedExamples | None = None
    unlabelled: batches.EncodedExamples | None = None
    unlabelled_examples: tasks.Examples | None = None
    soft_labels: soft_labels.SoftLabels | None = None
    class_weights: np.ndarray | None = None

    @property
    def all_texts(self) -> batches.EncodedExamples:
        """The training set and the unlabelled texts."""
        return self.train if self.unlabelled is None else self.train.followed_by(self.unlabelled)


def prepare(recipe: config.Recipe, folder: pathlib.Path) -> TextData:
    """Reads and encodes everything that a recipe names, before any training.

    Args:
      recipe: The recipe.
      folder: The run folder; generated data and vocabularies are written into its ``data``.

    Returns:
      The encoded sets; `TaskData` for a recipe with a task.

    Raises:
      ConfigError: If a run is resumed with other examples than it began with.
      DataError: If a file is missing, malformed or does not fit the task.
      VocabularyError: If the vocabulary is malformed.
    """
    return _text_data(recipe, folder) if recipe.data.task is None else _task_data(recipe, folder)


def _task_data(recipe: config.Recipe, folder: pathlib.Path) -> TaskData:
    settings = recipe.data
    source = from_config.source_of(settings, folder / "data")
    task, train, dev = from_config.train_and_dev(settings, folder / "data")
    texts = _texts(recipe, folder / "data", source, [*train.texts, *(train.pairs or ())])
    encode = _encoder(settings, texts.tokenizer)
    encoded = encode(train)
    findings = analysis.check_data(
        task,
        train,
        dev,
        lengths=_full_lengths(train, encoded, texts.tokenizer, settings.max_length),
        max_length=settings.max_length,
    )
    words = analysis.check_words(train, texts.tokenizer)
    weak = recipe.teacher.allow_weak
    if not (folder / "teacher").is_dir():  # what was trained on is not refused on --resume
        findings.check()
        if not weak:
            words.check()
    for warning in (*findings.warnings, *(words.faults if weak else ())):
        _log.info(f"data: {warning}")
    further = unlabelled.read_for_run(recipe, task, source, train)
    parts: dict[str, str] = {}
    teacher, encoded_dev = None, encode(dev)
    if recipe.teacher.answers is not None:
        pieces = {"training": encoded, "development": encoded_dev}
        teacher, further = soft_labels.read_for_run(recipe, train, dev, further, pieces)
        parts["answers"] = teacher.sha256
        if len(teacher.train_examples) < len(train):
            train = train.select(teacher.train_examples)
            encoded = encoded.select(teacher.train_examples)
    parts |= {"train": _digest(train), "dev": _digest(dev), "unlabelled": _digest(further)}
    _check_same_data(folder / "data" / _DIGESTS, parts)
    return TaskData(
        task=task,
        train=encoded,
        train_examples=train,
        dev=batches.Batches(encoded_dev, batch_size=64, shuffle=False),
        dev_examples=dev,
        tokenizer=texts.tokenizer,
        vocab_file=texts.vocab_file,
        corpora=texts.corpora,
        unlabelled=None if further is None else encode(further),
        unlabelled_examples=further,
        soft_labels=teacher,
        class_weights=None if settings.class_weights is None else _class_weights(train),
    )


def _class_weights(train: tasks.Examples) -> np.ndarray:
    """Balanced weights of the classes, of the training set's gold labels."""
    assert train.labels is not None
    weights = losses.balanced_weights(train.labels, train.spec.num_labels)
    shown = ", ".join(
        f"{name} {weight:.3g}" for name, weight in zip(train.spec.labels, weights, strict=True)
    )
    _log.info(f"class weights: {errors.shortened(shown)}")
    return weights


def _full_lengths(
    examples: tasks.Examples,
    encoded: batches.EncodedExamples,
    tokenizer: tokenize.Tokenizer,
    max_length: int,
) -> np.ndarray | None:
    """The tokens of each text without a limit, int64 (n,); None where texts are not cut."""
    if examples.words is not None or examples.questions is not None:
        return None
    lengths = encoded.lengths.copy()
    filled = np.flatnonzero(lengths >= max_length)
    if len(filled):
        whole = examples.select(filled)
        lengths[filled] = tokenizer.lengths(whole.texts, whole.pairs)
    return lengths


def _check_same_data(path: pathlib.Path, now: Mapping[str, str]) -> None:
    """Records what a run learns from, by name, and refuses to go on with something else.

    Raises:
      ConfigError: If an earlier session of the run had other examples.
    """
    if not path.is_file():
        files.atomic_write_json(path, dict(now))
        return
    before = reading.read_json_object(path, error=errors.ConfigError)
    changed = [name for name in now if before.get(name) != now[name]]
    if changed:
        raise errors.ConfigError(
            "--resume",
            "the data that the run began with",
            f"other examples in: {', '.join(changed)}",
            "Restore the files, or start again with --overwrite.",
        )


def _digest(examples: tasks.Examples | None) -> str:
    if examples is None:
        return ""
    labels = None if examples.labels is None else examples.labels.tolist()
    text = json.dumps([examples.texts, examples.pairs, labels], default=np.ndarray.tolist)
    return hashlib.sha256(text.encode()).hexdigest()


def own_tokens(recipe: config.Recipe, data: TaskData) -> TaskData | None:
    """The task's examples in the tokens of a student whose vocabulary is not the teacher's.

    Args:
      recipe: The recipe.
      data: The data in the teacher's tokens.

    Returns:
      The same examples in the same order, read by the student's own tokenizer; None where the
      student is no checkpoint, has no vocabulary of its own, or the teacher's.

    Raises:
      VocabularyError: If a stage compares teacher and student token by token.
    """
    settings = recipe.student
    if not config.is_checkpoint(settings.preset) or settings.start != settings.preset:
        return None
    checkpoint = weights.open_checkpoint(settings.preset)
    if checkpoint.vocab_file is None:
        rows = checkpoint.raw_config.get("vocab_size")
        if rows != data.tokenizer.vocab_size:
            raise errors.VocabularyError(
                f"student {settings.preset}",
                f"a tokenizer.json, or the teacher's {data.tokenizer.vocab_size} tokens",
                f"{rows} tokens and neither tokenizer.json nor vocab.txt",
                "Copy its tokenizer.json into the folder.",
            )
        return None
    if vocab.read_vocab(checkpoint.vocab_file) == vocab.read_vocab(data.vocab_file):
        return None
    wholes = not data.task.traits.over_tokens
    for name, stage in recipe.used_stages.items():
        if stage.has_teacher and not (wholes and stage.kind in config.ANSWERS_ALONE):
            raise errors.VocabularyError(
                f"student {settings.preset}, stages.{name}",
                "the teacher's vocabulary, since the two are compared token by token",
                f"another vocabulary and a stage of kind {stage.kind} on a {data.task.kind} task",
                "Answers about whole texts can be learnt all the same: use --stages logits (or "
                "joint, prediction, labels).",
            )
    tokenizer = tokenize.Tokenizer(checkpoint.vocab_file, lower_case=checkpoint.lower_case)
    encode, further = _encoder(recipe.data, tokenizer), data.unlabelled_examples
    return dataclasses.replace(
        data,
        train=encode(data.train_examples),
        dev=batches.Batches(encode(data.dev_examples), batch_size=64, shuffle=False),
        unlabelled=further if further is None else encode(further),
        tokenizer=tokenizer,
        vocab_file=checkpoint.vocab_file,
    )


def _encoder(
    settings: config.DataConfig, tokenizer: tokenize.Tokenizer
) -> Callable[[tasks.Examples], batches.EncodedExamples]:
    return functools.partial(
        batches.encode_examples,
        tokenizer=tokenizer,
        max_length=settings.max_length,
        doc_stride=settings.doc_stride,
        max_question_length=settings.max_question_length,
    )


def _text_data(recipe: config.Recipe, folder: pathlib.Path) -> TextData:
    source = None
    if recipe.data.placeholder_data:
        source = folder / "data"
        if not (source / synthetic.CORPUS_NAME).is_file():
            text = synthetic.generate_corpus(_STAND_IN_DOCUMENTS)
            files.atomic_write_text(source / synthetic.CORPUS_NAME, text)
    return _texts(recipe, folder / "data", source, None)


def _texts(
    recipe: config.Recipe,
    folder: pathlib.Path,
    source: pathlib.Path | None,
    sentences: list[str] | None,
) -> TextData:
    """The vocabulary, and the text of every stage; `sentences` are those of the task."""
    vocab_file, lower_case = _vocabulary(recipe, folder, source, sentences)
    tokenizer = tokenize.Tokenizer(vocab_file, lower_case=lower_case)
    settings: dict[str, config.CorpusStage | config.TeacherPretrainConfig] = {
        name: stage
        for name, stage in recipe.used_stages.items()
        if isinstance(stage, config.CorpusStage) and stage.on_corpus
    }
    if recipe.teacher.pretrain is not None:
        settings[TEACHER] = recipe.teacher.pretrain
    read = {
        name: corpora.open_corpus(
            name,
            section,
            tokenizer,
            max_length=recipe.data.max_length,
            source=source,
            folder=folder,
            seed=recipe.seeds[0] + index,
        )
        for index, (name, section) in enumerate(settings.items())
    }
    return TextData(tokenizer=tokenizer, vocab_file=vocab_file, corpora=read, task=None)


def _vocabulary(
    recipe: config.Recipe,
    folder: pathlib.Path,
    source: pathlib.Path | None,
    sentences: list[str] | None,
) -> tuple[pathlib.Path, bool]:
    """The vocabulary (of teacher or student, a file, or trained on the texts) and its case."""
    choice = recipe.data.vocab
    lower_case = recipe.data.lower_case is not False
    if choice.startswith("train:"):
        path = folder / "vocab.txt"
        if not path.is_file():
            if sentences is None:
                sentences = _corpus_lines(recipe, source)
            words = vocab.train_vocab(
                sentences, int(choice.removeprefix("train:")), lower_case=lower_case
            )
            vocab.write_vocab(words, path)
        return path, lower_case
    if choice != "teacher":
        return pathlib.Path(choice), vocab.lower_case_of(choice, recipe.data.lower_case)
    # Answers alone have no vocabulary: the student's checkpoint has one.
    named = recipe.teacher.source if recipe.teacher.answers is None else recipe.student.start
    checkpoint = weights.open_checkpoint(named)
    vocab_file = weights.existing_vocab(checkpoint.vocab_file, named)
    if recipe.data.lower_case is None:
        lower_case = checkpoint.lower_case
    return vocab_file, lower_case


def _corpus_lines(recipe: config.Recipe, source: pathlib.Path | None) -> list[str]:
    """The text files that the recipe names, or the generated one."""
    stages = [s for s in recipe.stages.values() if isinstance(s, config.CorpusStage)]
    named = [path for stage in stages for path in stage.corpus]
    paths = [pathlib.Path(path) for path in dict.fromkeys(named)]
    if not paths and source is not None:
        paths = [source / synthetic.CORPUS_NAME]
    if not paths or any(path.is_dir() for path in paths):
        raise errors.ConfigError(
            "data.vocab",
            "a vocabulary file, where the corpus is prepared already",
            recipe.data.vocab,
            "`tfdistill data vocab` makes one of text files.",
        )
    return [line for document in corpus.documents(paths) for line in document]
