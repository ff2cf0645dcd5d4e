"""The request for an export, and whether what it names belongs together."""

from __future__ import annotations

import dataclasses
import logging
import pathlib
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import tf_keras as keras

from tfdistill import config, errors, models
from tfdistill.data.model_answers import ModelAnswers, read_model_answers
from tfdistill.data.task_data import TaskData
from tfdistill.io import files
from tfdistill.manifest import lengths
from tfdistill.results import quantities
from tfdistill.tasks import KINDS, Examples, TaskSpec
from tfdistill.tasks.decoding import allowed
from tfdistill.tasks.encoded import EncodedExamples
from tfdistill.tokenization.reading import as_tokenizer
from tfdistill.tokenization.tokenizer import Tokenizer

from . import inputs
from .heads import HEADS, OutputHead
from .options import ExportOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack

_log = logging.getLogger(__name__)

# Embeddings are padded to multiples of up to 128 rows; more unused ones are no padding.
_MOST_PADDING = 127


# Of the options that are not None where nobody names them.
DEFAULTS: ExportOptions = {
    "quantize": "dynamic_wi8_afp32",
    "device": "cpu",
    "variants": {},
    "softmax": False,
    "num_calibration": 200,
    "seed": 1,
    "allow_weak": False,
    "overwrite": False,
    "timeout_s": 1800,
}


def check_options(options: Collection[str], *, but: Collection[str] = ()) -> None:
    """Refuses names that are no `ExportOptions`, and all of `but`."""
    names = ExportOptions.__annotations__.keys() - {*but}
    if unknown := [name for name in options if name not in names]:
        remedy = errors.nearest(unknown[0], names)
        raise errors.ConfigError("options", "those of an export", repr(unknown[0]), remedy)


class ExportRequest:
    """A model, the path of its .tflite file, and each of the `ExportOptions` as an attribute.

    An option that is not named is what follows from the data, or else its default.
    """

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __init__(
        self, model: keras.Model, path: files.Path, **options: Unpack[ExportOptions]
    ) -> None:
        """Spells the quantizations out, and takes from the data what is not named."""
        errors.check_types(model=(model, keras.Model))
        check_options(options)
        self.model, self.path = model, path
        vars(self).update(dict.fromkeys(ExportOptions.__annotations__), **{**DEFAULTS, **options})
        self.quantize = config.quantization_name(self.quantize)
        for name in ("variants", "layers"):
            if chosen := getattr(self, name):
                full = {key: config.quantization_name(value) for key, value in chosen.items()}
                setattr(self, name, full)
        if self.tokenizer is not None:
            self.tokenizer = as_tokenizer(self.tokenizer)
        if (data := vars(self).pop("data")) is not None:
            for name, value in list(self._of_data(data)):
                if getattr(self, name) is None:
                    setattr(self, name, value)

    def _of_data(self, data: TaskData) -> Iterator[tuple[str, Any]]:
        """Yields the arguments that follow from a task's data."""
        chosen = self.lengths
        if chosen is None:
            chosen = fitting_lengths(self.model, data.settings.max_length, data.dev.encoded)
        yield "lengths", chosen
        yield "task", data.task
        yield "labels", data.task.labels
        yield "tokenizer", data.tokenizer
        yield "calibrate_on", data.train.encoded
        yield "min_recall", data.settings.min_recall
        if self.promise_on is None and (rows := data.promise_examples) is not None:
            yield "promise_answers", read_model_answers(data.settings, rows)
            yield "promise_on", data.encode(rows, min(max(chosen), data.settings.max_length))
        if self.check_on is not None:
            return
        check_on, texts, longest = data.dev.encoded, data.dev_examples, max(chosen)
        # The file will see such texts cut, too; and its longest signature is the window of a
        # question.
        windows = data.task.traits.decodes_spans and longest != data.settings.max_length
        if check_on.lengths.max() > longest or windows:
            check_on = data.encode(texts, longest)
        if data.settings.cross_fitted:  # the model has learnt their labels
            check_on, texts = (dataclasses.replace(rows, labels=None) for rows in (check_on, texts))
        yield "check_on", check_on
        yield "texts", texts

    @property
    def chosen_lengths(self) -> Sequence[int]:
        """The lengths that are named or fit the data, or else the default ones."""
        return fitting_lengths(self.model) if self.lengths is None else self.lengths

    @property
    def manifest_name(self) -> str:
        """The name in the manifest."""
        return self.name or pathlib.Path(self.path).stem

    def replace(self, **changes: Any) -> ExportRequest:
        """Returns a copy with some arguments changed."""
        return ExportRequest(**{**vars(self), **changes})

    def collected(self) -> ExportRequest:
        """Returns a copy with its examples in memory: an iterator serves one export only."""
        names = ("check_on", "promise_on", "calibrate_on")
        iterables = {name: getattr(self, name) for name in names}
        return self.replace(
            **{
                name: inputs.collect(value, name)
                for name, value in iterables.items()
                if value is not None
            }
        )


def fitting_lengths(
    model: keras.Model, max_length: int | None = None, examples: EncodedExamples | None = None
) -> tuple[int, ...]:
    """The lengths of a model's file where none are named; logs those that were chosen.

    Of development examples those with the least expected time by the count of operations, up to the
    most tokens that the model was trained on (None: not known); else `config.usual_lengths`.
    """
    shape = models.config_of(model)
    usual = config.usual_lengths(max_length, positions=shape.max_positions)
    if examples is None or not len(examples):
        return usual
    texts = lengths.counted(examples.lengths)
    chosen = lengths.choose(texts, usual[-1], lambda length: models.flops(shape, length))
    _log.info(f"lengths {lengths.describe(chosen, texts, usual)}")
    return chosen


