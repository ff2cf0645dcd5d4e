"""From a row of scores for each word to its tag: the best path that its scheme allows."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tfdistill import errors
from tfdistill.tasks.encoded import EncodedExamples, spans

_EQUAL = 1e-9  # of a probability, whose last digits depend on the order of a sum


class TagRules(NamedTuple):
    """What the names of tags say of their order.

    Attributes:
      after: bool (tags, tags), whether tag j may follow tag i.
      before: The tags that each tag may follow; None where it may follow all. One that may follow
        none has itself: it cannot be first either, so no path has it.
      first, last: bool (tags,), whether a tag may be that of a text's first word, of its last.
      begins, continues: bool (tags,), whether a tag begins an entity, goes on with one.
      parts: int64 (3, tags), the tags of the first, of any inner and of the last of several words
        that one piece answers for together, by the tag of the piece.
    """

    after: np.ndarray
    before: Sequence[list[int] | None]
    first: np.ndarray
    last: np.ndarray
    begins: np.ndarray
    continues: np.ndarray
    parts: np.ndarray


@functools.lru_cache(maxsize=64)
def allowed(tags: tuple[str, ...]) -> TagRules:
    """Reads off the names of tags which of them may follow which.

    Names are O and B-TYPE, I-TYPE (BIO), or further E-TYPE, S-TYPE (BIOES), or L-TYPE, U-TYPE
    (BILOU). I, E and L follow B or I of their type alone, and no text begins with them. Where there
    is an E, S, L or U, nothing else follows B and I, and no text ends with these. Tags of which one
    has another name, or none begins an entity, are plain: each may follow each.

    Args:
      tags: The names in the order of their indices.

    Returns:
      The rules.

    Example:
      >>> rules = allowed(("O", "B-X", "I-X"))
      >>> rules.after[0].tolist(), rules.first.tolist(), rules.last.tolist()
      ([True, True, False], [True, True, False], [True, True, True])
    """
    roles = [tag[0] if tag[:1] in "BIESLU" and tag[1:2] == "-" else "" for tag in tags]
    plain = any(not role and tag != "O" for role, tag in zip(roles, tags, strict=True))
    begins, continues, within = (
        np.array([role != "" and role in group and not plain for role in roles], bool)
        for group in ("BSU", "IEL", "BI")
    )
    if not begins.any():
        free, none = np.ones(len(tags), bool), np.zeros(len(tags), bool)
        same = np.stack([np.arange(len(tags))] * 3)
        after, before = np.ones((len(tags), len(tags)), bool), [None] * len(tags)
        return TagRules(after, before, free, free, none, none, same)
    types = np.array([tag[2:] for tag in tags])
    strict = any(role and role in "ESLU" for role in roles)
    goes_on = within[:, None] & (types[:, None] == types)
    ends = ~within | (not strict)
    after = np.where(continues, goes_on, ends[:, None])
    index = {tag: number for number, tag in enumerate(tags)}
    parts = [
        [index.get(f"{names.get(tag[0], tag[0])}{tag[1:]}", index[tag]) for tag in tags]
        for names in (
            {"S": "B", "U": "B", "E": "I", "L": "I"},
            dict.fromkeys("BESLU", "I"),
            {"B": "I", "S": "E", "U": "L"},
        )
    ]
    before = [
        None if part.all() else np.flatnonzero(part).tolist() or [tag]
        for tag, part in enumerate(after.T)
    ]
    return TagRules(after, before, ~continues, ends, begins, continues, np.array(parts))


def best_path(scores: np.ndarray, rules: TagRules, bounds: np.ndarray) -> np.ndarray:
    """Finds the best allowed path of tags of each text (Viterbi).

    The best is the one with the largest sum of scores over the words of its text; of equal ones the
    one whose last word has the lowest tag, and so on towards the first word. Logits, and logarithms
    of their probabilities at any temperature, have the same best path.

    Args:
      scores: float (words, tags), finite: the words of all texts one after the other.
      rules: Of the tags; where each may follow each, a word has its largest score.
      bounds: int (texts + 1,); text i has the words from ``bounds[i]`` up to ``bounds[i + 1]``.

    Returns:
      int64 (words,), the tag of each word.
    """
    tags = scores.argmax(axis=1)
    wrong = ~_options(tags, rules, bounds)[np.arange(len(tags)), tags]
    if not wrong.any():
        return tags
    first, last = (np.where(part, 0.0, -np.inf) for part in (rules.first, rules.last))
    # Lists take a tenth of NumPy's time.
    for begin, end in itertools.pairwise(bounds.tolist()):
        if not wrong[begin:end].any():
            continue
        rows, ways = np.asarray(scores[begin:end], np.float64), []
        best = (first + rows[0]).tolist()
        for row in rows[1:].tolist():
            top = best.index(max(best))
            chosen = [max(part, key=best.__getitem__) if part else top for part in rules.before]
            best = [best[tag] + score for tag, score in zip(chosen, row, strict=True)]
            ways.append(chosen)
        path = [int(np.argmax(last + best))]
        for chosen in reversed(ways):
            path.append(chosen[path[-1]])
        tags[begin:end] = path[::-1]
    return tags


def path_log_probabilities(
    scores: np.ndarray, tags: np.ndarray, rules: TagRules, bounds: np.ndarray
) -> np.ndarray:
    """The logarithm of the probability of each tag of a path among those allowed behind the last.

    ``log p(t_w) = z_w[t_w] - log sum_t exp(z_w[t])``, the sum over the tags t that may follow
    ``t_(w-1)``, of a first word over those that may be first, of a last word over those that may
    also be last.

    Args:
      scores: float (words, tags), logits at their temperature, or logarithms of probabilities.
      tags: int (words,), an allowed path.
      rules: Of the tags.
      bounds: Of the texts, see `best_path`.

    Returns:
      float64 (words,).
    """
    options = _options(tags, rules, bounds)
    return np.asarray(scores, np.float64)[np.arange(len(tags)), tags] - _log_sum(scores, options)


def _options(tags: np.ndarray, rules: TagRules, bounds: np.ndarray) -> np.ndarray:
    """The tags that each word may have behind those of a path, bool (words, tags)."""
    filled = bounds[1:] > bounds[:-1]
    options = np.empty((len(tags), len(rules.after)), bool)
    options[1:] = rules.after[tags[:-1]]
    options[bounds[:-1][filled]] = rules.first
    options[bounds[1:][filled] - 1] &= rules.last
    return options


def _log_sum(scores: np.ndarray, options: np.ndarray) -> np.ndarray:
    """``log sum exp`` of each row over its options, float64 (words,)."""
    values = np.where(options, np.asarray(scores, np.float64), -np.inf)
    largest = values.max(axis=1, initial=-np.inf)
    return largest + np.log(np.exp(values - largest[:, None]).sum(axis=1))


class Entities(NamedTuple):
    """The entities on a path: n of them, in order.

    Attributes:
      firsts, ends: int64 (n,), the first word of each and one past its last.
      probabilities: float64 (n,).
    """

    firsts: np.ndarray
    ends: np.ndarray
    probabilities: np.ndarray


def entity_places(
    tags: np.ndarray, rules: TagRules, bounds: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The first word of each entity and one past its last, int64 (n,) each.

    A tag that continues an entity, which it may not where it stands, begins one; so labels of words
    need not be an allowed path. `tags` and `bounds` are as in `path_log_probabilities`.
    """
    follows = np.empty(len(tags), bool)
    follows[1:] = rules.after[tags[:-1], tags[1:]]
    follows[bounds[:-1][bounds[1:] > bounds[:-1]]] = False
    goes_on = rules.continues[tags]
    continues, begins = goes_on & follows, rules.begins[tags] | (goes_on & ~follows)
    firsts, cuts = np.flatnonzero(begins), np.append(np.flatnonzero(~continues), len(tags))
    return firsts, cuts[np.searchsorted(cuts, firsts, side="right")]


