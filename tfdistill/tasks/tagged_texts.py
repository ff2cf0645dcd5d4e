"""Texts whose words have tags, and records with entities in the forms that tools write."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tfdistill import errors
from tfdistill.tasks import conll, label_cells, schemes, table_files, tables, words

TaskSpec = Any  # `spec.TaskSpec`, whose module imports this one

SUFFIXES = (".jsonl", ".json", ".parquet")
FILE_SUFFIXES = (*conll.SUFFIXES, *SUFFIXES)
UNITS = ("characters", "utf-16", "utf-8")
"""The units of offsets; characters as Python counts them."""
_TOKENS, _TAGS = ("tokens", "words"), ("ner_tags", "tags")
_KEYS = (*_TAGS, "entities", "spans", "label", "labels", "annotations")
_USUAL = (*_TOKENS, "text", *_KEYS)
_LOOKED_AT = 100  # rows that tell whether a file has entities
_FORMS = (
    '{"text": "Eva in Rio", "entities": [{"start": 0, "end": 3, "label": "PER"}]}, exports of '
    "doccano, Prodigy and Label Studio, or tokens and ner_tags"
)


class TaggedTexts(NamedTuple):
    """n texts with the places of their words, and a tag for each word.

    `offsets` are int32 (words, 2), see `words.find_words`; `lines` count from 1. A text that nobody
    tagged has no tags. `notes` say what was changed, a sentence each.
    """

    texts: list[str]
    offsets: list[np.ndarray]
    tags: list[list[str]]
    lines: list[list[int]]  # of each word
    notes: tuple[str, ...] = ()

    def first_lines(self) -> dict[str, int]:
        """The line of each tag's first word."""
        first: dict[str, int] = {}
        for tags, lines in zip(self.tags, self.lines, strict=True):
            for tag, line in zip(tags, lines[: len(tags)], strict=True):
                first.setdefault(tag, line)
        return first


class _Record(NamedTuple):
    """A text with its words, and their tags or spans: (start, end, label, text or None)."""

    where: str
    text: str
    offsets: np.ndarray
    lines: list[int]
    tags: list[str] | None
    spans: list[Any] | None  # start and end in the unit of the file


def read_tagged(path: pathlib.Path, spec: TaskSpec) -> TaggedTexts:
    """Reads a file of tagged texts, tags of entities as BIO; see `read_records`.

    Its columns are those of a CoNLL file by number, or the keys of records; a number is no key. Of
    a run that read records with usual keys, a CoNLL file has the columns 0 and -1.
    """
    columns = (spec.text_column, spec.label_column)
    keys = [None if name.lstrip("-").isdecimal() else name for name in columns]
    if path.suffix.lower() in SUFFIXES:
        read = read_records(path, *keys, names=spec.labels, unit=spec.offsets)
    elif key := next((key for key in keys if key and key not in _USUAL), None):
        what = f"task {spec.name!r}, column of a CoNLL file"
        expected = "its number, from 0 or, if negative, from the end"
        raise errors.ConfigError(what, expected, repr(key))
    else:
        usual = zip(columns, keys, (0, -1), strict=True)
        word, tag = (place if key else int(name) for name, key, place in usual)
        sentences = conll.read_sentences(
            path, word_column=word, tag_column=tag, encoding=spec.encoding
        )
        texts, offsets = zip(*map(words.joined, sentences.words), strict=True)
        named = " and ".join(map(repr, filter(None, keys)))
        notes = (f"{named}: keys of records; read are columns {word} and {tag}",) if named else ()
        read = TaggedTexts([*texts], [*offsets], sentences.tags, sentences.lines, notes)
    scheme, tags = schemes.to_bio(read.tags, str(path))
    note = (f"tags in {scheme} are read as BIO",) if scheme not in ("", schemes.BIO) else ()
    return read._replace(tags=tags, notes=read.notes + note)


def has_entities(path: pathlib.Path) -> bool:
    """Whether the first rows of a file are records with entities or with tags of words."""
    if path.suffix.lower() not in SUFFIXES:
        return False
    rows = [row for _, row in itertools.islice(table_files.read_objects(path), _LOOKED_AT)]
    values = [row[key] for row in rows for key in _KEYS if isinstance(row.get(key), list)]
    cut = any(_are_strings(row.get(name)) for row in rows for name in _TOKENS)
    if cut and any(name in row for row in rows for name in _TAGS):
        return True
    return any(isinstance(item, list | Mapping) for value in values for item in value[:1])


