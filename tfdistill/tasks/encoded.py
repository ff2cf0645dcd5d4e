"""Examples as token ids, stored flat: no padding until a batch is made."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from tfdistill import errors

if TYPE_CHECKING:
    from tfdistill.tasks.squad import Question


FEATURES: tuple[str, ...] = ("input_ids", "attention_mask", "token_type_ids")
"""The inputs of a model."""

UNLABELLED = -100
"""The label of what has none."""
UNKNOWN = -1
"""The label of a token that answers for a word whose tag nobody knows: it is no gold label."""

Truncation = Literal["end", "middle"]
"""The tokens that a text loses if it is too long: its last ones, or those between head and tail."""


@dataclasses.dataclass(frozen=True, eq=False)
class SpanSources:
    """Positions of the tokens of windows in the texts that questions are about."""

    questions: tuple[Question, ...]  # `EncodedExamples.sources` counts them
    # int32 (tokens, 2), first character and one past the last; -1 for tokens that are not of the
    # text.
    characters: np.ndarray
    shown_best: np.ndarray  # bool (tokens,), whether no other window shows more around the token
    doc_stride: int  # tokens from the start of one window to that of the next
    max_question_length: int  # in tokens


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedExamples:
    """n examples as token ids, one after the other.

    Attributes:
      ids: int32 (tokens,).
      offsets: int64 (n + 1,); example i has ``ids[offsets[i]:offsets[i + 1]]``.
      types: uint8 (tokens,), token type of each id.
      labels: (n,) int32 or float32; several at once float32 (n, classes); spans int32 (n, 2), first
        and last token; with `token_labels` int32 (tokens,), -100 where there is none and -1 where
        nobody knows it; or None.
      weights: float32 (n,), sample weights, or None.
      pad_id: The id that pads a batch.
      token_labels: Whether labels belong to tokens.
      word_counts: int32 (tokens,), the words that a token answers for: one or more where it holds
        their first characters in the window that shows most around it, otherwise 0; None where
        words have no answers, or it is not known.
      word_labels: int32 (words,), the label of each word in the order of these tokens, or None; of
        several words of one token that of the first is among `labels`.
      sources: int64 (n,), the text of each example where a text may give several, or None.
      same_texts: int64 (n,), one number where texts that are compared are equal, or None.
      span_sources: Positions of the tokens, for answers inside texts, or None.
      task: The `tasks.TaskSpec` that the labels answer, where it is known, or None.
    """

    ids: np.ndarray
    offsets: np.ndarray
    types: np.ndarray
    labels: np.ndarray | None = None
    weights: np.ndarray | None = None
    pad_id: int = 0
    token_labels: bool = False
    word_counts: np.ndarray | None = None
    word_labels: np.ndarray | None = None
    sources: np.ndarray | None = None
    same_texts: np.ndarray | None = None
    span_sources: SpanSources | None = None
    task: Any = None

    def __post_init__(self) -> None:
        """Refuses arrays that do not fit together."""
        offsets = self.offsets
        if (
            offsets.ndim != 1
            or len(offsets) < 1
            or offsets[0] != 0
            or offsets[-1] != len(self.ids)
            or self.types.shape != self.ids.shape
            or (offsets[1:] <= offsets[:-1]).any()
        ):
            raise errors.ShapeError(
                "encoded examples",
                "offsets that rise from 0 to the number of ids, and a type for each id",
                f"{len(self.ids)} ids, {len(self.types)} types, offsets {offsets!r}",
            )
        tokens = self.token_labels and self.labels is not None
        rows = {name: (len(self),) for name in ("labels", "weights", "sources", "same_texts")}
        if tokens:
            rows["labels"] = (self.num_tokens,)
        if self.word_counts is not None:
            rows["word_counts"] = (self.num_tokens,)
        if self.word_labels is not None and self.word_counts is not None:
            rows["word_labels"] = (int(self.word_counts.sum()),)
        for name, shape in rows.items():
            value = getattr(self, name)
            if value is None or value.shape == shape:
                continue
            if name == "labels" and not tokens and value.ndim == 2 and len(value) == len(self):
                continue  # a row of labels for each example
            raise errors.ShapeError(f"encoded examples, {name}", f"shape {shape}", value.shape)

    def __len__(self) -> int:
        """Returns n."""
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each example, int64 (n,)."""
        return np.diff(self.offsets)

    @property
    def num_tokens(self) -> int:
        """Tokens of all examples together."""
        return len(self.ids)

    @property
    def word_tokens(self) -> np.ndarray:
        """The tokens that answer for words, int64; those with a label where nothing else says."""
        if self.word_counts is not None:
            return np.flatnonzero(self.word_counts)
        return np.flatnonzero(np.ones(0) if self.labels is None else self.labels != UNLABELLED)

    def row(self, index: int) -> np.ndarray:
        """Returns the ids of one example, int32 (tokens,)."""
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def row_types(self, index: int) -> np.ndarray:
        """Returns the token types of one example, uint8 (tokens,)."""
        return self.types[self.offsets[index] : self.offsets[index + 1]]

    def followed_by(self, others: EncodedExamples) -> EncodedExamples:
        """Returns these examples and then others, without labels and weights.

        Of words the labels tell which tokens answer for one; the others are `UNKNOWN` there.
        """
        labels, counts = self.labels if self.token_labels else None, others.word_counts
        if labels is not None:
            assert counts is not None
            further = np.where(counts > 0, UNKNOWN, UNLABELLED)
            labels = np.concatenate([labels, further.astype(labels.dtype)])
        return EncodedExamples(
            ids=np.concatenate([self.ids, others.ids]),
            offsets=np.concatenate([self.offsets, self.offsets[-1] + others.offsets[1:]]),
            types=np.concatenate([self.types, others.types]),
            labels=labels,
            pad_id=self.pad_id,
            token_labels=self.token_labels,
        )

    def select(self, indices: Sequence[int] | np.ndarray) -> EncodedExamples:
        """Returns the examples at `indices`, in that order."""
        index = np.asarray(indices, np.int64)
        lengths = self.lengths[index]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        positions = spans(self.offsets[index], lengths)
        label_places = positions if self.token_labels else index
        counts, word_labels = self.word_counts, self.word_labels
        if counts is not None and word_labels is not None:
            firsts = np.cumsum(counts) - counts
            word_labels = word_labels[spans(firsts[positions], counts[positions])]
        span_positions = self.span_sources
        if span_positions is not None:
            span_positions = dataclasses.replace(
                span_positions,
                characters=span_positions.characters[positions],
                shown_best=span_positions.shown_best[positions],
            )
        return dataclasses.replace(
            self,
            ids=self.ids[positions],
            types=self.types[positions],
            offsets=offsets,
            labels=None if self.labels is None else self.labels[label_places],
            word_counts=None if counts is None else counts[positions],
            word_labels=word_labels,
            weights=None if self.weights is None else self.weights[index],
            sources=None if self.sources is None else self.sources[index],
            same_texts=None if self.same_texts is None else self.same_texts[index],
            span_sources=span_positions,
        )


