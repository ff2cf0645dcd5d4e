import json

import pytest

from tfdistill import errors
from tfdistill.data import columns
from tfdistill.tasks import label_kinds, tables

TEXTS = [f"sentence number {index} of many" for index in range(60)]
KINDS = ["good", "bad", "odd"] * 20


def table_of(tmp_path, name="x.csv", separator=",", **cells):
    rows = [
        separator.join(cells),
        *(separator.join(row) for row in zip(*cells.values(), strict=True)),
    ]
    path = tmp_path / name
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return columns.read_columns(path)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_cells_may_be_between_any_of_four_marks(tmp_path, separator):
    table = table_of(tmp_path, separator=separator, text=TEXTS, label=KINDS)
    assert table.columns == {"text": TEXTS, "label": KINDS}
    assert (table.separator, table.lines[0], len(table)) == (separator, 2, 60)


def test_json_lines_give_the_columns_that_every_row_has(tmp_path):
    rows = [
        {"text": a, "tags": ["x", b], "more": {"a": 1}} for a, b in zip(TEXTS, KINDS, strict=True)
    ]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    table = columns.read_columns(tmp_path / "x.jsonl")
    assert list(table.columns) == ["text", "tags"] and "received dict" in table.unusable["more"]
    assert label_kinds.kind_of(table.columns["tags"]).kind == "multi_label"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("good film,yes\nbad film,no\nold film,yes\nnew film,yes\n", "'yes' occurs again below"),
        ("What is it ?,3\nWho is it ?,4\n", "looks like data"),
        ("text,label,label\na,x,y\nb,y,x\n", "one column 'label'"),
        ("text,label\n", "at least one row"),
        ("text,label\na,b\nc\n", r"line 3: expected 2 cells \(text, label\), received 1"),
        ("text,label\na,b,c\n", "line 2: expected 2 cells .* quotation marks"),
    ],
)
def test_a_file_without_header_or_with_broken_rows_is_refused(tmp_path, text, told):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(errors.DataError, match=told):
        columns.read_columns(tmp_path / "x.csv")


@pytest.mark.parametrize(
    ("suffix", "told"),
    [
        (".dta", "Save tables of other programs as CSV"),
        (".xls", r"Save it as \.xlsx"),
        (".zip", "Unpack it"),
        (".json", "an object a line"),
        (".conll", "--kind token"),
    ],
)
def test_other_formats_are_refused(tmp_path, suffix, told):
    (tmp_path / f"x{suffix}").write_bytes(b"PK")
    with pytest.raises(errors.DataError, match=told):
        columns.read_columns(tmp_path / f"x{suffix}")


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(errors.DataError, match="one file of labelled texts, received a folder"):
        columns.read_columns(tmp_path)


IDS = [str(index) for index in range(60)]
SCORES = [f"{index / 7:.2f}" for index in range(60)]


@pytest.mark.parametrize(
    ("cells", "roles"),
    [
        ({"a": TEXTS, "b": KINDS}, ("a", None, "b")),
        ({"b": KINDS, "a": TEXTS}, ("a", None, "b")),
        ({"s1": TEXTS, "s2": TEXTS[::-1], "y": ["0", "1"] * 30}, ("s1", "s2", "y")),
        ({"#1 String": TEXTS, "#2 String": TEXTS, "Q": KINDS}, ("#1 String", "#2 String", "Q")),
        ({"premise": TEXTS, "hypothesis": TEXTS, "g": KINDS}, ("premise", "hypothesis", "g")),
        ({"id": IDS, "a": TEXTS, "b": KINDS}, ("a", None, "b")),
        ({"": IDS, "a": TEXTS, "b": KINDS}, ("a", None, "b")),
        ({"year": ["2012"] * 60, "a": TEXTS, "score": SCORES}, ("a", None, "score")),
        ({"genre": KINDS, "a": TEXTS, "label": KINDS}, ("a", None, "label")),
        ({"a": [f"打开{index}灯" for index in range(60)], "b": KINDS}, ("a", None, "b")),
    ],
)
def test_columns_are_found_by_values_then_by_names(tmp_path, cells, roles):
    assert tuple(columns.choose_roles(table_of(tmp_path, **cells))) == roles


