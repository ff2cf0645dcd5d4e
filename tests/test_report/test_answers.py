"""What models answered: differences and chance, classes, confidence, sentences."""

import dataclasses

import numpy as np
import pytest
from page_reading import table_of, tree_of

from tfdistill import report, results, tasks
from tfdistill.data import answers
from tfdistill.report import answer_sides, run_analysis
from tfdistill.report.sections import answers as answers_section
from tfdistill.report.sections import verdict
from tfdistill.tasks import spec

LABELS = ("negative", "positive")
TASK = spec.TaskSpec("sst2", "sentence", "label", labels=LABELS)
GOLD = (np.arange(40) % 2).astype(np.int32)
TEXTS = [f"sentence <b>{i}</b>" for i in range(40)]


def logits_of(wrong, sure=3.0):
    """Right everywhere but at `wrong`."""
    found = np.full((40, 2), -sure, np.float32)
    classes = GOLD.copy()
    classes[list(wrong)] = 1 - classes[list(wrong)]
    found[np.arange(40), classes] = sure
    return found


def kept(logits, task=TASK, labels=GOLD, **options):
    examples = tasks.Examples(task, TEXTS, None, labels)
    return answers.of_examples(examples, logits, **options)


@pytest.fixture
def answered(run_dir):
    """A run whose teacher is wrong at 0, its student at 0, 1 and 2, the file at 2 and 3 too."""
    student = logits_of([0, 1, 2])
    answers.write(kept({"model": logits_of([0])}), run_dir / "teacher" / answers.FILE_NAME)
    folder = run_dir / "students" / "full" / "seed-1"
    folder.mkdir(parents=True, exist_ok=True)
    answers.write(kept({"model": student}, with_texts=False), folder / answers.FILE_NAME)
    file = kept({"model": student, "file": logits_of([0, 1, 2, 3])}, model_sha256="b" * 64)
    answers.write(file, run_dir / "export" / answers.FILE_NAME)
    return run_dir


def page_of(run_dir, **options):
    return tree_of(report.render_html(report.build(report.collect(run_dir, **options))))


def test_differences_are_named_as_chance_where_they_may_be(answered):
    _, student, file = table_of(page_of(answered), "paired")
    # 2 lost, 0 gained: p = 2 / 2^2; 1 lost: p = 1.
    assert student[:3] == ["Student against teacher", "97.5%", "92.5%"]
    assert student[3].startswith("−5.0 points") and student[4:] == [
        "2",
        "0",
        "0.5",
        "within chance",
    ]
    assert file[0] == "File against student" and file[4:] == ["1", "0", "1", "within chance"]


@pytest.mark.parametrize(
    ("wrong", "accuracy", "said"),
    [
        ([0], 0.975, "does as well as the student, within chance: accuracy 97.5% against 92.5%."),
        (range(1, 4), 0.925, "does as well as the student: accuracy 92.5% against 92.5%."),
    ],
)
def test_a_baseline_above_the_student_is_told_from_chance(answered, edit, wrong, accuracy, said):
    folder = "baselines/tfidf"
    row = {"name": "tfidf", "metrics": {"accuracy": accuracy}, "folder": folder}
    edit(answered / "metrics.json", lambda m: m.update(baselines=[row]))
    for model in range(3):  # the mean over the seeds is that of the answers
        edit(
            answered / "metrics.json",
            lambda m, at=-1 - model: m["models"][at].update(metrics={"accuracy": 0.925}),
        )
    kept_answers = kept({"model": logits_of(wrong)}, with_texts=False)
    answers.write(kept_answers, answered / folder / answers.FILE_NAME)
    analysis_of = run_analysis.RunAnalysis(report.collect(answered))
    assert verdict.headline(analysis_of).startswith(f"TF-IDF and a linear model {said}")
    compared = table_of(page_of(answered), "paired")[-1]
    assert compared[0] == "Student against baselineTF-IDF and a linear model"
    assert compared[-1] in ("within chance", "equal")


def test_every_class_and_the_confusions_are_tabled(answered):
    tree = page_of(answered)
    # Wrong at 0 and 2 (negative) and 1 (positive): 18 + 2 and 1 + 19.
    assert table_of(tree, "confusion")[1:] == [["negative", "18", "2"], ["positive", "1", "19"]]
    head, negative, _ = table_of(tree, "classes")
    assert head == ["Class", "Examples", "Precision", "Recall", "F1", "F1 (teacher)", "F1 (file)"]
    assert negative[:4] == ["negative", "20", "94.7%", "90.0%"]  # 18 / 19, 18 / 20


def test_confidence_is_shown_beside_how_often_it_is_right(answered):
    rows = {row[0]: row[1:] for row in table_of(page_of(answered), "calibration")[1:]}
    # Sure to softmax(3, -3) = 0.998, right in 37 of 40.
    assert rows["Student"][:3] == ["92.5%", "99.8%", "7.3%"]
    assert float(rows["Student"][3]) > 1.2
    assert list(rows) == ["Teacher", "Student", "File"]


