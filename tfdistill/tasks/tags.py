"""A tag for each word."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfdistill import errors
from tfdistill.tasks import conll, decoding
from tfdistill.tasks.kind import TaskKind, register
from tfdistill.tasks.texts import chance_of_classes, label_indices

if TYPE_CHECKING:
    from tfdistill.tasks.encoded import EncodedExamples
    from tfdistill.tasks.spec import TaskSpec


class Tags(TaskKind):
    """A tag for each word, which the word's first piece answers."""

    name = "token"
    head = "token"
    metrics = ("entity_f1", "entity_precision", "entity_recall", "accuracy")
    layouts = ("conll",)
    over_tokens = tags_words = True
    exclusive = gives_probabilities = True
    usual_columns = ("0", "-1")
    pipeline = "token-classification"

    def ordered(self, names: Collection[str]) -> list[str]:
        """O first, then B-TYPE and I-TYPE of every type."""
        return conll.ordered_tags(set(names))

    def metrics_for(self, cells: Collection[str]) -> tuple[str, ...]:
        """Accuracy alone where the tags are of no entities, such as parts of speech."""
        entities = all(tag == "O" or tag[:2] in ("B-", "I-") for tag in cells)
        return () if entities else ("accuracy",)

    def parse(self, spec: TaskSpec, values: Sequence[str], where: Sequence[str]) -> np.ndarray:
        """See `TaskKind.parse`; int32 (words,)."""
        return label_indices(spec, values, where)

    def score(
        self, spec: TaskSpec, outputs: np.ndarray, encoded: EncodedExamples
    ) -> dict[str, float]:
        """See `tag_metrics`, of the best path over each text, see `decoding.decode_words`."""
        values = tag_metrics(*self._sentences(spec, outputs, encoded))
        return {name: values[name] for name in spec.metrics}

    def counts(
        self, spec: TaskSpec, outputs: np.ndarray, encoded: EncodedExamples
    ) -> dict[str, int]:
        """See `entity_counts`; empty of tags of no entities."""
        if self.metrics_for(spec.labels):
            return {}
        return entity_counts(*self._sentences(spec, outputs, encoded))

    def _sentences(
        self, spec: TaskSpec, outputs: np.ndarray, encoded: EncodedExamples
    ) -> tuple[list[list[str]], list[list[str]]]:
        """The tags of each sentence, and those that are answered."""
        if encoded.labels is None:
            raise errors.DataError("evaluation", "labelled examples", "examples without labels")
        expected = (encoded.num_tokens, spec.num_labels)
        if outputs.shape != expected or encoded.labels.shape != expected[:1]:
            raise errors.ShapeError(
                f"logits and labels of task {spec.name!r}",
                f"shapes {expected} and {expected[:1]}",
                f"{outputs.shape} and {encoded.labels.shape}",
            )
        answers = decoding.decode_words(outputs, encoded, spec.labels)
        assert answers.gold is not None
        names, cuts = np.array(spec.labels), answers.word_bounds[1:-1]
        return (
            [part.tolist() for part in np.split(names[answers.gold], cuts)],
            [part.tolist() for part in np.split(names[answers.words], cuts)],
        )

    def chance(self, spec: TaskSpec, labels: np.ndarray) -> float:
        """See `TaskKind.chance`; of the labelled tokens."""
        return chance_of_classes(spec, labels[labels >= 0])


def tag_metrics(
    gold: Sequence[Sequence[str]], answers: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Scores the tags of sentences as the CoNLL evaluation does.

    An entity counts as found only if its type, its first and its last word are right; see
    `conll.entities` for what an entity is. Over all sentences: "entity_precision" is the share of
    found entities that are right, "entity_recall" the share of gold entities that are found,
    "entity_f1" ``2 P R / (P + R)``; each is 0 where it is not defined. "accuracy" is the share of
    words with the right tag.
    """
    if [len(tags) for tags in gold] != [len(tags) for tags in answers] or not any(gold):
        raise errors.ShapeError(
            "predicted tags",
            f"one for each of {sum(map(len, gold))} words, at least one",
            f"{sum(map(len, answers))} in {len(answers)} sentences",
        )
    right = in_gold = predicted = same = words = 0
    for tags, guesses in zip(gold, answers, strict=True):
        entities, guessed = conll.entities(tags), conll.entities(guesses)
        right += len(entities & guessed)
        in_gold += len(entities)
        predicted += len(guessed)
        same += sum(a == b for a, b in zip(tags, guesses, strict=True))
        words += len(tags)
    return {
        "entity_f1": 2 * right / (in_gold + predicted) if right else 0.0,
        "entity_precision": right / predicted if right else 0.0,
        "entity_recall": right / in_gold if right else 0.0,
        "accuracy": same / words,
    }


def entity_counts(
    gold: Sequence[Sequence[str]], answers: Sequence[Sequence[str]]
) -> dict[str, int]:
    """Counts entities that are right and how the others are wrong, over all sentences.

    "right": type and both edges. Of the others, "wrong type" has both edges, and "wrong edge"
    shares a word with an entity; each entity counts once, from left to right. "missed" are entities
    that are not answered, "invented" answers that are none.
    """
    kinds = ("right", "wrong type", "wrong edge", "missed", "invented")
    counts: dict[str, int] = {kind: 0 for kind in kinds}
    for tags, guesses in zip(gold, answers, strict=True):
        entities, guessed = conll.entities(tags), conll.entities(guesses)
        right = entities & guessed
        left, wrong = (
            {(begin, end) for _, begin, end in part - right} for part in (entities, guessed)
        )
        others, edges, place = sorted(left - wrong), 0, 0
        for begin, end in sorted(wrong - left):
            while place < len(others) and others[place][1] <= begin:
                place += 1
            if place < len(others) and others[place][0] < end:
                edges, place = edges + 1, place + 1
        counts["right"] += len(right)
        counts["wrong type"] += len(left & wrong)
        counts["wrong edge"] += edges
        counts["missed"] += len(left - wrong) - edges
        counts["invented"] += len(wrong - left) - edges
    return counts


register(Tags())
