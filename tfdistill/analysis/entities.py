"""How sure the entities of a tagger are, and how many a mask finds; promised by whole texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tfdistill.analysis.agreements import LEVEL, allowed
from tfdistill.manifest.confidence import EntityPromise, Promise, Recall
from tfdistill.tasks import decoding
from tfdistill.tasks.encoded import EncodedExamples

_DRAWS = 3  # for a recall
_CAPPED = 0.9  # of the entities are in texts that have no more of them than count


class JudgedEntities(NamedTuple):
    """The n entities that a file finds in m labelled texts, and the k that are in them.

    Attributes:
      confidence: float64 (n,), see `decoding.entities`.
      right: bool (n,), whether edges and type are those of an entity of the text.
      texts: int64 (n,), rising, the text of each.
      inside: float64 (k,), of each entity of the texts the least ``1 - P(O)`` of its words; 1 of
        words in an entity that is found.
      gold_texts: int64 (k,), rising, the text of each of these.
      outside: float64 (words,), the same of each word in no entity.
    """

    confidence: np.ndarray
    right: np.ndarray
    texts: np.ndarray
    inside: np.ndarray
    gold_texts: np.ndarray
    outside: np.ndarray


def names_entities(examples: EncodedExamples) -> bool:
    """Whether the labels of tagged texts name entities: the promises are of these then."""
    names = examples.task.labels if examples.task is not None else ()
    return examples.token_labels and bool(decoding.allowed(tuple(names)).begins.any())


def judge_entities(
    logits: np.ndarray, examples: EncodedExamples, temperature: float = 1.0
) -> JudgedEntities:
    """Compares the entities that are found with those of the labels.

    Args:
      logits: float (tokens, tags), of all tokens, or logarithms of probabilities.
      examples: Labelled texts whose task's labels name entities (`names_entities`).
      temperature: What divides the logits.
    """
    answers = decoding.decode_words(logits, examples, temperature=temperature)
    assert answers.gold is not None
    names, gold, places = examples.task.labels, answers.gold, answers.word_bounds
    rules, scores = decoding.allowed(tuple(names)), answers.scores
    path = answers.tags, rules, answers.bounds, answers.log_probabilities
    part = decoding.entities(scores, *path)
    before = np.append(0, np.cumsum(answers.counts))  # the words before each piece
    places_found = before[part.firsts], before[part.ends]
    marked = decoding.entity_places(gold, rules, places)
    types = np.unique([name[2:] for name in names], return_inverse=True)[1]

    def keys(firsts: np.ndarray, ends: np.ndarray, tags: np.ndarray) -> np.ndarray:
        return (firsts * (len(gold) + 1) + ends) * len(names) + types[tags[firsts]]

    shares = np.ones(len(gold))
    if "O" in names:
        shares = np.repeat(decoding.shares_inside(scores, names), answers.counts)
        shares[np.array(names)[answers.words] != "O"] = 1.0
    edges = np.stack(marked, axis=1).ravel()
    least = np.minimum.reduceat(np.append(shares, 1.0), edges)[::2] if len(edges) else shares[:0]
    in_entity = np.zeros(len(gold) + 1, int)
    np.add.at(in_entity, marked[0], 1)
    np.add.at(in_entity, marked[1], -1)
    return JudgedEntities(
        part.probabilities,
        np.isin(keys(*places_found, answers.words), keys(*marked, gold)),
        np.searchsorted(places, places_found[0], side="right") - 1,
        least,
        np.searchsorted(places, marked[0], side="right") - 1,
        shares[np.cumsum(in_entity)[:-1] == 0],
    )


def drawn(texts: np.ndarray, seed: int = 0) -> np.ndarray:
    """Draws at most one entity of each text, so that those that are drawn are independent.

    Entities of one text share its fate. One of each text alone would weigh those of texts with few
    entities more, so that a text is drawn with the probability ``min(1, k / most)``; k are its
    entities, and nine of ten entities are in texts of at most `most`. An entity that is drawn is
    then one of all entities, of a text of more than `most` a little more rarely.

    Args:
      texts: int (n,), rising, the text of each entity.
      seed: Of the draw.

    Returns:
      int64, rising, the indices of those drawn; the same for the same texts.
    """
    names, firsts, counts = np.unique(texts, return_index=True, return_counts=True)
    if not len(names):
        return firsts
    most = np.quantile(np.repeat(counts, counts), _CAPPED, method="higher")
    which, whether = np.random.default_rng(seed).random((names[-1] + 1, 2))[names].T
    return (firsts + (which * counts).astype(int))[whether * most < counts]


def of_all(
    judged: JudgedEntities, rows: np.ndarray, promises: Sequence[Promise]
) -> tuple[EntityPromise, ...]:
    """The promises of entities, which `drawn` ones gave: coverage and error are those of all.

    Args:
      judged: All entities that are found.
      rows: int, those that were drawn.
      promises: What `find_promise` finds on these.
    """
    count, everyone = len(np.unique(judged.texts)), []
    for promise in promises:
        values = {"max_error": promise.max_error, "rows": count, "threshold": promise.threshold}
        if promise.threshold is not None:
            sure = judged.confidence > promise.threshold
            values["coverage"] = float(sure.mean())
            values["error"] = float(np.mean(~judged.right[sure]))
        elif promise.rows_needed is not None:
            values["rows_needed"] = math.ceil(promise.rows_needed * count / len(rows))
        everyone.append(EntityPromise(**values))
    return tuple(everyone)


def find_recall(judged: JudgedEntities, min_recall: float) -> Recall:
    """Finds the highest threshold on words with which a share of the entities is masked.

    A word is masked in an entity that is found, and where its ``1 - P(O)`` is above the threshold;
    an entity is, if all of its words are. With a probability of at least 90% over the drawing of
    the texts at least `min_recall` of the entities in new texts of the same kind are masked: of n
    entities that are `drawn` the threshold leaves out k, the largest number with
    ``P(Bin(n, 1 - min_recall) <= k) <= 0.1``, see `allowed`. What is masked only shrinks as the
    threshold rises, so that this one test is enough (a tolerance limit, Wilks 1941). The threshold
    is the lowest of three draws, so that little hangs on which entities are drawn.

    Args:
      judged: The entities of labelled texts that chose nothing.
      min_recall: A share of the entities, between 0 and 1.

    Returns:
      The recall; without a threshold where not even k = 0 passes. 0.99 takes 230 entities that are
      drawn: as many texts, where each has as many entities.
    """
    draws = [drawn(judged.gold_texts, seed) for seed in range(_DRAWS)]
    count, fewest = len(np.unique(judged.gold_texts)), min(map(len, draws))
    if allowed(fewest, 1 - min_recall) < 0:
        needed = math.ceil(math.log(1 - LEVEL) / math.log(min_recall))
        shown = (1 - LEVEL) ** (1 / fewest) if fewest else 0.0
        return Recall(
            min_recall=min_recall,
            rows=count,
            rows_needed=math.ceil(needed * (count / fewest if fewest else 1)),
            possible=math.floor(1e4 * shown) / 1e4,
        )
    lowest = (np.sort(judged.inside[rows])[allowed(len(rows), 1 - min_recall)] for rows in draws)
    least = float(np.nextafter(min(lowest), 0.0))
    figures: dict[str, Any] = mask_figures(judged, least)
    return Recall(min_recall=min_recall, rows=count, threshold=least, **figures)


def mask_figures(judged: JudgedEntities, threshold: float) -> dict[str, float]:
    """How much a mask finds and takes without need, with a threshold and by the path alone.

    Returns "recall", of the entities, and "needless", of the words in no entity; and both as
    "recall_of_path" and "needless_of_path"; 0 where there are none.
    """
    parts = {"recall": judged.inside, "needless": judged.outside}
    limits = {"": threshold, "_of_path": float(np.nextafter(1.0, 0.0))}
    return {
        f"{name}{which}": float((values > limit).mean()) if len(values) else 0.0
        for which, limit in limits.items()
        for name, values in parts.items()
    }
