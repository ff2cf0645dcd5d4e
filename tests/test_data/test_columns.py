"""Which columns are texts and labels: found by names and values, or asked for."""

import json

import pytest

from tfdistill import errors
from tfdistill.data import columns

TEXTS = [f"sentence number {index} of many" for index in range(60)]
SECOND = TEXTS[::-1]
KINDS = ["good", "bad", "odd"] * 20
IDS = [str(index) for index in range(60)]
SCORES = [f"{index / 7:.2f}" for index in range(60)]
UUIDS = [f"{index:08x}-1f2e-4d3c-9b8a-{index:012x}" for index in range(60)]
REPEATED = [f"turn the light {way}" for way in ("on", "off", "up")] * 20
BITS = ["0", "1"] * 30
DATES = [f"2024-03-05 10:{index:02}:00" for index in range(60)]


def table_of(tmp_path, **cells):
    rows = [",".join(cells), *map(",".join, zip(*cells.values(), strict=True))]
    (tmp_path / "x.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return columns.read_columns(tmp_path / "x.csv")


def table_of_json(tmp_path, rows):
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return columns.read_columns(tmp_path / "x.jsonl")


FOUND = [
    ({"a": TEXTS, "b": KINDS}, "a", None, "b"),
    ({"b": KINDS, "a": TEXTS}, "a", None, "b"),
    ({"s1": TEXTS, "s2": SECOND, "y": BITS}, "s1", "s2", "y"),
    ({"#1 String": TEXTS, "#2 String": SECOND, "Q": KINDS}, "#1 String", "#2 String", "Q"),
    ({"premise": TEXTS, "hypothesis": SECOND, "g": KINDS}, "premise", "hypothesis", "g"),
    ({"id": IDS, "a": TEXTS, "b": KINDS}, "a", None, "b"),
    ({"userId": IDS, "a": TEXTS, "b": KINDS}, "a", None, "b"),
    ({"": IDS, "a": TEXTS, "b": KINDS}, "a", None, "b"),
    ({"year": ["2012"] * 60, "a": TEXTS, "score": SCORES}, "a", None, "score"),
    ({"genre": KINDS, "a": TEXTS, "label": KINDS}, "a", None, "label"),
    ({"a": [f"打开{index}灯" for index in range(60)], "b": KINDS}, "a", None, "b"),
    ({"id": UUIDS, "text": REPEATED, "label": KINDS}, "text", None, "label"),
    ({"url": [f"https://example.org/{i}" for i in IDS], "a": TEXTS, "b": KINDS}, "a", None, "b"),
    ({"created": DATES, "a": TEXTS, "b": KINDS}, "a", None, "b"),
    ({"author": [f"Ann Example {i}" for i in IDS], "a": TEXTS, "b": KINDS}, "a", None, "b"),
    # Names of several words, few rows of each.
    ({"text": TEXTS, "label": [f"cancel order {i // 2}" for i in range(60)]},
     "text", None, "label"),
    ({"text": TEXTS, "label": [f"class {i}" for i in IDS], "lang": KINDS}, "text", None, "label"),
    ({"text": TEXTS, "label": KINDS, "label_text": KINDS}, "text", None, "label"),
    ({"text": TEXTS, "lang": KINDS}, "text", None, "lang"),
    ({"text": TEXTS, "film_sentiment": KINDS, "source": ["web"] * 60},
     "text", None, "film_sentiment"),
    ({"text": TEXTS, "comment": [""] * 60, "label": KINDS}, "text", None, "label"),
    ({"word": IDS, "text": UUIDS, "label": KINDS}, "text", None, "label"),
]  # fmt: skip


@pytest.mark.parametrize(("cells", "text", "pair", "label"), FOUND)
def test_columns_are_found_by_names_and_values(tmp_path, cells, text, pair, label):
    assert columns.choose_roles(table_of(tmp_path, **cells)) == (text, pair, label)


TWO = {"title": TEXTS, "abstract": SECOND, "topic": KINDS, "level": KINDS}
LABELS = {"text": TEXTS, "klass": KINDS}
# Columns, what is named, what the message says.
ASKED = [
    (TWO, {}, r"2 that may be: title .* abstract .*text_column='title'.*pair_column='abstract"),
    ({"title": TEXTS, "text": REPEATED, "label": KINDS}, {}, "such as text_column='text'"),
    ({"Summary": TEXTS, "Text": SECOND, "Score": KINDS}, {}, "such as text_column='Text'"),
    ({"title": TEXTS, "text": [""] * 60, "label": KINDS}, {}, "such as text_column='text'"),
    ({"title": TEXTS, "abstract": SECOND, "extra": REPEATED, "e": SECOND}, {"pair": "e"},
     r"text_column='title'\.$"),
    ({"first": SCORES, "second": SCORES}, {}, r"text_column='first'\.$"),
    ({"text": TEXTS, "level": KINDS, "colour": KINDS}, {}, r"level .*label_column='level'"),
    (TWO, {"text": "abstract", "label": "topics"}, "label_column: .* Did you mean 'topic'"),
    ({"text": TEXTS, "colour": KINDS, "film_sentiment": KINDS}, {}, "label_column='film_senti"),
    ({"text": TEXTS, "toxic": BITS, "insult": BITS}, {}, r"several labels a text.*with \| between"),
    # No other column becomes the label in silence.
    ({"text": TEXTS, "label_id": ["0", "1", "2"] * 20, "lang": KINDS}, {}, "'label_id'"),
    ({"text": TEXTS, "target_idx": ["0", "1", "2"] * 20, "split": KINDS}, {}, "'target_idx'"),
    ({"text": TEXTS, "answer_yes_no": ["yes", "no"] * 30, "channel": KINDS}, {}, "'answer_yes_no"),
    ({"text": TEXTS, "id": IDS, "split": KINDS}, {}, "label_column"),
    (LABELS | {"lang": KINDS}, {}, "such as label_column='klass'"),
]  # fmt: skip


@pytest.mark.parametrize(("cells", "named", "told"), ASKED)
def test_an_unclear_column_is_asked_for_by_its_option(tmp_path, cells, named, told):
    with pytest.raises(errors.ConfigError, match=told):
        columns.choose_roles(table_of(tmp_path, **cells), **named)


def test_named_columns_are_taken(tmp_path):
    two = table_of(tmp_path, **TWO)
    assert columns.choose_roles(two, text="abstract", label="level") == ("abstract", None, "level")
    both = columns.choose_roles(two, text="abstract", pair="title")
    assert both == ("abstract", "title", "topic")


def test_words_with_tags_are_no_texts_with_labels(tmp_path):
    rows = [{"tokens": text.split(), "tags": ["O"] * 5, "text": text} for text in TEXTS]
    table = table_of_json(tmp_path, rows)
    assert columns.choose_roles(table, label="tags").text == "text"
    with pytest.raises(errors.DataError, match=r"lists in 'tokens', 'tags'.*kind=.token"):
        columns.choose_roles(table, text="tokens", label="tags")
    del table.columns["text"]
    with pytest.raises(errors.DataError):
        columns.choose_roles(table)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"text": "a\0b"}, "line 60, 'text': .*NULL"),
        ({"text": {"a": 1}}, "line 60, 'text': .*received dict"),
        ({"label": {"v": 1}}, "line 60, 'label': .*received dict"),
    ],
)
def test_an_unreadable_cell_does_not_make_another_column_the_text_or_label(tmp_path, row, told):
    rows = [
        {"title": f"the title of {text}", "text": text, "label": kind, "lang": kind}
        for text, kind in zip(TEXTS, KINDS, strict=True)
    ]
    rows[-1] |= row
    table = table_of_json(tmp_path, rows)
    with pytest.raises(errors.DataError, match=told):
        columns.choose_roles(table)
    named = {"text": "title"} if "text" in row else {"text": "text", "label": "lang"}
    assert columns.choose_roles(table, **named).text == named["text"]
    with pytest.raises(errors.DataError, match=told):
        columns.choose_roles(table, **{next(iter(row)): next(iter(row))})


HEADERS = [
    ("good film,yes\nbad film,no\nold film,yes\nnew film,yes\n", "'yes' occurs again below"),
    ("What is it ?,3\nWho is it ?,4\n", "looks like data"),
    ("text,label,label\na,x,y\nb,y,x\n", "line 1: .*(one column 'label'|looks like data)"),
]


@pytest.mark.parametrize(("content", "told"), HEADERS)
def test_a_first_row_that_names_no_columns_is_refused(tmp_path, content, told):
    (tmp_path / "x.csv").write_text(content)
    with pytest.raises(errors.DataError, match=told):
        columns.read_columns(tmp_path / "x.csv")
    with pytest.raises(errors.DataError, match="one file of labelled texts, received a folder"):
        columns.read_columns(tmp_path)
