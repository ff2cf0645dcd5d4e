"""From a text to the answer of an exported file, and whether it is sure. Needs no TensorFlow."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import threading
import time

import numpy as np

from tfdistill import errors, manifest
from tfdistill.data import tagged_words
from tfdistill.io import files, safe_paths
from tfdistill.manifest.confidence import Promise
from tfdistill.tasks import kind_named, probabilities
from tfdistill.tasks.conll import UNLABELLED
from tfdistill.tasks.encoded import EncodedExamples
from tfdistill.tflite import TfliteModel, described
from tfdistill.tokenization.reading import exported_tokenizer

ANOTHER_KIND = "another kind of text"
"""The reason of an answer that its probability alone would make sure."""


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The answer to a text.

    Attributes:
      text: The text.
      pair: The second text, or None.
      label: The label; of several labels those that apply, of words a tag each; the number of a
        regression.
      probability: Of the whole answer, calibrated where labelled examples were there to fit it;
        None for a number.
      sure: Whether the file promises that at most a share of such answers is wrong; None where it
        promises nothing.
      milliseconds: Of tokenizer and file, without the wait for other threads.
      words: The words of the tags.
      reason: Why it is not sure where the probability is not what says so: "another kind of text".
    """

    text: str
    pair: str | None
    label: str | tuple[str, ...] | float
    probability: float | None
    sure: bool | None
    milliseconds: float
    words: tuple[str, ...] = ()
    reason: str | None = None


