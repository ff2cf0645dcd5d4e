"""The confidence of a file's answers, as model.json states it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, ClassVar

import pydantic

from tfdistill import errors
from tfdistill.manifest.familiarity import Familiarity
from tfdistill.manifest.parts import ManifestPart, Sha256

USUAL_MAX_ERROR = 0.05
"""The promise that decides whether an answer is sure where none is named."""
FEWEST_OTHERS = 45  # texts of no label that raise a threshold
_MOVED = 0.02  # of the answered share, from one file to another
_SIGNED = ("max_error", "rows", "threshold", "coverage", "error", "rows_needed")
_SIGNED_OF_ALL = (
    *("max_disagreement", "rows", "threshold", "coverage", "disagreement", "rows_needed"),
    "requests",
)
_SIGNED_OF_RECALL = ("min_recall", "rows", "threshold", "recall", "needless")
_SIGNED_OF_TEXTS = ("threshold", "first_word", "num_pieces", "pieces", "pairs")


class Promise(ManifestPart):
    """Of the answers whose confidence is above `threshold` at most `max_error` are wrong.

    It holds with a probability of 90% over the labelled texts that it was found on, `rows` in
    number: `coverage` is the share of them that is sure, `error` the share of these that is
    answered wrongly. Where no threshold keeps it, these three are None, and `rows_needed`
    says how many such texts would show it; None too if more would not help.

    Of `others`, texts of no label, one half raises the threshold until at most 5% of them are sure;
    `others_sure` is the share of the other half, or of all where fewer than 45 raise nothing.
    """

    answers: ClassVar[str] = "answers"  # what is sure
    of_rows: ClassVar[str] = "{} texts"  # of what, with the number of rows

    max_error: float = pydantic.Field(gt=0, lt=1)
    rows: int = pydantic.Field(gt=0)
    threshold: float | None = pydantic.Field(default=None, ge=0, le=1)
    coverage: float | None = pydantic.Field(default=None, gt=0, le=1)
    error: float | None = pydantic.Field(default=None, ge=0, le=1)
    rows_needed: int | None = None
    others: int | None = None  # texts of no label that were given for it
    others_sure: float | None = None  # the share of those that measure it

    def covers(self, confidence: float) -> bool:
        """Whether an answer of this confidence is sure."""
        return self.threshold is not None and confidence > self.threshold

    @property
    def summary(self) -> str:
        """The promise as a clause."""
        what = f"at most {self.max_error:.0%} of the sure {self.answers} wrong"
        if self.coverage is not None and self.error is not None:
            rows = self.of_rows.format(self.rows)
            return (
                f"{what}: sure of {self.coverage:.0%} of {rows}, {self.error:.1%} of them wrong "
                f"(confidence above {self.threshold:.4f}), {self.on_others}"
            )
        needed = self.rows_needed
        remedy = "and more would not help" if needed is None else f"it would take about {needed:,}"
        return f"{what}: no threshold keeps it on {self.rows} texts, {remedy}"

    @property
    def on_others(self) -> str:
        """The number of texts of no label that are sure, as a clause."""
        if self.others is None or self.others_sure is None:
            return "not tested on texts of another kind"
        few = self.others < FEWEST_OTHERS
        number = self.others if few else self.others - self.others // 2
        clause = f"{number} other texts: {self.others_sure:.1%} sure"
        return clause + (", too few to raise the threshold" if few else "")


class ModelAgreement(ManifestPart):
    """At most `max_disagreement` of all requests are sure and not answered as a large model would.

    The large model is the one whose answers trained the file. An answer is sure if its confidence
    is above `threshold`. It holds with a probability of 90% over the texts that it was found on,
    `rows` in number, for requests drawn like them; of several levels each holds singly. `coverage`
    is the share of these texts that is sure, `disagreement` the share of *all* of them that is sure
    and answered otherwise; a text to which the large model had no label counts, where it is sure.
    `requests` is the coverage where each text counts as often as it was requested, None where that
    is not known. Where no threshold keeps it, these are None, and `rows_needed` says how many texts
    the next one takes.
    """

    max_disagreement: float = pydantic.Field(gt=0, lt=1)
    rows: int = pydantic.Field(gt=0)
    threshold: float | None = pydantic.Field(default=None, ge=0, le=1)
    coverage: float | None = pydantic.Field(default=None, gt=0, le=1)
    disagreement: float | None = pydantic.Field(default=None, ge=0, le=1)
    rows_needed: int | None = None
    requests: float | None = pydantic.Field(default=None, ge=0, le=1)

    def covers(self, confidence: float) -> bool:
        """Whether an answer of this confidence is sure."""
        return self.threshold is not None and confidence > self.threshold

    @property
    def summary(self) -> str:
        """The contract as a clause."""
        what = f"at most {self.max_disagreement:.0%} of all requests sure and unlike the model's"
        if self.coverage is None or self.disagreement is None:
            needed = f"it takes {self.rows_needed:,}"
            return f"{what} answer: no threshold keeps it on {self.rows} texts, {needed}"
        return (
            f"{what} answer: sure of {self.coverage:.0%} of {self.rows} texts, "
            f"{self.disagreement:.1%} of all of them sure and unlike it (confidence above "
            f"{self.threshold:.4f}), {self.share:.0%} {self.counted} stay here, "
            f"{self.calls_left} calls left of 1,000"
        )

    @property
    def share(self) -> float | None:
        """The share of `counted` that stays on the device; None without a threshold."""
        return self.coverage if self.requests is None else self.requests

    @property
    def counted(self) -> str:
        """What the share is of."""
        return "of distinct texts" if self.requests is None else "of requests"

    @property
    def calls_left(self) -> int | None:
        """The calls of the large model that are left of 1,000."""
        return None if self.share is None else round(1000 * (1 - self.share))


class EntityPromise(Promise):
    """Of the entities whose probability is above `threshold` at most `max_error` are wrong.

    Right is one whose edges and type are exact. `rows` are texts in which the file finds entities,
    `coverage` is the share of these entities that is sure; the rest is as in `Promise`.
    """

    answers: ClassVar[str] = "entities"
    of_rows: ClassVar[str] = "the entities in {} texts"


class Recall(ManifestPart):
    """Of the entities at least `min_recall` are masked, where words above `threshold` are, too.

    Masked are the words of the entities that the file finds, and those with 1 - P(O) above the
    threshold; an entity is masked if all of its words are. It holds with a probability of 90% over
    the labelled texts that it was found on, `rows` of them with entities: `recall` is the share
    of their entities that is masked, `needless` the share of the words in no entity that is;
    `recall_of_path` and `needless_of_path` are these without the threshold. Where the texts are too
    few the threshold is None, and `possible` is the highest recall that they could show.
    """

    min_recall: float = pydantic.Field(gt=0, lt=1)
    rows: int = pydantic.Field(ge=0)
    threshold: float | None = pydantic.Field(default=None, ge=0, le=1)
    recall: float | None = pydantic.Field(default=None, ge=0, le=1)
    needless: float | None = pydantic.Field(default=None, ge=0, le=1)
    recall_of_path: float | None = pydantic.Field(default=None, ge=0, le=1)
    needless_of_path: float | None = pydantic.Field(default=None, ge=0, le=1)
    rows_needed: int | None = None
    possible: float | None = pydantic.Field(default=None, ge=0, le=1)

    @property
    def summary(self) -> str:
        """The promise as a clause, with its price."""
        what = f"at least {self.min_recall:.4g} of the entities masked"
        if self.threshold is None:
            remedy = f"it takes about {self.rows_needed:,}, {self.rows} show at most"
            return f"{what}: too few texts with entities, {remedy} {self.possible:.4g}"
        return (
            f"{what}: {self.recall:.1%} of those in {self.rows} texts, for {self.needless:.2%} of "
            f"the other words (1 - P(O) above {self.threshold:.3g}); without a threshold "
            f"{self.recall_of_path:.1%} for {self.needless_of_path:.2%}"
        )


class Confidence(ManifestPart):
    """The confidence of an answer, and which answers are sure enough.

    The probability of a label is ``softmax(z / temperature)``, where several apply
    ``sigmoid(z / temperature)``; z are the logits, or the logarithms of a file's probabilities,
    which count as at least 1e-12. The confidence is the probability of the whole answer: of a
    class its own, of several labels the product of ``max(p, 1 - p)``, of tags the product over the
    words; of an entity that of its part of the path, see `decoding.entities`.

    Attributes:
      temperature: What a reader divides the logits by, fitted on the labelled texts that the file
        was checked on; 1 where there are none, and of a file that divides them itself.
      temperature_inside: What a file of probabilities has divided its logits by, fitted on the same
        texts; 1 of other files.
      promises: By rising `max_error`; empty where no other labelled texts were given.
      familiarity: What tells texts of another kind, whose answers are not sure; None where too few
        texts were given for it, and of tags.
      agreements: By rising `max_disagreement`; empty where no large model's answers were given.
      answered_by: The large model of these and its version, where it is named.
      answered_labels: The texts of the promises whose label is an answer of it, for want of a gold
        label.
      entity_promises: In place of `promises` where tags name entities.
      recall: The recall that `Predictor.mask` keeps, where one was wanted.
      sha256: Of these values and of the model file: they say nothing about another one.
    """

    temperature: float = pydantic.Field(gt=0)
    temperature_inside: float = pydantic.Field(default=1.0, gt=0)
    num_examples: int = pydantic.Field(ge=0)
    promises: tuple[Promise, ...] = ()
    familiarity: Familiarity | None = None
    agreements: tuple[ModelAgreement, ...] = ()
    answered_by: str | None = None
    answered_labels: int = pydantic.Field(default=0, ge=0)
    entity_promises: tuple[EntityPromise, ...] = ()
    recall: Recall | None = None
    sha256: Sha256

    @property
    def by_error(self) -> tuple[Promise, ...]:
        """The promises of entities, or those of whole answers."""
        return self.entity_promises or self.promises

    @property
    def summary(self) -> list[str]:
        """The temperature and the promises, a line each."""
        inside = " inside the file" if self.temperature_inside != 1 else ""
        value = self.temperature_inside * self.temperature
        fitted = f"temperature {value:.3g}{inside}, fitted on {self.num_examples} texts"
        fitted = fitted if self.num_examples else "those of the model"  # calibrated already
        lines = [f"probabilities: {fitted}", *(promise.summary for promise in self.by_error)]
        lines += [self.recall.summary] if self.recall is not None else []
        if self.agreements:
            model = self.answered_by or "not named (--answered-by TEXT)"
            gold = f"{self.answered_labels} of the labels above are its answers, not gold"
            lines.append(f"speaks for the model: {model}; {gold}")
            lines += [agreement.summary for agreement in self.agreements]
        if self.familiarity is not None:
            score = self.familiarity.threshold
            lines.append(f"texts of another kind: not sure below a score of {score:.3f}")
        return lines

    @classmethod
    def of_file(cls, model_sha256: str, **values: Any) -> Confidence:
        """Makes the record of the file with a SHA-256."""
        unsigned = cls(sha256=model_sha256, **values)
        return unsigned.model_copy(update={"sha256": unsigned.digest_with(model_sha256)})

    def digest_with(self, model_sha256: str) -> str:
        """The SHA-256 of its values with a model file; keys of later versions do not count."""
        promises = [[getattr(promise, name) for name in _SIGNED] for promise in self.promises]
        temperatures = [self.temperature, self.temperature_inside]
        values = [model_sha256, *temperatures, self.num_examples, promises]
        if self.familiarity is not None:
            values.append([getattr(self.familiarity, name) for name in _SIGNED_OF_TEXTS])
        if self.agreements:
            rows = [[getattr(row, name) for name in _SIGNED_OF_ALL] for row in self.agreements]
            values.append([rows, self.answered_by, self.answered_labels])
        if self.entity_promises or self.recall is not None:
            rows = [[getattr(row, name) for name in _SIGNED] for row in self.entity_promises]
            recall = self.recall and [getattr(self.recall, name) for name in _SIGNED_OF_RECALL]
            values.append({"entity_promises": rows, "recall": recall})
        return hashlib.sha256(json.dumps(values).encode()).hexdigest()

    def promise_for(
        self, max_error: float | None = None, max_disagreement: float | None = None
    ) -> Promise | ModelAgreement | None:
        """Returns the promise of an error, or the agreement of a disagreement: one of them.

        Of neither the promise of 5%, None where nothing is promised. Refused where it has no such.
        """
        name, level, offered = "max_error", max_error, self.by_error
        if max_disagreement is not None:
            name, level, offered = "max_disagreement", max_disagreement, self.agreements
            if max_error is not None:
                raise errors.ConfigError(name, "no max_error beside it", level, "Name one of them.")
        wanted = USUAL_MAX_ERROR if level is None else level
        for promise in offered:
            if getattr(promise, name) == wanted:
                return promise
        if level is None and not offered:
            return None
        listed = ", ".join(f"{getattr(promise, name):g}" for promise in offered)
        texts = "labelled texts" if name == "max_error" else "texts with a model's answers"
        raise errors.ConfigError(
            name,
            f"one of {listed or 'those that were promised'}",
            "none" if level is None else level,
            "" if listed else f"Export with --promise-on FILE: held-out {texts}.",
        )


def moved_coverage(files: Mapping[str, Confidence | None]) -> list[str]:
    """Names the files that answer more or fewer texts than the first one at the same error.

    The first one with promises is compared with those whose promises were found on as many texts:
    "int8 by -3 points at 5%" for each whose share is more than 2 points off.
    """
    first: dict[tuple[float, int], float] = {}
    moved = []
    for name, record in files.items():
        for promise in record.by_error if record is not None else ():
            coverage = promise.coverage or 0.0
            change = coverage - first.setdefault((promise.max_error, promise.rows), coverage)
            if abs(change) > _MOVED:
                moved.append(f"{name} by {100 * change:+.0f} points at {promise.max_error:.0%}")
    return moved