def test_an_unclear_column_is_asked_for_by_its_option(tmp_path):
    two = table_of(tmp_path, title=TEXTS, abstract=TEXTS[::-1], topic=KINDS, level=KINDS)
    with pytest.raises(
        errors.ConfigError, match=r"--text-column 'title'.*--pair-column 'abstract'"
    ):
        columns.choose_roles(two)
    with pytest.raises(errors.ConfigError, match=r"2 that may be: title .* abstract"):
        columns.choose_roles(two)
    with pytest.raises(errors.ConfigError, match=r"level .*--label-column 'level'"):
        columns.choose_roles(table_of(tmp_path, text=TEXTS, level=KINDS, colour=KINDS))
    three = table_of(tmp_path, title=TEXTS, abstract=TEXTS[::-1], extra=TEXTS[1:] + TEXTS[:1])
    with pytest.raises(errors.ConfigError, match=r"--text-column 'title'\.$"):
        columns.choose_roles(three, pair="extra")
    numbers = table_of(tmp_path, first=SCORES, second=SCORES)
    with pytest.raises(errors.ConfigError, match=r"--text-column 'first'\.$"):
        columns.choose_roles(numbers)
    roles = columns.choose_roles(two, text="abstract", label="level")
    assert tuple(roles) == ("abstract", None, "level")
    roles = columns.choose_roles(two, text="abstract", pair="title")
    assert tuple(roles) == ("abstract", "title", "topic")
    with pytest.raises(errors.ConfigError, match=r"--label-column: .* Did you mean 'topic'"):
        columns.choose_roles(two, text="abstract", label="topics")


def test_words_with_tags_are_no_texts_with_labels(tmp_path):
    rows = [{"tokens": text.split(), "tags": ["O"] * 5, "text": text} for text in TEXTS]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    table = columns.read_columns(tmp_path / "x.jsonl")
    assert columns.choose_roles(table, label="tags").text == "text"
    with pytest.raises(errors.DataError, match=r"lists in 'tokens', 'tags'.*--kind token"):
        columns.choose_roles(table, text="tokens", label="tags")
    del table.columns["text"]
    with pytest.raises(errors.DataError):
        columns.choose_roles(table)


def test_the_hint_names_the_likely_label_and_a_constant_column_is_none(tmp_path):
    halves = {"colour": KINDS, "film_sentiment": KINDS[::-1], "source": ["web"] * 60}
    table = table_of(tmp_path, text=TEXTS, **halves)
    with pytest.raises(errors.ConfigError, match=r"2 that may be.*--label-column 'film_senti"):
        columns.choose_roles(table)
    del table.columns["colour"]
    assert columns.choose_roles(table).label == "film_sentiment"


def test_a_column_for_each_label_is_explained(tmp_path):
    marks = {"toxic": ["0", "1"] * 30, "insult": ["1", "0", "0"] * 20}
    with pytest.raises(errors.ConfigError, match=r"several labels a text.*with \| between"):
        columns.choose_roles(table_of(tmp_path, text=TEXTS, **marks))
    with pytest.raises(errors.ConfigError):
        columns.choose_roles(table_of(tmp_path, text=TEXTS, level=KINDS, colour=KINDS))


@pytest.mark.parametrize(
    ("labels", "kind", "separator"),
    [
        (["a", "b", "b"], "classification", ","),
        (["0", "1", "1"], "classification", ","),
        (["1", "2", "5"] * 9, "classification", ","),
        ([str(n) for n in range(21)], "regression", ","),
        (["0.5", "1", "2"], "regression", ","),
        (["a", "b", "a|b", ""], "multi_label", "|"),
        (["a", "b", "a, b"], "multi_label", ","),
        (["Washington, DC", "Portland, OR", "Paris"], "classification", ","),
    ],
)
def test_the_kind_follows_from_the_labels(labels, kind, separator):
    assert label_kinds.kind_of(labels)[:2] == (kind, separator)


UUIDS = [f"{index:08x}-1f2e-4d3c-9b8a-{index:012x}" for index in range(60)]
REPEATED = [f"turn the light {way}" for way in ("on", "off", "up")] * 20