def read_records(
    path: pathlib.Path,
    text_key: str | None = None,
    label_key: str | None = None,
    *,
    names: Sequence[str] = (),
    unit: str | None = None,
    labelled: bool = True,
) -> TaggedTexts:
    """Reads the texts of a file with their entities, or words with their tags.

    Blanks at the edges of an entity are left out and edges inside a word moved to its edges; both
    are counted. A record without annotation, or whose `answer` is not "accept", is one that nobody
    tagged. One without words is left out.

    Args:
      path: JSON Lines, a JSON array or Parquet.
      text_key: The key of texts or words; None for a usual one.
      label_key: The key of entities or tags, likewise.
      names: What tags stand for that are numbers.
      unit: The unit of offsets, of `UNITS`; None for characters, and to refuse a file whose offsets
        fit its words better in another one.
      labelled: Whether some record must have an annotation; otherwise none is read.

    Raises:
      DataError: If a record has another form, or an entity that is empty, overlaps another or is
        not in its text.
    """
    records = _records(path, text_key, label_key, names, labelled)
    if unit is None:
        _check_unit(path, [record for record in records if not record.text.isascii()])
    changes: dict[str, list[str]] = {"blanks at edges left out": [], "edges moved out of words": []}
    rows: list[Any] = [
        (record.text, record.offsets, tags, record.lines)
        for record in records
        if (tags := _tags(record, unit or UNITS[0], changes)) or len(record.offsets)
    ]
    total = sum(len(record.spans or ()) for record in records)
    notes = [
        f"{n}: {len(at)} of {total} entities, first {at[0]}" for n, at in changes.items() if at
    ]
    if len(rows) < len(records):
        notes.append(f"left out: {len(records) - len(rows)} text(s) without a word")
    texts, offsets, tags, lines = ([row[part] for row in rows] for part in range(4))
    return TaggedTexts(texts, offsets, tags, lines, tuple(notes))


def read_untagged(path: pathlib.Path, spec: TaskSpec) -> TaggedTexts:
    """Reads texts alone, as the task's files have their words: records, or a text a line.

    Of records the annotations are not read. Raises DataError if the file is unusable, or a table.
    """
    suffix, key = path.suffix.lower(), spec.text_column
    if suffix in SUFFIXES:
        text_key = None if key.lstrip("-").isdecimal() else key
        return read_records(path, text_key, labelled=False)
    if suffix in (*tables.SUFFIXES, *FILE_SUFFIXES) and suffix != ".txt":
        expected = f"records ({', '.join(SUFFIXES)}), or plain text, one a line (.txt)"
        raise errors.DataError(f"unlabelled text {path}", expected, suffix)
    every = zip(*tables.read_lines(path, key), strict=True)
    located = [(text, line, words.find_words(text)) for text, line in every]
    rows = [row for row in located if len(row[2])]
    texts, offsets = [text for text, _, _ in rows], [places for _, _, places in rows]
    return TaggedTexts(texts, offsets, [[] for _ in rows], [[n] * len(o) for _, n, o in rows])


def records_of(examples: Any) -> Iterator[dict[str, Any]]:
    """The records of `Examples`: with entities or tags, as their label column says, if labelled."""
    spec, gold = examples.spec, examples.labels
    rows = zip(examples.texts, examples.word_offsets, strict=True)
    for index, (text, offsets) in enumerate(rows):
        tags = None if gold is None else [spec.labels[label] for label in gold[index]]
        places = offsets.tolist()
        if spec.label_column in _TAGS:
            row = {"tokens": [text[a:b] for a, b in places]}
            yield row if tags is None else {**row, spec.label_column: tags}
            continue
        spans = sorted((begin, end, label) for label, begin, end in conll.entities(tags or ()))
        entities = [
            {"start": places[begin][0], "end": places[end - 1][1], "label": label}
            for begin, end, label in spans
        ]
        row = {spec.text_column: text}
        yield row if tags is None else {**row, spec.label_column: entities}


