"""From a text to the answer of an exported file, and whether it is sure. Needs no TensorFlow."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import re
import threading
import time
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from tfdistill import errors, manifest
from tfdistill.data import tagged_words
from tfdistill.io import files, safe_paths
from tfdistill.manifest.confidence import Confidence
from tfdistill.tasks import decoding, kind_named, probabilities
from tfdistill.tasks.encoded import EncodedExamples
from tfdistill.tasks.patterns import NEVER, Pattern, covered, find_patterns
from tfdistill.tasks.words import find_words
from tfdistill.tflite import TfliteModel, described
from tfdistill.tokenization.reading import exported_tokenizer

ANOTHER_KIND = "another kind of text"
"""The reason of an answer that its probability alone would make sure."""


@dataclasses.dataclass(frozen=True)
class Entity:
    """An entity in a text.

    Attributes:
      label: Its type.
      start: Its first character in the text, as Python counts them.
      end: One past its last character, marks on it included.
      text: ``text[start:end]``.
      probability: That it is an entity of this type with these edges, see `decoding.entities`; 1 of
        what a rule finds.
      sure: Whether the file promises that at most a share of such entities is wrong; None where it
        promises nothing of entities; True of what a rule finds, see `Predictor`.
    """

    label: str
    start: int
    end: int
    text: str
    probability: float
    sure: bool | None


class Masked(NamedTuple):
    """A text without its entities.

    Attributes:
      text: The text with a placeholder such as ``[PER_1]`` for each entity.
      table: What each placeholder stands for.
    """

    text: str
    table: dict[str, str]

    def restore(self, text: str) -> str:
        """Puts the entities back into this text, or into one made of it."""
        placeholders = "|".join(map(re.escape, self.table))
        return re.sub(placeholders or "(?!)", lambda match: self.table[match[0]], text)


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The answer to a text.

    Attributes:
      text: The text.
      pair: The second text, or None.
      label: The label; of several labels those that apply, of words a tag each, those of the best
        path (`decoding.best_path`); the number of a regression.
      probability: Of the whole answer, calibrated where labelled examples were there to fit it;
        None for a number.
      sure: Whether the file promises that at most a share of such answers is wrong; None where it
        promises nothing, or of entities alone.
      milliseconds: Of tokenizer and file, without the wait for other threads.
      words: The words of the tags, see `words.find_words`.
      reason: Why it is not sure where the probability is not what says so: "another kind of text".
      entities: Those that the tags name, in order; None of tags that name none, and of other kinds.
      hidden: What `Predictor.mask` hides besides, see `decoding.hidden_entities`: words outside of
        these entities, where the file promises a recall.
    """

    text: str
    pair: str | None
    label: str | tuple[str, ...] | float
    probability: float | None
    sure: bool | None
    milliseconds: float
    words: tuple[str, ...] = ()
    reason: str | None = None
    entities: tuple[Entity, ...] | None = None
    hidden: tuple[Entity, ...] = ()