def shares_inside(scores: np.ndarray, labels: Sequence[str]) -> np.ndarray:
    """``1 - P(O)`` of each word by the softmax of its row of scores alone, float64 (words,).

    Args:
      scores: float (words, tags), logits at their temperature, or logarithms of probabilities.
      labels: The tags in their order, O among them.
    """
    outside = np.array([label == "O" for label in labels])
    total = _log_sum(scores, np.ones(np.shape(scores), bool))
    return np.exp(_log_sum(scores, np.broadcast_to(~outside, np.shape(scores))) - total)


def entities(
    scores: np.ndarray, tags: np.ndarray, rules: TagRules, bounds: np.ndarray, logs: np.ndarray
) -> Entities:
    """Reads the entities off an allowed path.

    The probability of one is the product of those of its words' tags, see
    `path_log_probabilities`, and, unless it ends its text, of the probability that the next word
    does not go on with it: among the tags that may stand there, the share of those that continue no
    entity.

    Args:
      scores: float (words, tags), logits at their temperature, or logarithms of probabilities.
      tags: int (words,), the path.
      rules: Of the tags.
      bounds: Of the texts, see `best_path`.
      logs: float64 (words,), the `path_log_probabilities` of all of these.
    """
    firsts, ends = entity_places(tags, rules, bounds)
    options = _options(tags, rules, bounds)
    sums = np.add.reduceat(np.append(logs, 0.0), np.stack([firsts, ends], 1).ravel())[::2]
    inside = np.flatnonzero(bounds[np.searchsorted(bounds, ends)] != ends)
    following = ends[inside]
    stops = _log_sum(scores[following], options[following] & ~rules.continues)
    sums[inside] += stops - _log_sum(scores[following], options[following])
    return Entities(firsts, ends, np.exp(sums))