def _records(
    path: pathlib.Path,
    text_key: str | None,
    label_key: str | None,
    names: Sequence[str],
    labelled: bool,
) -> list[_Record]:
    rows = [(line, row) for line, row in table_files.read_objects(path) if row]
    usual = (key for _, row in rows for key in _KEYS if isinstance(row.get(key), list))
    key = label_key or next(usual, "entities")
    annotated = [(line, row) for line, row in rows if not labelled or row.get(key) is not None]
    if not annotated:
        shown = ", ".join(map(repr, rows[0][1])) if rows else "none"
        raise errors.DataError(f"data file {path}", f"records: {_FORMS}", f"the keys {shown}")
    usual_keys = {name for _, row in annotated for name in row}
    lists = [row[key] for _, row in annotated if isinstance(row.get(key), list)]
    first = next((item for values in lists for item in values[:1]), None)
    named = () if isinstance(first, list | Mapping) else (text_key,) if text_key else _TOKENS
    tokens = next((n for n in named if any(_are_strings(row.get(n)) for _, row in rows)), None)
    count, records = "line" if path.suffix.lower() == ".jsonl" else "record", []
    for line, row in rows:
        where, value, spans = f"{path}, {count} {line}", row.get(key), None
        if value is None and not usual_keys.issuperset(row):
            remedy = "Rename it, or write null where nobody annotated the text."
            expected = f"the key {key!r}, as in {count} {annotated[0][0]}"
            raise errors.DataError(where, expected, ", ".join(map(repr, row)), remedy)
        if not isinstance(value, list | None):
            raise errors.DataError(where, f"a list under {key!r}", errors.shortened(repr(value)))
        if not labelled or row.get("answer", "accept") != "accept":
            value = None
        if tokens is not None:
            value = _check_words(where, row.get(tokens), value, names)
            text, offsets = words.joined(row[tokens])
        else:
            marked, row = _of_label_studio(where, value, row)
            text, value = row.get(text_key or "text"), None
            if not isinstance(text, str) or "\0" in text:
                received = errors.shortened(repr(row.get(text_key or "text", list(row))))
                raise errors.DataError(where, f"a text under {text_key or 'text'!r}", received)
            offsets = words.find_words(text)
            spans = None if marked is None else sorted(_span(where, item) for item in marked)
        records.append(_Record(where, text, offsets, [line] * len(offsets), value, spans))
    _check_types(records)
    return records


def _check_types(records: Sequence[_Record]) -> None:
    """Refuses types that are tags of a scheme: beside others of the type, or all of several."""
    first: dict[str, str] = {}
    for record in records:
        for span in record.spans or ():
            first.setdefault(span[2], record.where)
    tags = [name for name in first if name[:2] in ("B-", "I-") and name[2:]]
    for name in tags:
        others = {name[2:], *(begin + name[2:] for begin in ("B-", "I-"))} - {name}
        if others & {*first} or 1 < len(tags) == len(first):
            remedy = f"Write {name[2:]!r}: where it begins is said by its offsets."
            raise errors.DataError(first[name], "the type of an entity", repr(name), remedy)


def _check_words(
    where: str, cells: Any, tags: list[Any] | None, names: Sequence[str]
) -> list[str] | None:
    """The tags of words by their names; refuses others, and words that are blank."""
    if not isinstance(cells, list) or not all(isinstance(c, str) and c.strip() for c in cells):
        raise errors.DataError(where, "words that are not blank", errors.shortened(repr(cells)))
    numbers = dict(enumerate(names))
    named: list[Any] = [numbers.get(t) if type(t) is int else t for t in tags or ()]
    if tags is None or (len(tags) == len(cells) and all(isinstance(n, str) for n in named)):
        return tags and named
    received = f"{len(tags)} tags, {sum(isinstance(name, str) for name in named)} with names"
    remedy = "data.labels names tags that are numbers, in their order."
    raise errors.DataError(where, f"the names of the tags of {len(cells)} words", received, remedy)


def _of_label_studio(
    where: str, value: list[Any] | None, row: Mapping[str, Any]
) -> tuple[list[Any] | None, Mapping[str, Any]]:
    """The spans of the annotation that was not cancelled, and what has the text; else as it was."""
    items, data = [each for each in _objects(value) if "result" in each], row.get("data")
    if not items and not isinstance(data, Mapping):
        return value, row
    done = [each for each in items if not each.get("was_cancelled")]
    if len(done) > 1:
        raise errors.DataError(where, "one annotation", len(done), "Keep one for each task.")
    marked = [item.get("value") for each in done for item in _objects(each["result"])]
    spans = [item for item in _objects(marked) if "labels" in item]
    return spans if done else None, data if isinstance(data, Mapping) else row


