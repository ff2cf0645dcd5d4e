"""Texts without labels: how they are read, and which of them a run refuses or leaves out."""

import json

import numpy as np
import pytest

from tfdistill import config, errors, tasks
from tfdistill.data import batches, unlabelled

TASK = tasks.TaskSpec("t", "text", "label", labels=("no", "yes"))
EMBEDDING = tasks.TaskSpec("v", "text", "score", pair_column="other", kind="embedding")
PAIRS = tasks.TaskSpec("p", "text", "label", pair_column="other", labels=("no", "yes"))


def texts_of(*texts, spec=TASK, pairs=None):
    return tasks.Examples(spec, list(texts), pairs, np.zeros(len(texts), np.int32))


def read(tmp_path, name, content, spec=TASK):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    return unlabelled.read_unlabelled(spec, [path])


def test_plain_text_has_a_text_in_each_line_that_is_not_blank(tmp_path):
    texts = read(tmp_path, "more.txt", "one two\n\n  three four \u2028five \n")
    assert texts.examples.texts == ["one two", "three four \u2028five"]
    assert texts.examples.labels is None
    assert [place.rpartition(", ")[2] for place in texts.places] == ["line 1", "line 3"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("good\tyes\nbad\tno\n", r"more.txt, line 1: .* received 1 tab\(s\): 'good <tab> yes'"),
        ("\nText\ngood\n", "more.txt, line 2: .* received the names of columns: 'Text'"),
        ("label|text\nyes|good\n", "line 1: .* received the names of columns"),
    ],
)
@pytest.mark.parametrize("spec", [TASK, EMBEDDING], ids=["unlabelled", "embedding"])
def test_a_table_is_never_read_as_lines(lines, message, spec, tmp_path):
    with pytest.raises(errors.DataError, match=message):
        read(tmp_path, "more.txt", lines, spec)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("more.csv", 'id,text\n1,"a, b"\n2,c\n'),
        ("more.tsv", "text\tlabel\na, b\tunknown\nc\t\n"),
        ("more.jsonl", "\n".join(json.dumps({"text": text}) for text in ("a, b", "c"))),
    ],
)
def test_a_table_needs_the_text_column_and_no_label(tmp_path, name, content):
    assert read(tmp_path, name, content).examples.texts == ["a, b", "c"]


def test_pairs_come_from_tables_with_both_columns(tmp_path):
    texts = read(tmp_path, "more.tsv", "other\ttext\nb\ta\n", PAIRS)
    assert (texts.examples.texts, texts.examples.pairs) == (["a"], ["b"])
    with pytest.raises(errors.DataError, match="columns 'text' and 'other'"):
        read(tmp_path, "more.txt", "a\n", PAIRS)


def test_files_without_texts_and_tasks_over_questions_are_refused(tmp_path):
    with pytest.raises(errors.DataError, match="lines of text"):
        read(tmp_path, "more.txt", " \n\n")
    with pytest.raises(errors.DataError, match="a column 'text'"):
        read(tmp_path, "more.csv", "sentence;id\na;1\n")
    with pytest.raises(
        errors.ConfigError, match="a task over texts, pairs or words, received span"
    ):
        unlabelled.read_unlabelled(tasks.task("squad"), [])


TAGGED = [
    ({"text": "Eva, in Rio", "entities": [{"start": 0, "end": 3, "label": "X"}]}, ".jsonl"),
    ({"text": "Eva, in Rio", "answer": "reject", "spans": [[0, 99, "X"]]}, ".json"),
    ({"data": {"text": "Eva, in Rio"}, "annotations": []}, ".json"),
    ({"tokens": ["Eva", ",", "in", "Rio"], "ner_tags": ["B-X"]}, ".jsonl"),
]


@pytest.mark.parametrize("row, suffix", TAGGED)
def test_of_records_the_texts_alone_are_read_whatever_their_annotations(tmp_path, row, suffix):
    spec = tasks.TaskSpec("ner", "0", "-1", kind="token", labels=("O", "B-X", "I-X"))
    blank = {**row, "tokens": row["tokens"]} if "tokens" in row else {"text": " \t"}
    rows = [row, blank]
    content = json.dumps(rows) if suffix == ".json" else "\n".join(map(json.dumps, rows))
    texts = read(tmp_path, f"more{suffix}", content, spec)
    words = ["Eva", ",", "in", "Rio"]
    assert texts.examples.words == [words] * (1 + ("tokens" in row))
    assert texts.examples.labels is None
    assert texts.places[0].endswith(f"more{suffix}, line 1")


def test_words_without_tags_are_also_in_lines_of_text_and_in_no_table(tmp_path):
    spec = tasks.TaskSpec("ner", "text", "spans", kind="token", labels=("O", "B-X", "I-X"))
    texts = read(tmp_path, "more.txt", "Eva, here\n\u200b\n\nin Rio\n", spec)
    assert texts.examples.words == [["Eva", ",", "here"], ["in", "Rio"]]
    assert [place.rpartition(", ")[2] for place in texts.places] == ["line 1", "line 4"]
    for name in ("more.csv", "more.conll"):
        expected = r"expected records \(.jsonl, .json, .parquet\), or plain text, one a line"
        with pytest.raises(errors.DataError, match=expected):
            read(tmp_path, name, "text\nEva\n", spec)