class Predictor(contextlib.AbstractContextManager["Predictor"]):
    """An exported file that answers texts: ``Predictor("runs/sst2/export").predict("Good.")``.

    Threads may share it; they are answered one after the other. One for each thread answers them at
    the same time.

    Args:
      path: The folder of an export, or a .tflite file in one.
      max_error: The promise that says which answers, or entities, are sure: one of those in
        model.json, at most this share of them is wrong. Default 0.05 where the file promises
        anything.
      max_disagreement: In place of `max_error`, the agreement that says it: at most this share of
        all requests gets a sure answer unlike that of the large model that the file speaks for.
      threads: Threads of LiteRT.

    Attributes:
      card: Its manifest.
      promise: The promise or agreement, or None.
      patterns: Whether e-mail addresses, IBANs and payment cards are found by their form and
        checksum, too, where tags name entities and O: see `patterns.find_patterns`. The model then
        answers for no word in one of these. Default False.

    Raises:
      ManifestError: If the manifest is missing or damaged, or answers no texts of this kind.
      ConfigError: If the file does not promise such an error or disagreement, if both are named, or
        `threads` is not at least 1.
      ModelFileError: If LiteRT cannot open the file.

    Examples:
      >>> with tfdistill.Predictor("student") as predictor:  # an export
      ...     predictor.predict("a gripping film").label in ("negative", "positive")
      True
    """

    def __init__(
        self,
        path: files.Path,
        *,
        max_error: float | None = None,
        max_disagreement: float | None = None,
        threads: int = 1,
    ) -> None:
        path = pathlib.Path(path)
        folder = path if path.is_dir() else path.parent
        self.card = manifest.read_manifest(path)
        self._task, self._tokens = _answering(self.card, folder)
        self._kind = kind_named(self._task.kind)
        self.patterns = False
        record = self.card.confidence or Confidence(temperature=1, num_examples=0, sha256="0" * 64)
        self.promise = record.promise_for(max_error, max_disagreement)
        file = safe_paths.inside(folder, self.card.model.file)
        described.check_signatures(self.card, file)
        self._file = TfliteModel(file, threads=threads)
        self._tokenizer = exported_tokenizer(folder, self._tokens)
        self._warm: set[int] = set()
        self._lock = threading.Lock()

    def predict(self, text: str, pair: str | None = None) -> Prediction:
        """Answers a text.

        Args:
          text: The text; where words have tags, running text of any length, also without a word.
          pair: The second text, for a task of pairs.

        Raises:
          DataError: If a pair is missing or not wanted.
        """
        if (pair is not None) != self._task.pair:
            expected = "a second text" if self._task.pair else "one text"
            raise errors.DataError(f"text for task {self._task.name!r}", expected, repr(pair))
        with self._lock:
            begin = time.perf_counter()
            offsets = find_words(text) if self._kind.over_tokens else None
            encoded = self._encode(text, pair, offsets)
            tokenized = time.perf_counter() - begin
            for row in range(len(encoded)):
                self._warm_up(encoded, row)
            begin = time.perf_counter()
            outputs = [self._run(encoded, row) for row in range(len(encoded))]
            milliseconds = 1000 * (tokenized + time.perf_counter() - begin)
        return self._answer(text, pair, offsets, encoded, outputs, milliseconds)

    def mask(self, text: str) -> Masked:
        """Puts a placeholder in the place of each entity of a text.

        A placeholder is ``[TYPE_n]``: n counts the different entities of a type from 1, in the
        order of the text, and leaves out numbers whose placeholder stands in the text already. The
        same text of the same type has the same one. Where the file promises a recall
        (`manifest.confidence.Recall`), words that may be of an entity are hidden, too.

        Args:
          text: Running text.

        Returns:
          The masked text, and the table that restores it.

        Raises:
          ConfigError: If the file's labels name no entities.
        """
        answer = self.predict(text)
        if answer.entities is None:
            remedy = "Distil a task whose tags are O, B-TYPE and I-TYPE."
            expected, received = "a file that tags entities", f"labels {self._task.labels}"
            raise errors.ConfigError("mask", expected, errors.shortened(received), remedy)
        taken = set(re.findall(r"\[[^\[\]]*_[0-9]+\]", text))
        names: dict[tuple[str, str], str] = {}
        numbers: dict[str, int] = {}
        parts, end = [], 0
        for entity in sorted(answer.entities + answer.hidden, key=lambda entity: entity.start):
            while (entity.label, entity.text) not in names:
                numbers[entity.label] = numbers.get(entity.label, 0) + 1
                name = f"[{entity.label}_{numbers[entity.label]}]"
                if name not in taken:
                    names[entity.label, entity.text] = name
            parts += [text[end : entity.start], names[entity.label, entity.text]]
            end = entity.end
        table = {name: original for (_, original), name in names.items()}
        return Masked("".join([*parts, text[end:]]), table)

    def __exit__(self, *_: object) -> None:
        """Closes the file."""
        self._file.close()

    def _encode(self, text: str, pair: str | None, offsets: np.ndarray | None) -> EncodedExamples:
        most = self._tokens.max_length
        if offsets is not None:
            return tagged_words.encode_words([text], [offsets], None, self._tokenizer, most)
        texts = [self._tokens.prompt + text]
        return self._tokenizer.fast.encode_batch(texts, None if pair is None else [pair], most)

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
        offsets: np.ndarray | None,
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
        rows = np.stack(outputs) if offsets is None else np.concatenate(outputs)
        logits = probabilities.logits_of(rows, softmax=self.card.softmax)
        if offsets is not None:
            return self._tagged(text, offsets, encoded, logits, milliseconds)
        shares = probabilities.of_logits(self._kind, logits, self.card.temperature)
        decided = probabilities.decided(self._kind, shares)
        probability = float(probabilities.confidence(self._kind, shares).prod())
        if self._kind.many_classes:
            chosen = np.flatnonzero(decided[0])
            label: str | tuple[str, ...] = tuple(labels[index] for index in chosen)
        else:
            label = labels[decided[0]]
        whole = text if pair is None else f"{text} {pair}"
        (sure,), reason = self._judged([probability], whole, encoded)
        return Prediction(text, pair, label, probability, sure, milliseconds, reason=reason)

    def _judged(
        self, confidences: Iterable[float], text: str, encoded: EncodedExamples
    ) -> tuple[list[bool | None], str | None]:
        """Whether answers to a text, or its entities, are sure; why probable ones are not."""
        sure = [self.promise and self.promise.covers(share) for share in confidences]
        familiarity = self.card.confidence and self.card.confidence.familiarity
        familiar = familiarity is None or familiarity.covers(encoded)[0]
        if any(sure) and not (familiar and self._is_read(text)):
            return [False] * len(sure), ANOTHER_KIND
        return sure, None

    def _tagged(
        self,
        text: str,
        offsets: np.ndarray,
        encoded: EncodedExamples,
        logits: np.ndarray,
        milliseconds: float,
    ) -> Prediction:
        labels, temperature = self._task.labels, self.card.temperature
        rules = decoding.allowed(labels)
        by_rule: list[Pattern] = []
        if self.patterns and rules.begins.any() and "O" in labels:
            assert encoded.word_counts is not None
            by_rule = find_patterns(text)
            answering = np.repeat(encoded.word_tokens, encoded.word_counts[encoded.word_tokens])
            outside = np.where(np.array(labels) == "O", 0.0, NEVER)
            logits[answering[covered(by_rule, offsets)]] = outside
        tags = decoding.decode_words(logits, encoded, labels, temperature=temperature)
        probability = float(np.exp(tags.log_probabilities.sum()))
        scores, logs = tags.scores, tags.log_probabilities
        part = decoding.entities(scores, tags.tags, rules, tags.bounds, logs)
        shares, record = part.probabilities.tolist(), self.card.confidence
        whole = record is None or not record.entity_promises
        sure, reason = self._judged([probability] if whole else shares, text, encoded)
        entities, hidden = None, []
        if rules.begins.any():
            before = np.append(0, np.cumsum(tags.counts))  # the words before each piece

            def entity(
                label: str, first: int, end: int, share: float, is_sure: bool | None
            ) -> Entity:
                start, stop = int(offsets[before[first], 0]), int(offsets[before[end] - 1, 1])
                return Entity(label, start, stop, text[start:stop], share, is_sure)

            types = [labels[tag][2:] for tag in tags.tags[part.firsts]]
            each = [None] * len(types) if whole else sure
            of_model = map(entity, types, part.firsts, part.ends, shares, each)
            of_rules = (Entity(*it, text[it.start : it.end], 1.0, True) for it in by_rule)
            entities = tuple(sorted([*of_model, *of_rules], key=lambda entity: entity.start))
            threshold = record and record.recall and record.recall.threshold
            if threshold is not None:
                runs = decoding.hidden_entities(scores, tags.tags, labels, threshold)
                hidden = [entity(*run, False) for run in runs]
        names = tuple(labels[index] for index in tags.words)
        words = tuple(text[start:end] for start, end in offsets.tolist())
        of_text = sure[0] if whole else None
        details = milliseconds, words, reason, entities, tuple(hidden)
        return Prediction(text, None, names, probability, of_text, *details)


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
    if not kind.answers_texts:
        remedy = "`tfdistill evaluate` scores it, and `tfdistill index` searches by vectors."
        raise errors.ManifestError(
            f"{folder}", "a file that answers with labels or a number", kind.name, remedy
        )
    return card.task, card.tokenizer
