import csv
import json
import pathlib
import re

import numpy as np
import pytest

from tfdistill import config, errors
from tfdistill.data import answered_file, labelled_file, soft_labels, unlabelled

GOLD = ("a", "b", "c")


def text(n):
    """Texts that differ by more than digits."""
    return "".join(chr(97 + int(d)) for d in str(n)) + " is what they ask for"


def rows_of(count=90):
    return [{"text": text(n), "model": GOLD[n % 3]} for n in range(count)]


def read(path, rows, *, labels=(), named=(None, None, None), **declared):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    section = config.ModelAnswersConfig(**declared)
    return answered_file.read_answered_file(path, named, section, labels)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.jsonl"


def learnt(data):
    columns = data.table.columns
    return dict(zip(columns[data.roles.text], columns[data.roles.label], strict=True))


def test_gold_wins_where_it_is_unless_answers_are_learnt_and_blank_answers_have_no_label(path):
    rows = [{**row, "gold": GOLD[n % 3]} for n, row in enumerate(rows_of())]
    rows[0] |= {"model": "b"}  # the gold label is a
    rows[1] |= {"model": "c", "gold": None}
    rows[2] |= {"model": " ", "gold": ""}
    rows[3] |= {"model": ""}
    named = (None, None, "gold")
    gold = read(path, rows, answer_column="model", named=named)
    answers = read(path, rows, answer_column="model", named=named, learn="answers")
    assert [learnt(gold).get(text(n)) for n in range(5)] == ["a", "c", None, "a", "b"]
    assert [learnt(answers).get(text(n)) for n in range(5)] == ["b", "c", None, None, "b"]
    assert [row["text"] for row in answers.bare["unlabelled"]] == [text(2), text(3)]
    lines = [gold.table.lines, answers.table.lines]
    assert gold.num_judged(lines[0]) == 1 and answers.num_judged(lines[1]) == 88
    assert answers.cells[1] == {"model_answer": "b", "gold_label": "a"}
    assert answers.cells[2] == {"model_answer": "c", "gold_label": ""}
    assert gold.cells[4] == {"model_answer": "", "gold_label": "a"}
    assert "learnt: 88 gold labels, 1 answers, and 1 texts without a label" in gold.notes
    # A blank label of a file without answers is refused as ever.
    bare = [{"text": row["text"], "gold": row["gold"]} for row in rows]
    path.write_text("".join(json.dumps(row) + "\n" for row in bare))
    with pytest.raises(errors.DataError, match="line 2"):
        labelled_file.read_labelled_file(path, "x", label="gold")


def test_differing_answers_are_samples_of_a_soft_one(path):
    rows = rows_of() + [{"text": f" {text(0).upper()}", "model": m} for m in ("b", "B.", "none")]
    rows += [{"text": text(1), "model": "b"}, {"text": text(2), "model": "none"}]
    data = read(path, rows, answer_column="model", labels=GOLD, abstains="None")
    # a, b, b and "none": the majority is b; "none" is no label.
    assert learnt(data)[text(0)] == "b"
    shares = [data.cells[1][f"probabilities.{name}"] for name in GOLD]
    np.testing.assert_allclose(list(map(float, shares)), [1 / 3, 2 / 3, 0])
    assert learnt(data)[text(2)] == "c"  # of as many the first
    # Pairs of answers to a text that agree: 1 of 6, 1 of 1, 0 of 1.
    assert f"itself in {(1 / 6 + 1 + 0) / 3:.1%} of the pairs of answers to one text, of 3" in str(
        data.notes
    )
    assert data.is_soft and not read(path, rows_of(), answer_column="model", labels=GOLD).is_soft


FORMS = {
    "columns": lambda p: {f"probabilities.{name}": share for name, share in p.items()},
    "objects": lambda p: {"probabilities": p},
    "objects with absent values": lambda p: {
        "probabilities": {**p, "c": None} if p["a"] > 0.5 else p
    },
    "label and score": lambda p: {"label": max(p, key=p.get), "score": max(p.values())},
}


@pytest.mark.parametrize("form", FORMS)
def test_probabilities_and_scores_are_soft_answers(path, form):
    shares = [{"a": 0.9, "b": 0.1, "c": 0.0}, {"a": 0.1, "b": 0.8, "c": 0.1}]
    rows = [{"text": text(n), **FORMS[form](shares[n % 2])} for n in range(80)]
    rows.append({"text": "nobody answered"})
    data = read(path, rows, labels=() if form == "columns" or form == "objects" else GOLD)
    assert data.num_judged(data.table.lines) == 80
    assert learnt(data)[text(0)] == "a" and learnt(data)[text(1)] == "b"
    task = labelled_file.read_labelled_file(path, "x", answered=data).task
    assert task.labels == GOLD  # also one that is never the answer
    assert [float(data.cells[2][f"probabilities.{name}"]) for name in GOLD] == pytest.approx(
        [0.1, 0.8, 0.1]
    )
    assert data.bare["unlabelled"][0]["text"] == "nobody answered"


