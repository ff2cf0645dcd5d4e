"""Texts without labels, which a teacher answers: files, and what may not be among them."""

from __future__ import annotations

import dataclasses
import logging
import pathlib
import re
import unicodedata
from collections.abc import Hashable, Iterator, Mapping, Sequence

import numpy as np

from tfdistill import errors
from tfdistill.tasks import Examples, TaskSpec, splitting, tables, tagged_texts
from tfdistill.tasks.examples import load_texts, untagged_examples

_log = logging.getLogger(__name__)

# Characters that are about a word in scripts without blanks: two of Chinese and Japanese, four of
# Thai, Lao, Burmese and Khmer.
_WORD = re.compile(
    "[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]{2}"
    "|[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]{4}"
)
_FEWEST_WORDS = 3  # of a text that is compared without its digits and punctuation


class _Letters(dict[int, int | str]):
    """The table of `str.translate`: nothing for digits, a blank for marks."""

    def __missing__(self, code: int) -> int | str:
        category = unicodedata.category(chr(code))
        mark = category[0] == "P" or category in ("Sm", "Sc", "Sk")  # emoji are words
        inside = category[0] == "N" or chr(code) in "'\u2019"
        self[code] = "" if inside else " " if mark else code
        return self[code]


_LETTERS = _Letters()


@dataclasses.dataclass(frozen=True)
class UnlabelledTexts:
    """Texts or pairs without labels."""

    examples: Examples
    places: tuple[str, ...]  # "FILE, line N" of each
    dropped: int = 0  # rows that were left out: empty ones and repetitions


def read_unlabelled(spec: TaskSpec, paths: Sequence[tables.Path]) -> UnlabelledTexts:
    """Reads texts without labels, for a task over texts, pairs or words.

    A `.tsv`, `.csv` or `.jsonl` file is a table with the text columns of the task; other columns
    are not read. Any other file is plain text, one text a line. Of an embedding task both texts of
    a pair are texts by themselves, and a table may have the first column alone. Where words have
    tags, see `tagged_texts.read_untagged`.
    """
    if spec.traits.decodes_spans:
        expected = "a task over texts, pairs or words"
        raise errors.ConfigError(f"unlabelled text for task {spec.name!r}", expected, spec.kind)
    texts: list[str] = []
    pairs: list[str] = []
    places: list[str] = []
    words: list[np.ndarray] = []
    if spec.traits.vectors or spec.traits.tags_words:
        for path in map(pathlib.Path, paths):
            read = (
                load_texts(spec, path)
                if spec.traits.vectors
                else untagged_examples(spec, tagged_texts.read_untagged(path, spec), path)
            )
            texts += read.texts
            words += read.word_offsets or ()
            places += [f"{read.path}, line {line}" for line in read.lines or ()]
        examples = Examples(spec, texts, None, None, word_offsets=words or None)
        return UnlabelledTexts(examples, tuple(places))
    for path in map(pathlib.Path, paths):
        if path.suffix.lower() in tables.SUFFIXES:
            columns = [name for name in (spec.text_column, spec.pair_column) if name is not None]
            table = tables.read_table(
                path, columns, header=spec.header, skip_short_rows=spec.skip_short_rows
            )
            texts += table.columns[spec.text_column]
            if spec.pair_column is not None:
                pairs += table.columns[spec.pair_column]
            lines = table.lines
        elif spec.pair_column is not None:
            raise errors.DataError(
                f"unlabelled text {path}",
                f"a table with the columns {spec.text_column!r} and {spec.pair_column!r}, in "
                f"{', '.join(tables.SUFFIXES)}",
                "plain text",
            )
        else:
            plain_texts, lines = tables.read_lines(path, spec.text_column)
            texts += plain_texts
            if not lines:
                raise errors.DataError(f"unlabelled text {path}", "lines of text", "none")
        places += [f"{path}, line {line}" for line in lines]
    examples = Examples(spec, texts, pairs if spec.pair_column is not None else None, None)
    return UnlabelledTexts(examples, tuple(places))


