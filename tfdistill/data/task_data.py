"""The data that models learn from: a tokenizer, and the sets of a task, read and encoded."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

import numpy as np

from tfdistill import config, tasks
from tfdistill.data import batches, promise_rows

if TYPE_CHECKING:
    from tfdistill.tokenization.tokenizer import Tokenizer

EVALUATED = 64  # examples of a batch that is only answered


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextData:
    """The data of a run on plain text.

    Attributes:
      settings: The data section.
      seed: Of the order of examples.
      tokenizer: The tokenizer that both models share.
      task: None.
    """

    settings: config.DataConfig
    seed: int
    tokenizer: Tokenizer
    task: tasks.TaskSpec | None

    @property
    def of_task(self) -> TaskData:
        """The same data of a run that has a task."""
        assert isinstance(self, TaskData)
        return self


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskData(TextData):
    """The sets of a task, encoded; `tfdistill.load_data` reads them.

    Attributes:
      task: The task, with its labels.
      train: The training set: batches of 32 in an order of their own each epoch.
      train_examples: Its texts.
      dev: The development set, in a fixed order.
      dev_examples: Its texts, for the golden vectors of an export.
      test: The test set, in a fixed order; None where there is none with labels, and in a run,
        which reads it at its end.
      augmented: The augmented training set, where a stage learns from it.
      augmented_examples: Its texts.
      unlabelled: Further texts, for stages that need no gold labels.
      unlabelled_examples: These texts.
      class_weights: float32 (labels,), of losses on gold labels, or None.
    """

    task: tasks.TaskSpec
    train: batches.Batches
    train_examples: tasks.Examples
    dev: batches.Batches
    dev_examples: tasks.Examples
    test: batches.Batches | None = None
    augmented: batches.EncodedExamples | None = None
    augmented_examples: tasks.Examples | None = None
    unlabelled: batches.EncodedExamples | None = None
    unlabelled_examples: tasks.Examples | None = None
    class_weights: np.ndarray | None = None

    def encode(
        self, examples: tasks.Examples, max_length: int | None = None
    ) -> batches.EncodedExamples:
        """Tokenizes examples as the section says, or up to another length."""
        return encode(self.settings, self.tokenizer, examples, max_length)

    @functools.cached_property
    def promise_examples(self) -> tasks.Examples | None:
        """The held-out labelled texts; None where the section names no file of them."""
        if self.settings.promise_on is None:
            return None
        sets = (self.train_examples, self.dev_examples, self.unlabelled_examples)
        used = [part for part in (*sets, self.augmented_examples) if part is not None]
        path = self.settings.promise_on
        return promise_rows.promise_examples(path, self.task, used, self.settings)

    def texts(self, *, labelled: bool = False, augmented: bool = False) -> batches.EncodedExamples:
        """The training texts, and unless labels are needed those without."""
        encoded = self.augmented if augmented else self.train.encoded
        assert encoded is not None
        if labelled or self.unlabelled is None:
            return encoded
        return encoded.followed_by(self.unlabelled)

    def read_by(self, tokenizer: Tokenizer) -> TaskData:
        """The same examples in the same order, in the tokens of another tokenizer."""
        settings, further = self.settings, self.unlabelled_examples
        data = dataclasses.replace(
            self,
            train=to_train(encode(settings, tokenizer, self.train_examples), self.seed),
            dev=to_evaluate(encode(settings, tokenizer, self.dev_examples)),
            unlabelled=None if further is None else encode(settings, tokenizer, further),
            tokenizer=tokenizer,
        )
        vars(data)["promise_examples"] = self.promise_examples  # read once, warned of once
        return data


def encode(
    settings: config.DataConfig,
    tokenizer: Tokenizer,
    examples: tasks.Examples,
    max_length: int | None = None,
) -> batches.EncodedExamples:
    """Tokenizes examples as a data section says, or up to another length."""
    return batches.encode_examples(
        examples,
        tokenizer,
        max_length or settings.max_length,
        doc_stride=settings.doc_stride,
        max_question_length=settings.max_question_length,
    )


def to_train(encoded: batches.EncodedExamples, seed: int) -> batches.Batches:
    """Batches of a training set, of the size and in the order of every stage by default."""
    return batches.Batches(encoded, seed=seed)


def to_evaluate(encoded: batches.EncodedExamples) -> batches.Batches:
    """Batches of a set that is only answered, in a fixed order."""
    return batches.Batches(encoded, batch_size=EVALUATED, shuffle=False)