def test_the_sets_have_the_answers_and_each_its_share_of_texts_of_no_label(path, tmp_path):
    rows = [{"text": text(n), "model": GOLD[n % 3], "count": 2} for n in range(2500)]
    for n in range(0, 2500, 10):
        rows[n]["model"] = "unsure"
    rows[5]["model"] = None
    rows.append({**rows[7], "count": 5})
    (tmp_path / "more.txt").write_text("quite another text\n")
    other = tmp_path / "more.txt"
    answered = read(path, rows, answer_column="model", labels=GOLD, abstains="unsure")
    data = labelled_file.read_labelled_file(path, "x", promise=True, other=other, answered=answered)
    folder = tmp_path / "data"
    folder.mkdir()
    data.write(folder)
    section = config.parse_section(
        config.DataConfig, data.section(folder), source="test", place="data"
    )
    assert section.model_answers == config.ModelAnswersConfig(abstains="unsure")
    assert [path.rpartition("/")[2] for path in section.unlabelled] == ["unlabelled.csv"]
    tables = {
        file.stem: list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))
        for file in folder.glob("*.csv")
    }
    assert len(tables["unlabelled"]) == 1
    sizes = {name: len(tables[name]) for name in ("train", "dev", "test", "promise")}
    held_out = sum(sizes.values())
    for name in ("test", "promise"):
        share = len(tables[f"{name}_abstained"]) / 250
        assert share == pytest.approx(sizes[name] / held_out, abs=0.01)
        assert {row["model_answer"] for row in tables[f"{name}_abstained"]} == {"unsure"}
        assert all(row["model_answer"] == row["label"] for row in tables[name])
    others = [row["text"] for row in tables["other"]]
    assert len(others) + sum(len(tables[f"{n}_abstained"]) for n in ("test", "promise")) == 251
    assert others[-1] == "quite another text"
    every = [row for name in sizes for row in tables[name]]
    assert {row["count"] for row in every if row["text"] == text(7)} == {"7"}
    texts = [row["text"] for part in tables.values() for row in part]
    assert len(set(map(unlabelled.normal_text, texts))) == len(texts) == 2501


NEVER = dict.fromkeys(map(str, range(30)), 0)
BAD = {
    "probabilities": (
        [
            {"text": text(n), "probabilities.a": 0.4, "probabilities.b": 0.4 + n / 5}
            for n in range(2)
        ],
        {},
        "line 1.*sum to 1, received 0.8",
    ),
    "one answer": ([{**row, "model": "a"} for row in rows_of()], {}, "'a' to all 90"),
    "few": ([*rows_of(3), *({"text": text(n)} for n in range(9, 99))], {}, "received 3 of 93"),
    "outside": (
        [*rows_of(), *({"text": text(n), "model": f"d{n}"} for n in range(90, 99))],
        {},
        "9 of 99 that are no label: 'd90' 1 times, first in line 91",
    ),
    "gold": (
        [{**row, "gold_label": "e" if n == 4 else "a"} for n, row in enumerate(rows_of())],
        {},
        "line 5.*received.*'e'",
    ),
    "versions": (
        [{**row, "answered_by": f"v{n > 5}"} for n, row in enumerate(rows_of())],
        {},
        "line 7.*answered_by 'vFalse', as above, received 'vTrue'",
    ),
    "score": (
        [{**row, "score": 5} for row in rows_of()],
        {},
        r"line 1.*from 0 to 1, received \[5.0\]",
    ),
    "count": ([{**row, "count": -2} for row in rows_of()], {}, "'count'.*at least 1, received -2"),
    "name": (
        [{**row, "probabilities": {"a": 0.7, "d": 0.3, **NEVER}} for row in rows_of()],
        {"labels": (*GOLD, *NEVER)},
        "probabilities: expected one of a, b.*received 'd'",
    ),
    "no set": (rows_of(), {"labels": ()}, r"Name them all: --labels a,b,c\."),
    "no set as JSON": (
        [{"text": text(n), "model": json.dumps({"label": "ab"[n % 2]})} for n in range(90)],
        {"labels": ()},
        r"Name them all: --labels a,b\.",
    ),
    "absent": (rows_of(), {"answer_column": "modl"}, "Did you mean 'model'"),
}


@pytest.mark.parametrize("rows, more, told", BAD.values(), ids=BAD)
def test_answers_that_cannot_be_used_are_refused(path, rows, more, told):
    labels = () if "probabilities.a" in rows[0] else GOLD
    if labels and "probabilities.a" not in rows[0]:
        more = {"answer_column": "model", "labels": labels, **more}
    with pytest.raises((errors.DataError, errors.ConfigError), match=told):
        read(path, rows, **more)


