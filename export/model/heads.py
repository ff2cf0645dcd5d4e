"""The unit that a model answers for, by its head: a text, each token of it, or a span in it.

Outputs are laid out in rows: a head over whole texts gives a row for each example (a vector is such
a row), a head over tokens one for each token, padding left out, in the order of
`EncodedExamples.ids`.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from tfdistill import errors
from tfdistill.tasks import TaskSpec, registry
from tfdistill.tasks.encoded import UNLABELLED, EncodedExamples, spans
from tfdistill.tflite.agreement import neighbours
from tfdistill.tflite.model import TfliteModel

LOGITS, SCORES = "logits", "scores"
START_LOGITS, END_LOGITS = "start_logits", "end_logits"
EMBEDDING = "embedding"


class OutputHead(abc.ABC):
    """One kind of head; `HEADS` has all by their names in `models.head_of`."""

    name: ClassVar[str]
    description: ClassVar[str]  # what a model with it is
    per_token: ClassVar[bool] = True  # whether it has a row for each token
    # whether its outputs are classes, which exclude each other where they are several and the task
    # does not say otherwise
    classifies: ClassVar[bool] = False
    vectors: ClassVar[bool] = False  # whether its output is a vector
    decodes_spans: ClassVar[bool] = False  # whether an answer is read off starts and ends
    from_first_token: ClassVar[bool] = False  # whether it reads the last state of [CLS] alone
    in_mediapipe: ClassVar[bool] = False  # whether MediaPipe has a task for it
    no_softmax: ClassVar[str] = ""  # why there are no probabilities, where there are none

    def output_names(self, *, softmax: bool = False) -> tuple[str, ...]:
        """Returns the names of a file's outputs; softmax: whether it gives probabilities."""
        return (SCORES if softmax else LOGITS,)

    def num_names(self, num_labels: int) -> int:
        """Counts the label names of so many outputs."""
        return num_labels if self.classifies and num_labels > 1 else 0

    @abc.abstractmethod
    def output_shape(self, length: int, num_labels: int) -> tuple[int, ...]:
        """Returns the shape of each output of the signature for `length` tokens."""

    def rows_of(self, encoded: EncodedExamples, indices: np.ndarray) -> np.ndarray:
        """Finds the rows of outputs, int64 (rows,), of the examples `indices`, int (m,)."""
        index = np.asarray(indices, np.int64)
        return spans(encoded.offsets[index], encoded.lengths[index])

    @abc.abstractmethod
    def decisions(
        self, outputs: np.ndarray, encoded: EncodedExamples, task: TaskSpec | None = None
    ) -> np.ndarray | None:
        """Returns what a program would decide from outputs (rows, width), logits or probabilities.

        What is compared one by one, int or bool with the decisions as first axis; None for a
        regression. With a task of kind "multi_label", several labels apply at once.
        """

    def rows_of_batch(self, outputs: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Returns the rows of a padded batch: (n, tokens, width) -> (rows, width)."""
        return outputs[np.arange(outputs.shape[1]) < lengths[:, None]]

    def join(self, answers: Sequence[np.ndarray]) -> np.ndarray:
        """Joins the rows of several examples, see `tflite.model.rows_of`."""
        return np.concatenate(answers)

    def fault_of(self, examples: EncodedExamples) -> tuple[str, str, str] | None:
        """The expected and the received value, and a remedy, where examples are not of its kind."""
        del examples
        return None


class SequenceHead(OutputHead):
    """A row (num_labels,) for each text."""

    name = "sequence"
    description = "a classifier or regression of whole texts"
    per_token = False
    classifies = from_first_token = in_mediapipe = True

    def output_shape(self, length: int, num_labels: int) -> tuple[int, ...]:
        """Returns (1, num_labels)."""
        return (1, num_labels)

    def rows_of(self, encoded: EncodedExamples, indices: np.ndarray) -> np.ndarray:
        """Returns the indices themselves."""
        return np.asarray(indices, np.int64)

    def decisions(
        self, outputs: np.ndarray, encoded: EncodedExamples, task: TaskSpec | None = None
    ) -> np.ndarray | None:
        """Returns the class, int (n,); of several labels whether each applies, bool (n, labels)."""
        if outputs.shape[1] == 1:
            return None
        if task is not None and task.traits.many_classes:
            return outputs > 0
        return outputs.argmax(axis=1)

    def rows_of_batch(self, outputs: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Returns the outputs themselves, (n, num_labels)."""
        return outputs

    def join(self, answers: Sequence[np.ndarray]) -> np.ndarray:
        """Stacks the rows."""
        return np.stack(answers)


class EmbeddingHead(SequenceHead):
    """A vector (width,) for each text."""

    name = "embedding"
    description = "a sentence encoder"
    classifies = from_first_token = False
    vectors = True
    no_softmax = "A vector is no distribution: leave it out."

    def output_names(self, *, softmax: bool = False) -> tuple[str, ...]:
        """Returns "embedding"; a vector has no probabilities."""
        return (EMBEDDING,)

    def decisions(
        self, outputs: np.ndarray, encoded: EncodedExamples, task: TaskSpec | None = None
    ) -> np.ndarray | None:
        """Returns the nearest other text of each of the first 4,096 by cosine, int (n,)."""
        return None if len(outputs) < 2 else neighbours(outputs, 1)[:, 0]


class TokenHead(OutputHead):
    """A row (num_labels,) for each token."""

    name = "token"
    description = "a classifier of tokens"
    classifies = True

    def output_shape(self, length: int, num_labels: int) -> tuple[int, ...]:
        """Returns (1, length, num_labels)."""
        return (1, length, num_labels)

    def decisions(
        self, outputs: np.ndarray, encoded: EncodedExamples, task: TaskSpec | None = None
    ) -> np.ndarray | None:
        """Returns the class of each token, int (m,), where there are labels of those with one."""
        labels = encoded.labels
        return outputs[slice(None) if labels is None else labels != UNLABELLED].argmax(axis=1)

    def fault_of(self, examples: EncodedExamples) -> tuple[str, str, str] | None:
        """Refuses labels of rows."""
        if examples.labels is None or examples.token_labels:
            return None
        return "a label for each token", "a label for each row", "Encode words with tags."


class SpanHead(OutputHead):
    """A row (2,) for each token: the logits of being the start and the end of the answer."""

    name = "span"
    description = "a model that answers with a span"
    decodes_spans = True
    no_softmax = "Take the softmax over the tokens of the passage where the answer is decoded."

    def output_names(self, *, softmax: bool = False) -> tuple[str, ...]:
        """Returns "start_logits" and "end_logits"; there are no probabilities of spans."""
        return (START_LOGITS, END_LOGITS)

    def output_shape(self, length: int, num_labels: int) -> tuple[int, ...]:
        """Returns (1, length)."""
        return (1, length)

    def decisions(
        self, outputs: np.ndarray, encoded: EncodedExamples, task: TaskSpec | None = None
    ) -> np.ndarray | None:
        """Returns the most probable first and last token of each window, int (n, 2)."""
        parts = np.split(outputs, encoded.offsets[1:-1])
        return np.stack([part.argmax(axis=0) for part in parts])

    def fault_of(self, examples: EncodedExamples) -> tuple[str, str, str] | None:
        """Refuses what are no windows."""
        if examples.span_sources is not None:
            return None
        remedy = "Pass the result of data.encode_examples, or Batches of it."
        return "windows of questions", "batches without their texts", remedy


HEADS: dict[str, OutputHead] = {
    head.name: head for head in (SequenceHead(), TokenHead(), SpanHead(), EmbeddingHead())
}
"""Name -> head."""


def register(head: OutputHead) -> None:
    """Adds a head to `HEADS`, under a name that no other has."""
    registry.add(HEADS, head.name, head, "head of files")


def head_of_file(file: TfliteModel) -> OutputHead:
    """Returns the head that has the outputs of a file; refuses the file of another program."""
    ranks = {len(shape) for shape in file.outputs.values()}
    for head in HEADS.values():
        for softmax in (False, True):
            names = head.output_names(softmax=softmax)
            if set(file.outputs) == set(names) and ranks == {len(head.output_shape(1, 1))}:
                return head
    raise errors.ExportError(
        f"outputs of {file.path.name}",
        "logits, scores, start_logits and end_logits, or embedding",
        file.outputs,
        "It is another program's file. Export the model with export.to_tflite.",
    )


def num_scored(encoded: EncodedExamples) -> int:
    """Counts what a metric is a mean over: texts, however many rows each has."""
    return len(encoded) if encoded.sources is None else len(np.unique(encoded.sources))
