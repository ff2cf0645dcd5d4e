"""A student beside its teacher and the baselines."""

from tfdistill import results
from tfdistill.commands import runs


def test_a_student_and_a_teacher_below_a_baseline_are_named():
    def row(name, value, note=""):
        return results.BaselineResult(name=name, note=note, metrics={"f1": value})

    rows = [row("majority", 0.5), row("tfidf", 0.8, "words"), row("unknown", None)]
    assert runs.compared("f1", 0.85, 0.9, rows) == [
        "compared with, f1",
        "  teacher: 0.9000",
        "  majority: 0.5000",
        "  tfidf: 0.8000 (words)",
    ]
    lines = runs.compared("f1", 0.4, 0.75, rows)
    assert lines[-2:] == [
        "WARNING: the student is below the baseline majority and tfidf.",
        "WARNING: the teacher is below the baseline tfidf.",
    ]
    part = results.part_of(10, 40)
    lines = runs.compared("f1", 0.85, 0.75, rows, answered=part)
    assert lines[1] == "  teacher: 0.7500 (of the 10 of 40 examples that it answered)"
    assert not any("WARNING" in line for line in lines)
    assert results.part_of(40, 40) is results.part_of(None, 40) is None
    before = [row("frozen_teacher", 0.8, "the teacher before fine-tuning")]
    advice = runs.compared("f1", 0.85, 0.75, before)[-2:]
    assert advice[0] == "WARNING: the teacher is below the baseline frozen_teacher."
    assert "more steps" in advice[1]
    assert len(runs.compared("f1", 0.75, 0.85, before)) == 4  # only the student
    itself = [row("frozen_teacher", 0.9, results.FINE_TUNED)]  # no alternative to a student
    assert len(runs.compared("f1", 0.4, 0.75, itself)) == 3
    assert len(runs.compared("f1", None, None, rows)) == 4
    assert runs.compared("f1", 0.4, None, []) == []