def check_task(task: TaskSpec | None, head: OutputHead, num_labels: int, *, softmax: bool) -> None:
    """Checks that a model can answer a task, and with probabilities where they are asked for."""
    if task is not None:
        wanted = HEADS[models.head_for(task.head, task.num_labels).kind]
        number = head.classifies and not head.per_token and num_labels == 1
        if wanted is not head or task.traits.one_number != number:
            received = head.description
            if head.classifies:
                received += f" with {quantities.plural(num_labels, 'output')}"
            raise errors.ConfigError(
                f"task {task.name!r}",
                f"a model for {task.kind}",
                received,
                "Name the task that the model was trained on.",
            )
    if not softmax:
        return
    received = None
    if not head.classifies:
        received = head.description
    elif num_labels == 1:
        received = "a regression"
    elif task is not None and task.traits.many_classes:
        received = "several labels at once"
    if received is not None:
        raise errors.ConfigError(
            "softmax", "classes that exclude each other", received, "Leave it out: take logits."
        )


def check_promise(
    promise_on: EncodedExamples, check_on: Any, task: TaskSpec | None, answers: ModelAnswers | None
) -> None:
    """Checks that promises can be found: on labelled texts, of answers that have probabilities.

    The labels of `promise_on` chose nothing; those of `check_on`, if any, give the temperature.
    `answers` are a large model's to the texts of `promise_on`.
    """
    if task is None or not task.traits.gives_probabilities:
        kinds = [name for name, kind in KINDS.items() if kind.gives_probabilities]
        received = "no task" if task is None else task.kind
        remedy = "Other answers have no confidence: leave it out."
        raise errors.ConfigError("promise_on", f"a task of {', '.join(kinds)}", received, remedy)
    if check_on is None:
        raise errors.DataError("check_on for a promise", "examples", "none")
    if promise_on.labels is None:
        received = "examples without labels"
        raise errors.DataError("promise_on for a promise", "labelled examples", received)
    if answers is not None and len(answers.classes) != len(promise_on):
        expected = f"one for each of the {len(promise_on)} texts of promise_on"
        raise errors.DataError("promise_answers", expected, len(answers.classes))


def check_recall(min_recall: float, task: TaskSpec | None, *, promises: bool) -> None:
    """Checks that a recall of entities can be promised: with promises, of entities and O."""
    labels = task.labels if task is not None and task.traits.tags_words else ()
    if not (0 < min_recall < 1 and promises and "O" in labels and allowed(labels).begins.any()):
        expected = "a share between 0 and 1, with promise_on and tags that name entities and O"
        shown = errors.shortened(f"{min_recall}, labels {labels}")
        received = shown if promises else f"{min_recall} without promise_on"
        raise errors.ConfigError("min_recall", expected, received, "Leave it out.")


def labels_of(
    task: TaskSpec | None, labels: Sequence[str] | None, head: OutputHead, num_labels: int
) -> tuple[tuple[str, ...], TaskSpec | None]:
    """Returns the label names, by default the task's, in the order of the logits, and the task."""
    names = tuple(labels) if labels else task.labels if task is not None else ()
    expected = head.num_names(num_labels)
    if names and (len(names) != expected or len(set(names)) != len(names)):
        raise errors.ConfigError(
            "labels", f"{expected} different names, one for each output", names
        )
    # Readers of labels.txt differ in what ends a line; C ends a text at NUL.
    broken = [label for label in names if "\0" in label or label.splitlines() != [label]]
    if broken:
        raise errors.ConfigError("labels", "names of one line each, without NUL", broken)
    if task is not None and names != task.labels:
        if task.labels:
            raise errors.ConfigError(
                "labels",
                f"the order of task {task.name!r}, {task.labels}",
                names,
                "Pass the task in the order of the model: task.with_labels(labels).",
            )
        task = task.with_labels(names)
    return names, task


def check_vocabulary(tokenizer: Tokenizer, num_rows: int) -> None:
    """Refuses a vocabulary that does not fit a model with `num_rows` embeddings."""
    tokenizer.check_rows(num_rows)
    size = tokenizer.vocab_size
    if num_rows - size > _MOST_PADDING:
        raise errors.VocabularyError(
            f"vocabulary {tokenizer.vocab_file}",
            f"{num_rows} tokens, the rows of the model's embedding (or up to {_MOST_PADDING} "
            "fewer: padding)",
            size,
            "It belongs to another model, or is cut off. If the last rows really are unused, "
            "add lines such as [unused1] until there are as many.",
        )


def check_prompt(tokenizer: Tokenizer, head: OutputHead) -> None:
    """Refuses a prompt where answers stand at places in the text."""
    if tokenizer.prompt and head.per_token:
        raise errors.ConfigError(
            "prompt of the tokenizer",
            f"none with {head.description}",
            repr(tokenizer.prompt)[:80],
            "Its answers stand at places in the text: leave the prompt out.",
        )


def check_texts(
    texts: Examples | None, examples: EncodedExamples, task: TaskSpec | None, *, real: bool
) -> None:
    """Checks that texts and examples are as many and, if real, what the task's metric needs."""
    if texts is not None:
        count = len(examples)
        if examples.span_sources is not None:
            count = len(examples.span_sources.questions)
        elif examples.sources is not None:
            count = int(examples.sources.max()) + 1
        if len(texts) != count:
            raise errors.DataError("texts", f"{count}, as many as in check_on", len(texts))
    if task is None or not real:
        return
    fault = HEADS[models.head_for(task.head, task.num_labels).kind].fault_of(examples)
    if fault is not None:
        expected, received, remedy = fault
        raise errors.DataError(f"check_on for task {task.name!r}", expected, received, remedy)