def test_text_of_a_held_out_set_is_refused_with_its_number_and_first_line(tmp_path):
    texts = read(tmp_path, "more.txt", "new\n\nHow  FAR is it?\nwho?\n")
    dev = texts_of("how far is it?", "who?")
    with pytest.raises(errors.DataError, match=r"test set, received 2 row.*line 3: 'How  FAR"):
        unlabelled.select_new(texts, texts_of("a"), {"development": texts_of("b"), "test": dev})
    other = texts_of("new", spec=PAIRS, pairs=["another"])
    pair = read(tmp_path, "more.tsv", "text\tother\nnew\tthis\n", PAIRS)
    assert len(unlabelled.select_new(pair, other, {"development": other}).examples) == 1


def test_each_text_is_kept_once_and_those_with_labels_not_at_all(tmp_path):
    texts = read(tmp_path, "more.csv", "text,n\nnew,1\nKnown,2\nNEW ,3\nlast,4\n ,5\n")
    left = unlabelled.select_new(texts, texts_of("known"), {"development": texts_of("dev")})
    assert left.examples.texts == ["new", "last"]
    assert [place.rpartition(" ")[2] for place in left.places] == ["2", "5"]
    assert left.dropped == 3


UNWEIGHTED = {"x": {"loss": "GoldLabels", "weight": 0}}


@pytest.mark.parametrize(
    ("stage", "needs"),
    [
        ({"kind": "joint"}, False),
        ({"kind": "joint", "loss_weights": {"label": 0.5}}, True),
        ({"kind": "labels"}, True),
        ({"kind": "patient"}, True),
        ({"kind": "patient", "loss_weights": {"label": 0}}, False),
        ({"kind": "logits"}, False),
        ({"kind": "prediction"}, False),
        ({"kind": "intermediate"}, False),
        ({"kind": "relations"}, False),
        ({"kind": "combination", "losses": {**UNWEIGHTED, "y": {"loss": "LogitMSE"}}}, False),
        ({"kind": "combination", "losses": {"x": {"loss": "GoldLabels"}}}, True),
    ],
)
def test_stages_with_gold_labels_need_them(stage, needs):
    parsed = config.new_stage(**stage)
    assert parsed.needs_labels() == needs
    of_numbers = needs or stage["kind"] == "prediction"  # which learns a regression's gold numbers
    assert parsed.needs_labels(tasks.KINDS["regression"]) == of_numbers


def test_examples_that_follow_others_keep_their_tokens():
    def encoded(rows, **options):
        offsets = np.cumsum([0, *map(len, rows)])
        flat = np.concatenate(rows).astype(np.int32)
        types = (flat % 2).astype(np.uint8)
        return batches.EncodedExamples(flat, offsets, types, pad_id=7, **options)

    labelled = encoded([[1, 2], [3]], labels=np.array([0, 1], np.int32))
    both = labelled.followed_by(encoded([[4, 5, 6], [8]]))
    assert [both.row(index).tolist() for index in range(4)] == [[1, 2], [3], [4, 5, 6], [8]]
    assert both.row_types(2).tolist() == [0, 1, 0]
    assert both.labels is None and both.pad_id == 7


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("The order 59028 is late!", "the order is late"),
        ("Text  of  THREE .", "text of three"),
        ("don\u2019t touch the 2.5 \u20ac lamp", "dont touch the lamp"),
        ("order number \uff11\uff12\uff13 late", "order number late"),
        ("\u8ba2\u5355\u53f712\u5df2\u53d1\u8d27", "\u8ba2\u5355\u53f7\u5df2\u53d1\u8d27"),
        ("order 12345", "order 12345"),
        ("\u8ba2\u5355 5", "\u8ba2\u5355 5"),
        ("1 + 2 = 3", "1 + 2 = 3"),
        ("I like this \U0001f600!", "i like this \U0001f600"),
        ("", ""),
    ],
)
def test_texts_are_similar_without_digits_and_punctuation_where_three_words_are_left(text, key):
    assert unlabelled.similar_text(text) == key


def test_pairs_are_similar_in_both_orders():
    pairs = texts_of("Is it 5 km far?", "a", spec=PAIRS, pairs=["a", "is it 7 km far"])
    assert unlabelled.example_numbers(pairs, similar=True)[0].tolist() == [0, 0]
    assert unlabelled.example_numbers(pairs)[0].tolist() == [0, 1]


def test_unlabelled_texts_that_are_similar_to_the_test_set_are_counted(tmp_path, caplog):
    texts = read(tmp_path, "more.txt", "how far is it!\nwhere are you\n")
    held_out = {"test": texts_of("How far is it?", "who?")}
    assert len(unlabelled.select_new(texts, texts_of("a"), held_out).examples) == 2
    assert "1 of 2 test texts are training texts too, but for digits" in caplog.text