@pytest.mark.parametrize(
    ("cells", "roles"),
    [
        ({"id": UUIDS, "text": REPEATED, "label": KINDS}, ("text", None, "label")),
        (
            {"file": [f"audio-{index}.flac" for index in range(60)], "sentence": REPEATED}
            | {"intent": KINDS},
            ("sentence", None, "intent"),
        ),
        (
            {"url": [f"https://example.org/{index}" for index in range(60)], "a": TEXTS}
            | {"b": KINDS},
            ("a", None, "b"),
        ),
        (
            {"created": [f"2024-03-05 10:{index:02}:00" for index in range(60)], "a": TEXTS}
            | {"b": KINDS},
            ("a", None, "b"),
        ),
        (
            {"author": [f"Ann Example {index}" for index in range(60)], "a": TEXTS, "b": KINDS},
            ("a", None, "b"),
        ),
        ({"userId": IDS, "a": TEXTS, "b": KINDS}, ("a", None, "b")),
        # Names of several words, few rows of each.
        ({"text": TEXTS, "label": [f"cancel order {i // 2}" for i in range(60)]},
         ("text", None, "label")),
        ({"text": TEXTS, "label": [f"class {i}" for i in range(60)], "lang": KINDS},
         ("text", None, "label")),
        ({"text": TEXTS, "label": KINDS, "label_text": KINDS}, ("text", None, "label")),
        ({"text": TEXTS, "lang": KINDS}, ("text", None, "lang")),
    ],
)  # fmt: skip
def test_a_name_counts_where_values_would_mislead(tmp_path, cells, roles):
    assert tuple(columns.choose_roles(table_of(tmp_path, **cells))) == roles


@pytest.mark.parametrize(
    ("others", "column"),
    [
        ({"label_id": ["0", "1", "2"] * 20, "lang": KINDS}, "label_id"),
        ({"target_idx": ["0", "1", "2"] * 20, "split": KINDS}, "target_idx"),
        ({"answer_yes_no": ["yes", "no"] * 30, "channel": KINDS}, "answer_yes_no"),
        ({"id": IDS, "split": KINDS}, "split"),
        ({"klass": KINDS, "lang": KINDS}, "klass"),
    ],
)
def test_no_other_column_becomes_the_label_in_silence(tmp_path, others, column):
    table = table_of(tmp_path, text=TEXTS, **others)
    with pytest.raises(errors.ConfigError, match=f"such as --label-column '{column}'"):
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
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    table = columns.read_columns(tmp_path / "x.jsonl")

    with pytest.raises(errors.DataError, match=told):
        columns.choose_roles(table)

    named = columns.choose_roles(
        table, **({"text": "title"} if "text" in row else {"text": "text", "label": "lang"})
    )
    assert named.text == ("title" if "text" in row else "text")


def test_a_text_of_its_name_is_proposed_first(tmp_path):
    with pytest.raises(errors.ConfigError, match="such as --text-column 'text'"):
        columns.choose_roles(table_of(tmp_path, title=TEXTS, text=REPEATED, label=KINDS))
    with pytest.raises(errors.ConfigError, match="such as --text-column 'Text'"):
        columns.choose_roles(table_of(tmp_path, Summary=TEXTS, Text=TEXTS[::-1], Score=KINDS))


def test_an_empty_column_of_its_name_is_not_passed_over(tmp_path):
    table = table_of(tmp_path, title=TEXTS, text=[""] * 60, label=KINDS)
    with pytest.raises(errors.DataError, match="'text': expected texts, received no filled cell"):
        columns.choose_roles(table)
    assert columns.choose_roles(table, text="title").text == "title"
    spare = table_of(tmp_path, text=TEXTS, comment=[""] * 60, label=KINDS)
    assert columns.choose_roles(spare).text == "text"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("above", [",,", ";", '"",""', " , \t"])
def test_rows_without_a_filled_cell_above_the_names_are_passed_over(above, encoding, tmp_path):
    mark = ";" if above == ";" else ","
    rows = [f"some nice text {index}{mark}{'ab'[index % 2]}" for index in range(20)]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join([above, "", f"text{mark}label", *rows]) + "\n", encoding)
    assert tables.column_names(path) == ["text", "label"]
    assert columns.choose_roles(columns.read_columns(path)) == ("text", None, "label")