def test_the_sentences_that_are_lost_and_flipped_are_shown_as_text(answered):
    tree = page_of(answered)
    lost = table_of(tree, "lost")
    assert [row[0] for row in lost[1:]] == ["sentence <b>1</b>", "sentence <b>2</b>"]
    assert lost[1][1:] == ["positive", "positive100% sure", "negative100% sure"]
    assert [row[0] for row in table_of(tree, "flipped")[1:]] == ["sentence <b>3</b>"]


def test_texts_can_be_left_out_of_the_page(answered):
    page = report.render_html(report.build(report.collect(answered, texts=False)))
    assert "sentence &lt;b&gt;" not in page
    assert table_of(tree_of(page), "lost")[1][0] == "Example 2"


def test_a_student_within_chance_keeps_no_share_of_its_teacher(answered, analysis_of):
    run = analysis_of()
    assert "cannot be told from its teacher by accuracy" in verdict.headline(run)
    assert "keeps" not in verdict.headline(run)
    assert verdict.key_figures(run)[0].label.startswith(
        "accuracy; the difference from the teacher’s may be chance"
    )


def test_a_clear_loss_is_a_share_of_the_teacher(answered, analysis_of):
    folder = answered / "students" / "full" / "seed-1"
    worse = kept({"model": logits_of(range(15))}, with_texts=False)
    answers.write(worse, folder / answers.FILE_NAME)
    assert "keeps 97.8% of the teacher’s accuracy" in verdict.headline(analysis_of())


def test_one_seed_above_its_teacher_is_no_share_above_one(run_dir, edit, analysis_of):
    def one_seed(metrics):
        metrics["models"] = [m for m in metrics["models"] if m["seed"] == 1]
        for model in metrics["models"]:
            model["metrics"]["accuracy"] = 0.93 if model["name"] == "full" else 0.9

    edit(run_dir / "metrics.json", one_seed)
    run = analysis_of()
    assert "(93.0% against 90.0%); the difference was not tested" in verdict.headline(run)
    page = report.render_markdown(report.build(run.results))
    assert "103." not in page.split("## Training")[0]


def test_answers_of_another_file_are_left_out_and_named(answered, edit):
    edit(answered / "export" / "model.json", lambda m: m["model"].update(sha256="e" * 64))
    found = report.collect(answered)
    assert any("those of another file" in sentence for sentence in found.missing)
    assert "file student" not in found.answers


def test_a_baseline_that_wins_is_the_first_sentence(run_dir, edit, analysis_of):
    rows = [{"name": "majority", "metrics": {"accuracy": 0.5}}]
    rows.append({"name": "tfidf", "metrics": {"accuracy": 0.89}, "seconds": 2.0})
    edit(run_dir / "metrics.json", lambda m: m.update(baselines=rows))
    headline = verdict.headline(analysis_of())
    assert headline.startswith(
        "TF-IDF and a linear model beats the student: accuracy 89.0% against 88.0%."
    )
    models = table_of(page_of(run_dir), "models")
    assert models[-1][:3] == ["TF-IDF and a linear modelbaseline", "89.0%", "98.9%"]
    rows[1]["metrics"]["accuracy"] = 0.87
    edit(run_dir / "metrics.json", lambda m: m.update(baselines=rows))
    assert verdict.headline(analysis_of()).startswith("A 3-layer")
    figure = verdict.key_figures(analysis_of())[0]
    assert (figure.value, figure.detail.split("; ")[1:]) == (
        "97.8%",
        ["TF-IDF and a linear model: 87.0%"],
    )


@pytest.mark.parametrize(
    ("note", "accuracy", "undertrained"),
    [
        ("the teacher before fine-tuning", 0.95, True),
        ("the teacher before fine-tuning", 0.89, False),  # the teacher's is 0.9
        (results.FINE_TUNED, 0.95, False),
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
    found = answer_sides.sides(kept({"model": logits}, task, gold), None, None)
    assert found is not None and found.subject == "teacher"
    tables = {t.key: t for part in answers_section.section(found).parts for t in part.tables}
    (row,) = tables["confused"].rows
    assert [row.head.text, *(cell.text for cell in row.cells)] == ["class 3", "class 7", "2"]


def test_an_export_outside_a_run_is_reported_by_itself(answered):
    page = page_of(answered / "export")
    assert table_of(page, "paired")[1][0] == "File against model"
    assert len(table_of(page, "parity")) == 2
    headline = report.build(report.collect(answered / "export")).headline
    assert "7.61 MB" in headline and "like its model" in headline


def test_numbers_are_compared_without_classes():
    task = spec.TaskSpec("similarity", "a", "score", kind="regression")
    gold = np.linspace(0, 5, 40).astype(np.float32)
    pair = {"model": gold[:, None], "file": gold[:, None] + 0.1}
    found = answer_sides.sides(None, None, kept(pair, task, gold))
    assert found is not None
    (part,) = answers_section.section(found).parts
    assert [t.key for t in part.tables] == ["paired"]
