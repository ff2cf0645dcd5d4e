import pytest

from tfdistill import report
from tfdistill.report import run_analysis
from tfdistill.report.sections import verdict


def test_the_headline_says_what_came_of_it(analysis_of):
    assert verdict.headline(analysis_of()) == (
        "A 3-layer student learned the task sst2 from its 6-layer teacher. It keeps 97.8% of the "
        "teacher’s accuracy, fits in a file 12.0× smaller and answers 18.0× faster on this host "
        "(dynamic_wi8_afp32 against float32)."
    )


@pytest.mark.parametrize(
    ("faster", "interval", "said"),
    [
        (True, [1.2, 1.4], "answers 1.30× faster"),
        (None, [0.9, 1.5], "about as fast on this host, as far as this run can tell"),
        (False, [0.4, 0.6], "slower on this host"),
    ],
)
def test_faster_is_said_only_where_the_interval_says_so(
    analysis_of, run_dir, edit, faster, interval, said
):
    def change(benchmark):
        for row in benchmark["comparisons"]:
            row.update(speedup=sum(interval) / 2, speedup_ci=interval, faster=faster)

    edit(run_dir / "benchmark.json", change)
    run = analysis_of()
    assert said in verdict.headline(run)
    assert ("faster" in verdict.headline(run)) == (faster is True)
    label = verdict.key_figures(run)[-1].label
    assert ("faster" in label) == (faster is True)


def test_limits_name_what_a_reader_may_forget(analysis_of, run_dir, edit):
    said = " ".join(verdict.limits(analysis_of()))
    assert "not the latency of a phone" in said
    assert "Example 9000" in said
    assert "dynamic_wi8_afp32" in said and "float32" in said
    assert "872 examples" in said and "1.1 points" in said  # sqrt(0.88 * 0.12 / 872)
    assert "synthetic" not in said
    edit(run_dir / "metrics.json", lambda m: m.update(synthetic_data=True))
    edit(run_dir / "benchmark.json", lambda b: b.update(notes=["Load average 3"]))
    said = " ".join(verdict.limits(analysis_of()))
    assert "The data is synthetic" in said
    assert "Load average 3." in said


def test_a_file_that_was_checked_on_random_ids_or_not_at_all_is_named(analysis_of, run_dir, edit):
    edit(run_dir / "export" / "model.json", lambda m: m["parity"].update(inputs="random"))
    edit(run_dir / "teacher" / "export" / "model.json", lambda m: m.update(parity=None))
    said = verdict.limits(analysis_of())
    assert "The student file was checked on random token ids, not on sentences." in said
    assert "The teacher file was not compared with its model." in said


def test_the_metric_of_a_file_alone_is_of_the_development_set(run_dir):
    run = run_analysis.RunAnalysis(report.collect(run_dir / "export"))
    assert any("of the development set" in text for text in verdict.limits(run))


def test_two_figures_that_are_written_alike_are_called_as_good(analysis_of, run_dir, edit):
    def equal(metrics):
        for model in metrics["models"]:
            if model["name"] == "full":
                model["metrics"]["accuracy"] = 0.9001
            if model["role"] == "teacher":
                model["metrics"]["accuracy"] = 0.9

    edit(run_dir / "metrics.json", equal)
    run = analysis_of()
    student = verdict.key_figures(run)[0]
    assert (student.label, student.detail) == ("accuracy, as high as the teacher’s", "")
    assert "is as good as its teacher by accuracy (90.0" in verdict.headline(run)