def _span(where: str, item: Any) -> tuple[int, int, str, str]:
    """The start, the end, the label and the text of an entity, "" where the record lacks that."""
    named: Any = item if isinstance(item, Mapping) else {}
    if isinstance(item, list) and len(item) == 3:
        named = dict(zip(("start", "end", "label"), item, strict=True))
    start, end = (named.get(name, named.get(f"{name}_offset")) for name in ("start", "end"))
    label, text = named.get("label", named.get("labels")), named.get("text")
    if isinstance(label, list) and len(label) == 1:
        (label,) = label
    if type(start) is not int or type(end) is not int or not isinstance(label, str):
        raise errors.DataError(where, f"entities: {_FORMS}", errors.shortened(repr(item)))
    if label.strip() == "O":
        remedy = "O is what words in no entity have: leave these spans out."
        raise errors.DataError(where, "the type of an entity", repr(label), remedy)
    label_cells.check_name(label, where)
    return start, end, label, text if isinstance(text, str) else ""


def _check_unit(path: pathlib.Path, records: Sequence[_Record]) -> None:
    """Refuses a file whose offsets fit the words of its texts better in another unit."""

    def num_fitting(record: _Record, unit: str) -> int:
        return sum(not (fault or any(changed)) for *_, changed, fault in _places(record, unit))

    fitting = {unit: sum(num_fitting(record, unit) for record in records) for unit in UNITS}
    best = max(UNITS, key=fitting.__getitem__)
    if best != UNITS[0]:
        raise errors.DataError(
            f"{path}, offsets",
            "characters",
            f"{best.upper()}: {fitting[best]} entities of texts that are not ASCII fit the words "
            f"so, {fitting[UNITS[0]]} as characters",
            f"Read them with offsets={best!r}, or with offsets='characters'.",
        )


def _places(
    record: _Record, unit: str
) -> Iterator[tuple[int, int, tuple[bool, ...], tuple[str, str] | None]]:
    """The words of each span: the first, one past the last; what is left out; what is at fault.

    Left out are blanks at its edges, and parts of words. At fault, what was expected and received,
    is a span that is not in the text, has no word, or covers another text than it says.
    """
    text, spans, starts = record.text, record.spans or (), np.arange(len(record.text) + 1)
    if unit != UNITS[0]:
        points = np.frombuffer(text.encode("utf-32-le"), "<u4")
        limits = (0xFFFF,) if unit == "utf-16" else (0x7F, 0x7FF, 0xFFFF)
        starts[1:] = np.cumsum(1 + sum((points > limit).astype(int) for limit in limits))
    characters = {start: place for place, start in enumerate(starts.tolist())}
    edges = np.array([[characters.get(edge, -1) for edge in span[:2]] for span in spans], int)
    begins, ends = edges.reshape(-1, 2).T
    firsts = np.searchsorted(record.offsets[:, 1].copy(), begins, side="right").tolist()
    lasts = np.searchsorted(record.offsets[:, 0].copy(), ends).tolist()
    for span, begin, end, first, last in zip(spans, begins, ends, firsts, lasts, strict=True):
        piece, shown, fault, cut = text[begin:end], _shown(span), None, False
        if min(begin, end) < 0:
            expected = f"edges between two of the {len(text)} characters, or around them"
            fault = expected, f"{shown}, in {unit}"
        elif span[3] and piece.split() != span[3].split():
            fault = f"{span[3]!r} at {shown}", errors.shortened(repr(piece))
        elif begin >= end or first >= last:
            fault = "entities of one word or more", f"none at {shown}"
        else:
            cut = record.offsets[first, 0] < begin or end < record.offsets[last - 1, 1]
        yield first, last, (piece != piece.strip(), bool(cut)), fault


def _shown(span: Any) -> str:
    return f"[{span[0]}, {span[1]}] {span[2]!r}"


def _tags(record: _Record, unit: str, changes: dict[str, list[str]]) -> list[str]:
    """The tags of a record's words, as BIO where it has spans; `changes` get where these differ."""
    if record.spans is None:
        return record.tags or []
    entities: list[tuple[str, int, int]] = []
    for span, (first, last, changed, fault) in zip(
        record.spans, _places(record, unit), strict=True
    ):
        if fault is None and entities and first < entities[-1][2]:
            received = f"{_shown(span)} over a word of {entities[-1][0]!r}"
            fault = "entities that share no word", received
        if fault is not None:
            raise errors.DataError(record.where, *fault)
        entities.append((span[2], first, last))
        for where, is_changed in zip(changes.values(), changed, strict=True):
            where += [record.where] * is_changed
    return schemes.tags_of(len(record.offsets), entities)


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _are_strings(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(isinstance(c, str) for c in value)
