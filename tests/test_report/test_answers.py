"""What models answered: differences and chance, classes, confidence, sentences."""

import dataclasses
import re

import numpy as np
import pytest
from test_report import fake_answers
from test_report.fake_answers import GOLD, TASK, answers_of, logits_of
from test_report.page_reading import table_of, tree_of

from tfdistill import report, results
from tfdistill.data import answers
from tfdistill.manifest.confidence import Confidence
from tfdistill.report import answer_sides
from tfdistill.report.sections import answers as answers_section
from tfdistill.report.sections import quality, verdict
from tfdistill.tasks import answer_cells, spec


@pytest.fixture
def answered(run_dir):
    return fake_answers.add(run_dir)


def page_of(run_dir, **options):
    return tree_of(report.render_html(report.build(report.collect(run_dir, **options))))


def test_answers_to_a_test_set_that_are_not_those_that_were_scored_are_left_out(
    answered, edit, analysis_of
):
    scores = {"teacher": 0.975, "student": 0.925, "file": 0.6}
    scores = {role: {"accuracy": value} for role, value in scores.items()}
    edit(answered / "metrics.json", lambda m: m.update(test_metrics=scores))
    logits = {"teacher": logits_of([0]), "student": logits_of([0, 1]), "file": logits_of(range(16))}
    (answered / "test").mkdir()
    answers.write(answers_of(logits, model_sha256="b" * 64), answered / answers.TEST_FILE)
    (missing,) = report.collect(answered).missing
    assert "accuracy 0.9500 of the student, not 0.9250" in missing
    logits["student"] = logits_of([0, 1, 2])
    other = answers_of(logits, model_sha256="e" * 64)  # of a file that the run has no more
    answers.write(other, answered / answers.TEST_FILE)
    assert verdict.headline(analysis_of()).endswith("faster on this host.")
    assert analysis_of().num_examples is None


@pytest.mark.parametrize(
    ("wrong", "listed"),
    [
        ([], "0 of 40 answers of the file are wrong. Shown: 2 right"),
        ([1], "1 of 40 answers of the file are wrong. Shown: 2 right, then the 1 surest wrong"),
        (range(40), "40 of 40 answers of the file are wrong. Shown: the 3 surest wrong"),
    ],
)
def test_the_caption_counts_the_answers_that_it_shows(wrong, listed):
    shown = answers_of({"model": logits_of(wrong), "file": logits_of(wrong)})
    sides = answer_sides.sides(None, None, shown)
    (section,) = answers_section.section(sides)
    assert section.parts[0].tables[0].caption == listed


def test_confidence_is_shown_beside_how_often_it_is_right(answered):
    rows = {row[0]: row[1:] for row in table_of(page_of(answered), "calibration")[1:]}
    # Sure to softmax(3, -3) = 0.998, right in 37 of 40.
    assert rows["Student"][:2] == ["92.5%", "99.8%"]
    assert rows["Student"][3].startswith("7.3%[")
    assert float(rows["Student"][4]) > 1.2
    assert list(rows) == ["Teacher", "Student", "File"]


def test_the_file_is_scored_at_its_temperature_too(answered, edit):
    edit(answered / "export" / "model.json", fake_answers.promise)
    rows = {row[0]: row[1:] for row in table_of(page_of(answered), "calibration")[1:]}
    # Right in 36 of 40: the cross entropy of softmax(3, -3), and of softmax(1.5, -1.5).
    for name, margin in (("File", 6.0), ("File at temperature 2.00", 3.0)):
        expected = np.log1p(np.exp(-margin)) + 0.1 * margin
        assert rows[name][2].startswith(f"{expected:.3f}[")
    assert float(rows["File at temperature 2.00"][4]) == pytest.approx(
        float(rows["File"][4]) / 2, abs=0.01
    )


def test_errors_are_drawn_over_the_share_of_the_texts_that_is_answered():
    random = np.random.default_rng(0)
    gold = np.tile(GOLD, 5)
    logits = {
        name: random.normal(size=(200, 2)) + 3 * np.eye(2)[gold] for name in ("teacher", "file")
    }
    promise = {"max_error": 0.05, "rows": 400, "threshold": 0.8, "coverage": 0.84, "error": 0.02}
    loose = {"max_error": 0.1, "rows": 400, "threshold": 0.0, "coverage": 1.0, "error": 0.07}
    record = Confidence.of_file(
        "0" * 64, temperature=1.5, num_examples=300, promises=(promise, loose)
    )
    sides = answer_sides.AnswerSides(TASK, gold, logits, (), confidence=record)
    (part,) = answers_section.coverage(sides)
    assert part.intro == (
        "Promised with 90% confidence: at most 5% of the sure answers wrong: sure of 84% of 400 "
        "texts, 2.0% of them wrong (confidence above 0.8000), not tested on texts of another kind."
    )
    wrong = {name: (rows.argmax(axis=1) != gold).mean() for name, rows in logits.items()}
    ends = [
        f"{name.capitalize()}: 0% at first, {100 * share:.3g}% at last"
        for name, share in wrong.items()
    ]
    assert "; ".join(ends) in part.pictures[0].chart
    assert not list(answers_section.coverage(dataclasses.replace(sides, gold=GOLD)))  # 40 texts