def select_new(
    further: UnlabelledTexts, train: Examples, held_out: Mapping[str, Examples]
) -> UnlabelledTexts:
    """Keeps each text once that is not in the training set; refuses text of held-out sets, by name.

    Texts are compared without differences of case and blanks (`normal_text`), pairs as pairs.
    """
    texts, trained, *others = example_numbers(further.examples, train, *held_out.values())
    for (name, part), numbers in zip(held_out.items(), others, strict=True):
        leaked = np.flatnonzero(np.isin(texts, numbers)).tolist()
        if leaked:
            shown = errors.shortened(further.examples.texts[leaked[0]])
            raise errors.DataError(
                "unlabelled text",
                f"no text of the {name} set",
                f"{len(leaked)} row(s), the first in {further.places[leaked[0]]}: {shown!r}",
                "Remove them from one of the two.",
            )
        warn_of_shared(part, further.examples, f"{name} texts")
    _, first = np.unique(texts, return_index=True)
    new = np.sort(first[~np.isin(texts[first], trained)]).tolist()
    pairs = further.examples.pairs or further.examples.texts
    rows = [row for row in new if (further.examples.texts[row] + pairs[row]).strip()]
    return UnlabelledTexts(
        further.examples.select(rows),
        tuple(further.places[index] for index in rows),
        further.dropped + len(texts) - len(rows),
    )


def example_keys(examples: Examples) -> list[tuple[str, ...]]:
    """The keys of equal examples: both texts of each, as `normal_text` writes them."""
    pairs = examples.pairs or [""] * len(examples)
    return [(normal_text(a), normal_text(b)) for a, b in zip(examples.texts, pairs, strict=True)]


def example_numbers(*parts: Examples, similar: bool = False) -> list[np.ndarray]:
    """Numbers the examples of sets, int64 (n,): equal ones (`example_keys`) have one number.

    With `similar` also those that `similar_text` makes equal, and pairs in both orders.
    """
    numbers: dict[Hashable, int] = {}
    return [splitting.numbered(_keys(part, similar), numbers) for part in parts]


def rows_apart(examples: Examples, others: Sequence[Examples]) -> np.ndarray:
    """The first of each group of similar examples that no other set has one of, rising."""
    numbers, *used = example_numbers(examples, *others, similar=True)
    groups, first = np.unique(numbers, return_index=True)
    return np.sort(first[~np.isin(groups, np.concatenate(used))])


def _keys(examples: Examples, similar: bool) -> Iterator[Hashable]:
    key = similar_text if similar else normal_text
    if examples.pairs is None:
        return map(key, examples.texts)
    both = zip(map(key, examples.texts), map(key, examples.pairs), strict=True)
    return (tuple(sorted(pair)) for pair in both) if similar else both


def normal_text(text: str) -> str:
    """The text without differences of case and blanks."""
    return " ".join(text.casefold().split())


def similar_text(text: str) -> str:
    """`normal_text` without digits and punctuation, where that leaves three words or more."""
    normal = normal_text(text)
    words = normal.translate(_LETTERS).split()
    bare = " ".join(words)
    enough = len(words) >= _FEWEST_WORDS or len(_WORD.findall(bare)) >= _FEWEST_WORDS
    return bare if enough else normal


def warn_of_shared(examples: Examples, train: Examples, what: str) -> tuple[str, ...]:
    """Warns of texts that the training set has, too, or has with other digits or punctuation.

    Returns the warning, or nothing.
    """
    trained, scored = example_numbers(train, examples, similar=True)
    shared = np.count_nonzero(np.isin(scored, trained))
    if not shared:
        return ()
    warning = (
        f"{shared} of {len(examples)} {what} are training texts too, but for digits, punctuation "
        "or the order of a pair: their metric is too good by up to that share."
    )
    _log.warning(warning)
    return (warning,)
