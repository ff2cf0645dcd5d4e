import json

import numpy as np
import pytest

from tfdistill import config, errors, tasks
from tfdistill.data import from_config, model_answers, promise_rows
from tfdistill.tasks import answer_cells


def write(path, rows):
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")


def test_texts_that_the_model_knew_no_answer_to_are_promised_on_once_and_if_nothing_saw_them(
    tmp_path,
):
    spec = tasks.TaskSpec("own", "text", "label", labels=("no", "yes"))
    write(tmp_path / "promise.csv", ["text,label", "the red box is here,yes"])
    rows = ["the red box is here 2", "the blue box is here", "the blue box is here!", "one box"]
    rows += ["the old box is here 5", "the grey box is here 6"]
    write(tmp_path / "promise_abstained.csv", ["text", *rows])
    used = [
        tasks.Examples(spec, texts, None, None)
        for texts in (["the old box is here"], ["a box"], ["the grey box is here"])
    ]
    promise = promise_rows.promise_examples(str(tmp_path / "promise.csv"), spec, used)
    assert promise.texts == ["the red box is here", "the blue box is here", "one box"]
    assert promise.labels.tolist() == [1, -100, -100]


def test_answers_of_a_set_are_found_by_its_texts(tmp_path):
    train = [f"a text {n},{'yes' if n % 2 else 'no'},," for n in range(60)]
    write(tmp_path / "train.csv", ["text,label,model_answer,gold_label", *train])
    rows = [
        "text,label,model_answer,gold_label,count",
        "one,yes,No.,yes,3",
        "two,no,,no,5000000000",
    ]
    write(tmp_path / "promise.csv", [*rows, "three,no,no,,2"])
    write(tmp_path / "promise_abstained.csv", ["text,model_answer,count", "four,unsure,7"])
    write(tmp_path / "other.txt", ["five"])
    values = {"task": "own", "dir": str(tmp_path), "text_column": "text", "label_column": "label"}
    values |= {"kind": "classification", "model_answers": {"abstains": "unsure"}}
    values |= {"other": str(tmp_path / "other.txt"), "promise_on": str(tmp_path / "promise.csv")}
    settings = config.parse_section(config.DataConfig, values, source="test", place="data")
    task = from_config.task_of(settings, tmp_path)
    promise = promise_rows.promise_examples(
        str(tmp_path / "promise.csv"),
        task,
        [tasks.load_examples(task, tmp_path, "train")] * 2,
        settings,
    )
    assert promise.texts == ["one", "two", "three", "four", "five"]
    read = model_answers.read_model_answers(settings, promise)
    assert read.classes.tolist() == [0, -1, 0, answer_cells.ABSTAINED, -1]
    assert read.gold.tolist() == [1, 0, -1, -1, -1]
    assert read.counts.tolist() == [3, 5_000_000_000, 2, 7, 1]
    fresh = tmp_path / "fresh.jsonl"
    rows = [{"text": " two ", "model_answer": {"label": "Yes"}}]
    write(fresh, map(json.dumps, rows))
    again = model_answers.read_model_answers(settings, promise, fresh)
    assert again.classes.tolist() == [-1, 1, -1, -1, -1]
    assert again.counts is None and np.all(again.gold == -1)
    plain = settings.model_copy(update={"model_answers": None})
    assert model_answers.read_model_answers(plain, promise) is None
    write(fresh, ['{"text": "two", "model_answer": "yes", "count": "often"}'])
    with pytest.raises(errors.DataError, match="'count': expected a finite number"):
        model_answers.read_model_answers(settings, promise, fresh)
    write(fresh, ['{"text": "two", "answer": "yes"}'])
    with pytest.raises(errors.DataError, match=r"a column 'model_answer', .*--answer-column"):
        model_answers.read_model_answers(settings, promise, fresh)


@pytest.mark.parametrize(
    "row",
    [
        lambda text, label: {"text": text, "probabilities": {label: 0.8, "maybe": 0.2}},
        lambda text, label: {
            "text": text,
            **{f"probabilities.{name}": 0.1 for name in ("yes", "no", "maybe")},
            f"probabilities.{label.strip('.').lower()}": 0.8 if label != "unsure" else 0.7,
            "probabilities.unsure": 0.0 if label != "unsure" else 0.7,
        },
        lambda text, label: {"text": text, "label": label, "score": 0.8},
    ],
)
def test_newer_answers_and_promise_rows_have_the_forms_that_were_learnt_from(row, tmp_path):
    train = [f"a text {n},{'yes' if n % 2 else 'no'}" for n in range(60)]
    write(tmp_path / "train.csv", ["text,label", *train])
    values = {"task": "own", "dir": str(tmp_path), "text_column": "text", "label_column": "label"}
    values |= {"kind": "classification", "labels": ["no", "yes", "maybe"]}
    values["model_answers"] = {"abstains": "unsure"}
    settings = config.parse_section(config.DataConfig, values, source="test", place="data")
    task = from_config.task_of(settings, tmp_path)
    answers = {"one box": "yes", "two trees": "no", "three": "unsure", "four cars": "Yes."}
    path = tmp_path / "promise.jsonl"
    rows = [row(text, label) for text, label in answers.items()]
    write(path, map(json.dumps, [*rows, {**dict.fromkeys(rows[0]), "text": "five"}]))
    used = [tasks.load_examples(task, tmp_path, "train")] * 2
    promise = promise_rows.promise_examples(str(path), task, used, settings)
    assert promise.texts == ["one box", "two trees", "four cars", "three"]
    assert promise.labels.tolist() == [1, 0, 1, -100]
    texts = tasks.Examples(task, [*answers, "five"], None, None)
    read = model_answers.read_model_answers(settings, texts, path)
    assert read.classes.tolist() == [1, 0, answer_cells.ABSTAINED, 1, -1]
    write(path, [json.dumps({**dict.fromkeys(rows[0]), "text": "five"})])
    with pytest.raises(errors.DataError, match="answers of a model to texts, received none"):
        promise_rows.promise_examples(str(path), task, used, settings)


def test_probabilities_are_summed_by_label_and_another_name_is_refused(tmp_path):
    shares = np.array([[0.3, 0.4, 0.3, 0.0], [0.1, 0.2, 0.0, 0.7], [0.0, 0.0, 0.0, 0.0]])
    names, labels = ["yes", "no", "Yes.", "unsure"], ["no", "yes"]
    soft = model_answers.by_label(names, shares, labels, "unsure", tmp_path)
    np.testing.assert_allclose(soft, [[0.4, 0.6, 0.0], [0.2, 0.1, 0.7], [0.0, 0.0, 0.0]])
    with pytest.raises(errors.DataError, match=r"expected one of no, yes, received .*'unsure'"):
        model_answers.by_label(names, shares, labels, None, tmp_path)