def spans(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Concatenates ``arange(start, start + length)`` over all pairs, int64 (sum of lengths,)."""
    if len(lengths) == 1:  # one text to answer, where each call counts
        return np.arange(starts[0], starts[0] + lengths[0], dtype=np.int64)
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(np.sum(lengths)))


def pad(
    encoded: EncodedExamples,
    rows: Sequence[int] | np.ndarray,
    width: int | None = None,
    *,
    tokens: Mapping[str, tuple[np.ndarray, float]] | None = None,
) -> dict[str, np.ndarray]:
    """Puts the examples `rows` side by side, each filled up to one width: a batch for a model.

    `width` is no less than the tokens of the longest; None: as many. `tokens` are further arrays by
    name, (tokens, ...) with a row for each token of all examples, and the number that fills them
    up. Returns `FEATURES`, each int32 (b, width), and the further arrays, (b, width, ...).
    """
    index = np.asarray(rows, np.int64)
    lengths = encoded.lengths[index]
    longest = int(lengths.max()) if width is None else width
    mask = np.arange(longest) < lengths[:, None]  # (b, width)
    positions = spans(encoded.offsets[index], lengths)
    ids = np.full(mask.shape, encoded.pad_id, np.int32)
    ids[mask] = encoded.ids[positions]
    types = np.zeros(mask.shape, np.int32)
    types[mask] = encoded.types[positions]
    batch: dict[str, np.ndarray] = dict(
        zip(FEATURES, (ids, mask.astype(np.int32), types), strict=True)
    )
    for name, (values, filler) in (tokens or {}).items():
        batch[name] = np.full((*mask.shape, *values.shape[1:]), filler, values.dtype)
        batch[name][mask] = values[positions]
    return batch


class Runs(NamedTuple):
    """Parts of flat token ids: row i is ``ids[starts[i]:starts[i] + lengths[i]]``."""

    ids: np.ndarray  # int32 (tokens,)
    starts: np.ndarray  # int64 (n,)
    lengths: np.ndarray  # int64 (n,)


def runs_of(rows: Sequence[np.ndarray]) -> Runs:
    """Token ids of n texts, at least one, as `Runs`."""
    lengths = np.array([len(row) for row in rows], np.int64)
    return Runs(np.concatenate(rows).astype(np.int32), np.cumsum(lengths) - lengths, lengths)


class Template(NamedTuple):
    """The special tokens around texts: ``[CLS] a [SEP]``, or ``[CLS] a [SEP] b [SEP]``.

    Between the texts of a pair stand `separators` times [SEP]; b and its last [SEP] have the token
    type `second_type`.
    """

    pad_id: int
    cls_id: int
    sep_id: int
    separators: int = 1
    second_type: int = 1


def join(
    first: Runs, second: Runs, template: Template, *, has_pair: np.ndarray | None = None
) -> EncodedExamples:
    """Puts the special tokens of `template` around n examples at once.

    `has_pair`, bool (n,), says which examples have a second text, if only without a token; None:
    all.
    """
    paired = np.ones(len(first.lengths), bool) if has_pair is None else has_pair
    sizes = first.lengths + second.lengths + 2 + template.separators * paired
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    ids = np.full(int(offsets[-1]), template.sep_id, np.int32)
    types = np.zeros(len(ids), np.uint8)
    starts = offsets[:-1]
    ids[starts] = template.cls_id
    ids[spans(starts + 1, first.lengths)] = first.ids[spans(first.starts, first.lengths)]
    begins = starts + 1 + template.separators + first.lengths  # of second texts
    ids[spans(begins, second.lengths)] = second.ids[spans(second.starts, second.lengths)]
    types[spans(begins, np.where(paired, second.lengths + 1, 0))] = template.second_type
    return EncodedExamples(ids, offsets, types, pad_id=template.pad_id)


class Lengths(NamedTuple):
    """Tokens that are kept, special tokens not counted."""

    first: np.ndarray  # int64 (n,), of the first texts
    second: np.ndarray  # int64 (n,), of the second texts; 0 where there is none


def check_max_length(max_length: int, *, paired: bool, separators: int = 1) -> None:
    """Refuses a length that cannot hold the special tokens, of a pair `separators` more."""
    least = 2 + separators * paired
    if isinstance(max_length, bool) or not isinstance(max_length, (int, np.integer)):
        raise errors.DataError("max_length", "a whole number", repr(max_length))
    if max_length < least:
        expected = f"at least {least}, room for the special tokens"
        raise errors.DataError("max_length", expected, max_length)


def truncated_lengths(
    first: np.ndarray,
    second: np.ndarray,
    has_pair: np.ndarray,
    max_length: int,
    separators: int = 1,
) -> Lengths:
    """Cuts the longer text of a pair first, until both fit ("longest first").

    With a budget of ``b = max_length - 2 - separators`` tokens for a pair: a text of at most
    ``b // 2`` tokens stays whole and the other one gets the rest; if both are longer, the longer
    one gets ``b - b // 2`` and the shorter one ``b // 2``. At equal lengths the second counts as
    the longer.

    The last rule is the fast Hugging Face tokenizers'. BERT's first code drops token after
    token and so always leaves the odd token to the first text: one token of difference, only where
    the budget is odd and both texts are cut.

    `first` and `second` are the tokens of the texts, int (n,); a second text that is there,
    `has_pair`, may have none. Returns how many to keep of each text; `heads_of` says which.
    """
    first, second = first.astype(np.int64), np.where(has_pair, second, 0).astype(np.int64)
    budget = max_length - 2 - separators * has_pair.astype(np.int64)
    swapped = first > second
    short, long = np.minimum(first, second), np.maximum(first, second)
    fits = short + long <= budget
    long_cut = np.maximum(short, budget - short)  # the shorter one stays whole
    both = short + long_cut > budget
    short_cut = np.where(both, budget // 2, short)
    long_cut = np.where(both, budget - budget // 2, long_cut)
    short = np.where(fits, short, short_cut)
    long = np.where(fits, long, long_cut)
    return Lengths(np.where(swapped, long, short), np.where(swapped, short, long))


def heads_of(lengths: Any, truncation: Truncation) -> Any:
    """The number of a text's kept tokens that are its first, (n,); the others are its last.

    Cut in its middle, a text keeps its first half and its last, an odd token in the head. Sun et
    al. 2019, "How to Fine-Tune BERT for Text Classification?", keep 128 first and 382 last tokens
    of 510: a head of a quarter. `lengths` are those that are kept: an array, a tensor or a number.
    """
    return lengths if truncation == "end" else lengths - lengths // 2


def kept_runs(
    ids: np.ndarray, counts: np.ndarray, lengths: np.ndarray, truncation: Truncation
) -> Runs:
    """Cuts n texts whose tokens stand one after the other, `counts` of each, to `lengths`."""
    starts = np.cumsum(counts) - counts
    heads = heads_of(lengths, truncation)
    if np.array_equal(heads, lengths):
        return Runs(ids, starts, lengths)
    begins = np.cumsum(lengths) - lengths
    of_tail = spans(np.zeros_like(lengths), lengths) >= np.repeat(heads, lengths)
    places = spans(starts, lengths) + np.where(of_tail, np.repeat(counts - lengths, lengths), 0)
    return Runs(ids[places], begins, lengths)


def kept_places(
    owners: Sequence[int | None], max_length: int, truncation: Truncation
) -> np.ndarray:
    """Cuts one text or pair that stands among special tokens, of any number; these all stay.

    `owners` has the text of each token, 0 or 1, or None for a special token. Returns the places of
    the tokens that are kept, int64.
    """
    texts = np.array([-1 if owner is None else owner for owner in owners])
    first, second = (np.array([np.sum(texts == text)]) for text in (0, 1))
    stays = texts < 0
    # As much of each as of a pair, which has three special tokens.
    room = max_length - int(stays.sum()) + 3
    lengths = truncated_lengths(first, second, np.array([True]), room)
    for text, (length,) in enumerate(lengths):
        places, head = np.flatnonzero(texts == text), heads_of(length, truncation)
        stays[places[:head]] = True
        stays[places[len(places) - (length - head) :]] = True
    return np.flatnonzero(stays)
