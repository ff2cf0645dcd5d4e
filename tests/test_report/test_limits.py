from tfdistill import report
from tfdistill.report import run_analysis
from tfdistill.report.sections.limits import limits


def test_limits_name_what_a_reader_may_forget(analysis_of, run_dir, edit):
    said = " ".join(limits(analysis_of()))
    assert "not of a phone" in said
    assert "Example 9000" in said
    assert "dynamic_wi8_afp32" in said and "float32" in said
    assert "synthetic" not in said
    edit(run_dir / "metrics.json", lambda m: m.update(synthetic_data=True))
    edit(run_dir / "benchmark.json", lambda b: b.update(notes=["Load average 3"]))
    said = " ".join(limits(analysis_of()))
    assert "The data is synthetic" in said
    assert "Load average 3." in said


def test_what_makes_the_figures_of_a_run_doubtful_is_a_limit(analysis_of, run_dir, edit):
    edit(run_dir / "metrics.json", lambda m: m.update(caveats=["3 of 40 texts are known."]))
    assert "3 of 40 texts are known." in list(limits(analysis_of()))


def test_a_file_that_was_checked_on_random_ids_or_not_at_all_is_named(analysis_of, run_dir, edit):
    edit(run_dir / "export" / "model.json", lambda m: m["parity"].update(inputs="random"))
    edit(run_dir / "teacher" / "export" / "model.json", lambda m: m.update(parity=None))
    said = list(limits(analysis_of()))
    assert "The student file was checked on random token ids, not on sentences." in said
    assert "The teacher file was not compared with its model." in said


def test_the_metric_of_a_file_alone_is_of_the_development_set(run_dir):
    run = run_analysis.RunAnalysis(report.collect(run_dir / "export"))
    assert any("of the development set" in text for text in limits(run))