def hidden_entities(
    scores: np.ndarray, tags: np.ndarray, labels: Sequence[str], threshold: float
) -> list[tuple[str, int, int, float]]:
    """The runs of words of one text that a path calls O and that are still likely of an entity.

    Those are words with a `shares_inside` above the threshold. A run has the type of the largest
    probability that one of its words gives a type, a sum over the tags of the type; of equal ones
    that of the first label.

    Args:
      scores: float (words, tags), logits at their temperature, or logarithms of probabilities.
      tags: int (words,), the path.
      labels: The tags in their order, O among them.
      threshold: See `manifest.confidence.Recall`.

    Returns:
      Type, first word, one past the last word and that probability of each run, in order.

    Example:
      >>> scores = np.log([[0.6, 0.3, 0.1], [0.7, 0.1, 0.2], [0.9, 0.05, 0.05]])
      >>> runs = hidden_entities(scores, np.zeros(3, int), ("O", "B-PER", "B-LOC"), 0.2)
      >>> [(name, first, end, round(share, 3)) for name, first, end, share in runs]
      [('PER', 0, 2, 0.3)]
    """
    hidden = shares_inside(scores, labels) > threshold
    hidden &= np.array([label == "O" for label in labels])[tags]
    edges = np.flatnonzero(np.diff(hidden, prepend=False, append=False)).reshape(-1, 2)
    names = list(dict.fromkeys(label[2:] for label in labels if label != "O"))
    of_type = np.array([[label != "O" and label[2:] == name for label in labels] for name in names])
    total = _log_sum(scores, np.ones(np.shape(scores), bool))
    shares = np.exp(scores - total[:, None]) @ of_type.T
    runs = []
    for first, end in edges.tolist():
        best = shares[first:end].max(axis=0)
        number = int(np.argmax(best > best.max() * (1 - _EQUAL)))
        runs.append((names[number], first, end, float(best[number])))
    return runs