def test_the_large_model_and_the_file_are_compared_where_gold_and_an_answer_are_known(tmp_path):
    gold, model = GOLD.copy(), GOLD.copy()
    gold[30:] = answer_cells.UNANSWERED
    model[20:25] = answer_cells.UNANSWERED
    model[[0, 1, 2, 3]] = 1 - model[[0, 1, 2, 3]]
    model[4] = answer_cells.ABSTAINED
    logits = {"student": logits_of([]), "file": logits_of([3, 4, 10, 22, 35])}
    path = tmp_path / "answers.safetensors"
    answers.write(answers_of(logits, large=np.stack([gold, model], axis=1)), path)
    record = Confidence.of_file("0" * 64, temperature=1.0, num_examples=0, answered_by="a model 2")
    sides = answer_sides.of_test_set(answers.read(path), record)
    (section,) = answers_section.section(sides)
    (table,) = (t for part in section.parts for t in part.tables if t.key == "who-is-right")
    # Of the first 20 and the 5 from 25 on: the file is wrong at 3, 4 and 10, the model at 0 to 4.
    shown = {row.head.text: [row.cells[0].text, row.cells[1].text] for row in table.rows}
    assert shown == {
        "both": ["19", "76.0%"],
        "the model alone": ["1", "4.0%"],
        "the file alone": ["3", "12.0%"],
        "neither": ["2", "8.0%"],
    }
    assert table.rows[1].cells[1].interval == pytest.approx((0.001012, 0.203517), abs=1e-5)
    assert table.caption == (
        "Who is right, a model 2 that answered or the file, of 25 test texts with a gold label and "
        "an answer"
    )
    none = answers_of(logits, large=np.stack([np.full(40, -1), model], axis=1).astype(np.int32))
    for without in (answers_of(logits), none):
        (section,) = answers_section.section(answer_sides.of_test_set(without))
        assert "who-is-right" not in {t.key for part in section.parts for t in part.tables}


def test_texts_can_be_left_out_of_the_page(answered):
    page = report.render_html(report.build(report.collect(answered, texts=False)))
    assert "sentence &lt;b&gt;" not in page
    assert table_of(tree_of(page), "lost")[1][0] == "Example 2"


def test_answers_of_another_file_are_left_out_and_named(answered, edit):
    edit(answered / "export" / "model.json", lambda m: m["model"].update(sha256="e" * 64))
    collected = report.collect(answered)
    assert any("those of another file" in sentence for sentence in collected.missing)
    assert "file student" not in collected.answers


@pytest.mark.parametrize(
    ("note", "accuracy", "undertrained"),
    [
        ("the teacher before fine-tuning", 0.95, True),
        ("the teacher before fine-tuning", 0.89, False),  # the teacher's is 0.9
        (results.UNCUT, 0.95, False),
    ],
)
def test_a_teacher_below_its_own_frozen_states_was_undertrained(
    run_dir, edit, analysis_of, note, accuracy, undertrained
):
    row = {"name": "frozen_teacher", "note": note, "metrics": {"accuracy": accuracy}}
    edit(run_dir / "metrics.json", lambda m: m.update(baselines=[row]))
    assert ("knew more before it was fine-tuned" in verdict.headline(analysis_of())) is undertrained


def test_many_classes_are_listed_by_their_confusions_not_as_a_matrix():
    labels = tuple(f"class {i}" for i in range(20))
    task = dataclasses.replace(TASK, labels=labels)
    gold = (np.arange(40) % 20).astype(np.int32)
    logits = np.eye(20, dtype=np.float32)[gold]
    logits[[3, 23], :] = np.eye(20)[7]
    sides = answer_sides.sides(answers_of({"model": logits}, task, gold), None, None)
    assert sides is not None and sides.subject == "teacher"
    (section,) = answers_section.section(sides)
    tables = {t.key: t for part in section.parts for t in part.tables}
    (row,) = tables["confused"].rows
    assert tables["classes"].rows[0].head.text in ("class 3", "class 7")  # the lowest F1 first
    assert [row.head.text, *(cell.text for cell in row.cells)] == ["class 3", "class 7", "2"]


def test_numbers_are_compared_without_classes():
    task = spec.TaskSpec("similarity", "a", "score", kind="regression")
    gold = np.linspace(0, 5, 40).astype(np.float32)
    pair = {"model": gold[:, None], "file": gold[:, None] + 0.1}
    sides = answer_sides.sides(None, None, answers_of(pair, task, gold))
    assert list(answers_section.section(sides)) == []
    assert [row.head.text for row in quality.differences(sides).rows] == ["File against model"]


def test_a_thousand_classes_of_any_name_stay_readable():
    names = ["a|b", "<script>x</script>", "two\nlines", "\u202eturned", "א" * 200, "x" * 200]
    labels = (*names, *(f"class {i}" for i in range(994)))
    task = dataclasses.replace(TASK, labels=labels)
    gold = (np.arange(40) % 6).astype(np.int32)
    logits = np.eye(1000, dtype=np.float32)[(gold + 1) % 6]
    sides = answer_sides.sides(answers_of({"model": logits}, task, gold), None, None)
    value = report.Report("r", "h", sections=tuple(answers_section.section(sides)))
    page = report.render_html(value)
    tree = tree_of(page)
    assert "<script" not in page and "\u202e" not in page
    shown = [row[0] for row in table_of(tree, "classes")]
    assert len(shown) == 201 and max(map(len, shown)) <= 40
    assert any("x" * 200 == e.get("title") for e in tree.iter() if e.get("title"))
    lines = report.render_markdown(value).splitlines()
    bars = {len(re.findall(r"(?<!\\)\|", line)) for line in lines if "two lines" in line}
    assert bars == {4, 6}  # of the pairs, and of the classes
    assert "x" * 200 in report.render_csv(value)["classes.csv"]


def test_answers_that_are_missing_are_named(answered):
    (answered / "teacher" / answers.FILE_NAME).unlink()
    (missing,) = report.collect(answered).missing
    assert "teacher/answers.safetensors is missing" in missing