class Predictor(contextlib.AbstractContextManager["Predictor"]):
    """An exported file that answers texts: ``Predictor("runs/sst2/export").predict("Good.")``.

    Threads may share it; they are answered one after the other. One for each thread answers them at
    the same time.

    Args:
      path: The folder of an export, or a .tflite file in one.
      max_error: The promise that says which answers are sure: one of those in model.json, at most
        this share of them is wrong. Default 0.05 where the file promises anything.
      threads: Threads of LiteRT.

    Attributes:
      card: Its manifest.
      promise: The promise, or None.

    Raises:
      ManifestError: If the manifest is missing or damaged, or answers no texts of this kind.
      ConfigError: If the file does not promise such an error, or `threads` is not at least 1.
      ModelFileError: If LiteRT cannot open the file.
    """

    def __init__(
        self, path: files.Path, *, max_error: float | None = None, threads: int = 1
    ) -> None:
        path = pathlib.Path(path)
        folder = path if path.is_dir() else path.parent
        self.card = manifest.read_manifest(path)
        self._task, self._tokens = _answering(self.card, folder)
        self._kind = kind_named(self._task.kind)
        record = self.card.confidence
        self.promise: Promise | None = None
        if record is not None:
            self.promise = record.promise_for(max_error)
        elif max_error is not None:
            raise errors.ConfigError(
                "max_error", "a file that promises it", "one without promises",
                "Export with --promise-on FILE: held-out labelled texts.",
            )  # fmt: skip
        file = safe_paths.inside(folder, self.card.model.file)
        described.check_signatures(self.card, file)
        self._file = TfliteModel(file, threads=threads)
        self._tokenizer = exported_tokenizer(folder, self._tokens).fast
        self._warm: set[int] = set()
        self._lock = threading.Lock()

    def predict(self, text: str, pair: str | None = None) -> Prediction:
        """Answers a text.

        Args:
          text: The text; of words separated by white space where each has a tag.
          pair: The second text, for a task of pairs.

        Raises:
          DataError: If a pair is missing or not wanted, or a text of words has none.
        """
        if (pair is not None) != self._task.pair:
            expected = "a second text" if self._task.pair else "one text"
            raise errors.DataError(f"text for task {self._task.name!r}", expected, repr(pair))
        words = tuple(text.split()) if self._kind.over_tokens else ()
        if self._kind.over_tokens and not words:
            raise errors.DataError("text", "at least one word", repr(text))
        with self._lock:
            begin = time.perf_counter()
            encoded = self._encode(text, pair, words)
            tokenized = time.perf_counter() - begin
            for row in range(len(encoded)):
                self._warm_up(encoded, row)
            begin = time.perf_counter()
            outputs = [self._run(encoded, row) for row in range(len(encoded))]
            milliseconds = 1000 * (tokenized + time.perf_counter() - begin)
        return self._answer(text, pair, words, encoded, outputs, milliseconds)

    def __exit__(self, *_: object) -> None:
        """Closes the file."""
        self._file.close()

    def _encode(self, text: str, pair: str | None, words: tuple[str, ...]) -> EncodedExamples:
        most = self._tokens.max_length
        if words:
            tags = [np.zeros(len(words), np.int32)]  # they mark the first piece of each word
            return tagged_words.encode_words([words], tags, self._tokenizer, most)
        texts = [self._tokens.prompt + text]
        return self._tokenizer.encode_batch(texts, None if pair is None else [pair], most)

    def _is_read(self, text: str) -> bool:
        """Whether the vocabulary has pieces for half of a text's letters: of another script not."""
        pieces = self._tokenizer.locate([text])
        letters = np.cumsum([0, *(character.isalpha() for character in text)])
        counts = letters[pieces.ends] - letters[pieces.starts]
        return bool(2 * counts[pieces.ids == self._tokenizer.unk_id].sum() <= letters[-1])

    def _run(self, encoded: EncodedExamples, row: int) -> np.ndarray:
        return self._file.predict(encoded.row(row), encoded.row_types(row), pad_id=encoded.pad_id)

    def _warm_up(self, encoded: EncodedExamples, row: int) -> None:
        length = self._file.length_for(int(encoded.lengths[row]))
        if length not in self._warm:
            self._run(encoded, row)
            self._warm.add(length)

    def _answer(
        self,
        text: str,
        pair: str | None,
        words: tuple[str, ...],
        encoded: EncodedExamples,
        outputs: list[np.ndarray],
        milliseconds: float,
    ) -> Prediction:
        if not all(np.isfinite(values).all() for values in outputs):
            raise errors.ModelFileError(
                f"{self.card.model.file}", "finite outputs", "others", "Export again."
            )  # fmt: skip
        if self._kind.one_number:
            number = float(outputs[0][0])
            return Prediction(text, pair, number, None, None, milliseconds)
        labels = self._task.labels
        rows = np.concatenate(outputs) if words else np.stack(outputs)
        if words:
            rows = rows[encoded.labels != UNLABELLED]
        logits = probabilities.logits_of(rows, softmax=self.card.softmax)
        shares = probabilities.of_logits(self._kind, logits, self.card.temperature)
        decided = probabilities.decided(self._kind, shares)
        probability = float(probabilities.confidence(self._kind, shares).prod())
        if self._kind.many_classes:
            chosen = np.flatnonzero(decided[0])
            label: str | tuple[str, ...] = tuple(labels[index] for index in chosen)
        elif words:
            label = tuple(labels[index] for index in decided)
        else:
            label = labels[decided[0]]
        sure = None if self.promise is None else self.promise.covers(probability)
        reason = None
        familiarity = self.card.confidence and self.card.confidence.familiarity
        familiar = familiarity is None or familiarity.covers(encoded)[0]
        if sure and not (familiar and self._is_read(text if pair is None else f"{text} {pair}")):
            sure, reason = False, ANOTHER_KIND
        return Prediction(text, pair, label, probability, sure, milliseconds, words, reason)


def _answering(
    card: manifest.Manifest, folder: pathlib.Path
) -> tuple[manifest.TaskRecord, manifest.TokenizerRecord]:
    if card.task is None or card.tokenizer is None:
        missing = "task" if card.task is None else "vocabulary"
        raise errors.ManifestError(
            f"{folder}", "a manifest with a task and a vocabulary", f"no {missing}",
            "Export with one.",
        )  # fmt: skip
    kind = kind_named(card.task.kind)
    if not (kind.gives_probabilities or kind.one_number):
        remedy = "`tfdistill evaluate` scores it, and `tfdistill index` searches by vectors."
        raise errors.ManifestError(
            f"{folder}", "a file that answers with labels or a number", kind.name, remedy
        )
    return card.task, card.tokenizer