def test_answers_follow_the_spelling_of_the_labels_and_none_is_a_label_that_abstains(path):
    shares = [{"A": 0.8, "b.": 0.15, "NONE": 0.05}, {"A": 0.1, "b.": 0.2, "NONE": 0.7}]
    rows = [
        {"text": text(n), "topic": "ab"[n % 2], "probabilities": shares[n % 2]} for n in range(80)
    ]
    data = read(path, rows, named=(None, None, "topic"), abstains="none", learn="answers")
    assert data.labels == ("a", "b") and len(data.cells) == len(data.bare["other"]) == 40
    assert data.cells[1]["gold_label"] == "a" and data.cells[1]["model_answer"] == "a"
    assert float(data.cells[1]["probabilities.b"]) == pytest.approx(0.15 / 0.95)
    named = ("a", "b", "none", "a")
    rows = [{"text": text(n), "model": ["a", "B", "none"][n % 3]} for n in range(90)]
    data = read(path, rows, answer_column="model", labels=named, abstains="none")
    assert data.labels == ("a", "b") and len(data.bare["other"]) == 30


def test_the_label_of_gold_is_never_passed_over_for_another_column(path):
    rows = [{**row, "label": GOLD[n % 3], "topic": "x"} for n, row in enumerate(rows_of())]
    rows[0]["topic"] = "y"
    with pytest.raises(errors.ConfigError, match=r"label_column='label'"):
        read(path, rows, answer_column="model", labels=GOLD)


def test_a_score_that_is_no_probability_makes_no_answers(path):
    rows = [{"text": text(n), "label": GOLD[n % 3], "score": n / 60} for n in range(60)]
    assert read(path, [{**row, "score": 40 * row["score"]} for row in rows]) is None
    assert read(path, [{**row, "score": "good"} for row in rows]) is None
    with pytest.raises(errors.ConfigError, match="gold labels, add --label-column label"):
        read(path, rows)


def test_a_score_below_an_equal_share_makes_no_other_label_more_likely(path):
    rows = [{"text": text(n), "label": GOLD[n % 3], "score": 0.1} for n in range(60)]
    cells = read(path, rows, labels=GOLD).cells[2]
    assert [float(cells[f"probabilities.{name}"]) for name in GOLD] == pytest.approx([1 / 3] * 3)


def test_rows_without_a_text_are_no_samples_of_one(path):
    rows = [{**row, "text": " " if n < 4 else row["text"]} for n, row in enumerate(rows_of())]
    rows[5]["model"] = ""
    data = read(path, rows, answer_column="model", labels=GOLD)
    assert not data.is_soft and len(data.cells) == 85 and len(data.bare["unlabelled"]) == 1
    assert "left out: 4 row(s) without a text, first line 1" in data.notes
    assert "x.jsonl: 90 rows, 85 of 86 texts have an answer in 'model'" in data.notes
    assert "agrees" not in str(data.notes)


def test_rows_without_an_answer_name_no_model(path):
    rows = [{**row, "answered_by": "m 2"} for row in rows_of()]
    rows[0] |= {"model": None, "answered_by": None}
    data = read(path, rows, answer_column="model", labels=GOLD)
    assert data.declared.answered_by == "m 2"


def test_the_answers_in_the_training_file_are_soft_labels_of_its_texts(path, tmp_path):
    shares = {"a": 0.7, "b": 0.2, "c": 0.1}
    rows = [{"text": text(n), "probabilities": shares if n % 2 else {"c": 1}} for n in range(99)]
    rows[1]["gold_label"] = "b"
    data = labelled_file.read_labelled_file(path, "x", answered=read(path, rows))
    (tmp_path / "data").mkdir()
    data.write(tmp_path / "data")
    train = data.sets["train"]
    file = soft_labels.read(tmp_path / "data" / "train.csv", data.task)
    values = np.exp(file.of_rows(file.find(soft_labels.example_keys(train))))
    expected = [[0, 0, 1], [0.7, 0.2, 0.1]]
    for line, label, row in zip(train.lines, train.labels, values, strict=True):
        wanted = [0, 1, 0] if line == 2 else expected[1 - line % 2]
        assert row == pytest.approx(wanted, abs=1e-6) and row.argmax() == label


GUIDE = pathlib.Path(__file__).parents[2] / "docs" / "guides" / "model-answers.md"
SHOWN = [
    [json.loads(line) for line in block.splitlines()]
    for block in re.findall(r"^```json\n(.*?)^```", GUIDE.read_text("utf-8"), re.M | re.S)
]
EXPECTED = [
    ({"abstains": "unsure"}, (), {"probabilities.billing": 0.84 / 0.95}),
    ({}, ("billing", "refund", "delivery"), {"probabilities.billing": 0.91}),
    ({"answer_column": "answer"}, ("billing", "refund", "delivery"), {}),
]


@pytest.mark.parametrize("rows, expected", [*zip(SHOWN, EXPECTED, strict=True)])
def test_the_forms_that_the_guide_shows_are_read(path, rows, expected):
    declared, labels, soft = expected
    many = [{**rows[n % 2], "text": text(n)} for n in range(80)]
    data = read(path, many, labels=labels, **declared)
    assert [learnt(data)[text(n)] for n in range(4)] == ["billing", "refund"] * 2
    assert not any(data.bare.values()) and data.is_soft == bool(soft)
    assert data.declared.answered_by == rows[0].get("answered_by")
    for name, share in soft.items():
        assert float(data.cells[1][name]) == pytest.approx(share)
