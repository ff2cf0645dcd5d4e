import json

from test_report import fake_run

from tfdistill import report

SUSPECTS = "question,answer,answer,other_answer,probability\n"


def test_the_report_says_what_was_learnt_and_shows_the_first_suspects(tmp_path):
    run = fake_run.build(tmp_path / "run")
    page = report.render_markdown(report.build(report.collect(run)))
    assert "The model’s answers" not in page
    (run / "data").mkdir(exist_ok=True)
    (run / "teacher" / "finetune").mkdir(parents=True, exist_ok=True)
    notes = {"data/model_answers": "learnt: 40 answers", "teacher/finetune/targets": "on soft ones"}
    for name, note in notes.items():
        (run / f"{name}.json").write_text(json.dumps({"notes": [note]}))
    rows = [f'"text {n},\nof two lines",pair {n},yes,no,0.{n:02}1' for n in range(12)]
    (run / "suspects.csv").write_text(SUSPECTS + "\n".join(rows) + "\n", encoding="utf-8")
    page = report.render_markdown(report.build(report.collect(run)))
    assert "learnt: 40 answers; on soft ones" in page
    assert "The first 10 of 12 training answers" in page
    assert "text 9," in page and "pair 9" in page and "text 10," not in page and "9.1%" in page
    hidden = report.render_markdown(report.build(report.collect(run, texts=False)))
    assert "learnt: 40 answers" in hidden and "text 9," not in hidden