class WordTags(NamedTuple):
    """The tags of the words of m texts that have words, text after text.

    A piece that holds the first characters of several words answers for all of them.

    Attributes:
      tokens: int64 (pieces,), the tokens that answer.
      counts: int64 (pieces,), the words that each answers for.
      scores: float64 (pieces, tags), at their temperature.
      tags: int64 (pieces,), the best path over them.
      log_probabilities: float64 (pieces,), see `path_log_probabilities`.
      bounds: int64 (m + 1,), of the texts among the pieces.
      words: int64 (words,), the tag of each word.
      word_bounds: int64 (m + 1,), of the texts among the words.
      gold: int64 (words,), the labels; None where there are none.
    """

    tokens: np.ndarray
    counts: np.ndarray
    scores: np.ndarray
    tags: np.ndarray
    log_probabilities: np.ndarray
    bounds: np.ndarray
    words: np.ndarray
    word_bounds: np.ndarray
    gold: np.ndarray | None


def decode_words(
    logits: np.ndarray,
    encoded: EncodedExamples,
    labels: Sequence[str] = (),
    *,
    temperature: float = 1.0,
) -> WordTags:
    """Puts the windows of each text together and tags its words along the best path.

    Args:
      logits: float (tokens, tags), of all tokens, or logarithms of probabilities.
      encoded: The windows.
      labels: The tags in their order; by default those of the task of `encoded`.
      temperature: What divides the logits in probabilities; the path does not depend on it.

    Returns:
      The tags; texts in the order of `EncodedExamples.sources`.

    Raises:
      DataError: If a logit of a word is not finite.
    """
    tokens = encoded.word_tokens
    sources = np.arange(len(encoded)) if encoded.sources is None else encoded.sources
    texts = np.repeat(sources, encoded.lengths)[tokens]
    order = np.argsort(texts, kind="stable")
    counts, word_labels = encoded.word_counts, encoded.word_labels
    counts = np.ones(len(tokens), np.int64) if counts is None else counts[tokens].astype(np.int64)
    if word_labels is None and encoded.labels is not None and encoded.word_counts is None:
        word_labels = encoded.labels[tokens]
    word_starts = np.cumsum(counts) - counts
    gold = None if word_labels is None else word_labels[spans(word_starts[order], counts[order])]
    tokens, counts, texts = tokens[order], counts[order], texts[order]
    starts = np.flatnonzero(np.append(True, np.diff(texts) != 0)[: len(texts)])
    bounds = np.append(starts, len(tokens))
    word_bounds = np.append(0, np.cumsum(counts))[bounds]
    scores = np.asarray(logits[tokens], np.float64)
    if not np.isfinite(scores).all():
        row = int(np.argmin(np.isfinite(scores).all(axis=1)))
        raise errors.DataError(f"logits of example {row}", "finite numbers", scores[row].tolist())
    names = tuple(labels) or tuple(encoded.task.labels if encoded.task is not None else ())
    rules = allowed(names or tuple(map(str, range(scores.shape[1]))))
    tags, scores = best_path(scores, rules, bounds), scores / temperature
    logs = path_log_probabilities(scores, tags, rules, bounds)
    words = words_of(tags, counts, rules)
    return WordTags(tokens, counts, scores, tags, logs, bounds, words, word_bounds, gold)


def words_of(tags: np.ndarray, counts: np.ndarray, rules: TagRules) -> np.ndarray:
    """The tag of each word, int64 (words,), of pieces that answer for `counts` words each."""
    if counts.sum() == len(counts):
        return tags
    place = spans(np.zeros(len(counts), np.int64), counts)
    size = np.repeat(counts, counts)
    part = np.where(place == 0, 0, np.where(place == size - 1, 2, 1))
    repeated = np.repeat(tags, counts)
    return np.where(size > 1, rules.parts[part, repeated], repeated)
