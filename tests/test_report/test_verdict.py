import pytest

from tfdistill.analysis import PairedDifference
from tfdistill.report.sections import verdict


@pytest.mark.parametrize(
    ("faster", "interval", "said"),
    [
        (True, [1.2, 1.4], "1.30× faster"),
        (None, [0.9, 1.5], "about as fast, as far as this run can tell, on this host"),
        (None, [3.9, 4.1], "4.00× as fast by medians alone on this host"),  # one repetition
        (False, [0.4, 0.6], "slower on this host"),
    ],
)
def test_faster_is_said_only_where_the_interval_says_so(
    analysis_of, run_dir, edit, faster, interval, said
):
    def change(benchmark):
        benchmark["measurements"] = []  # whose samples say something else
        for row in benchmark["comparisons"]:
            row.update(speedup=sum(interval) / 2, speedup_ci=interval, faster=faster)

    edit(run_dir / "benchmark.json", change)
    run = analysis_of()
    assert said in verdict.headline(run)
    assert ("faster" in verdict.headline(run)) == (faster is True)
    *_, latency = verdict.key_figures(run)
    label = latency.label
    assert ("faster" in label) == (faster is True)


@pytest.mark.parametrize(
    ("interval", "p_value", "said"),
    [
        ((-0.004, 0.002), 0.6, "No measurable loss of accuracy: 87.9% against 90.0% on 872"),
        ((-0.02, 0.03), 0.6, "No measurable loss of accuracy: "),
        ((-0.021, 0.05), 0.6, "Too few rows to say whether the student’s file is as good as its "),
        ((-0.18, 0.06), 0.4, "Too few rows to say whether the student’s file is as good as its "),
        ((-0.18, -0.06), 0.01, "The student’s file is 2.1 points below its teacher"),
    ],
)
def test_equality_is_not_concluded_from_an_interval_more_than_2_points_down(
    analysis_of, interval, p_value, said
):
    run = analysis_of()
    run.against_teacher = PairedDifference(0.9, 0.879, interval, 9, 5, p_value)
    assert verdict.headline(run).startswith(said)


@pytest.mark.parametrize(
    ("figure", "interval", "p_value", "said"),
    [
        (
            0.875,
            (-0.01, 0.02),
            0.4,
            "TF-IDF and a linear model does as well as the student, within",
        ),
        (
            0.875,
            (-0.04, 0.05),
            0.4,
            "Too few rows to say whether a baseline does as well as the student (TF-",
        ),
        (
            0.88,
            (-0.04, 0.05),
            1.0,
            "Too few rows to say whether a baseline does as well as the student (TF-",
        ),
        (0.875, (0.001, 0.02), 0.04, "The student’s file is 2.1 points below its teacher"),
        (0.9, (-0.06, -0.01), 0.01, "TF-IDF and a linear model beats the student"),
    ],
)
def test_the_best_baseline_is_tested_against_a_student_above_it_too(
    analysis_of, run_dir, edit, figure, interval, p_value, said
):
    row = {"name": "tfidf", "metrics": {"accuracy": figure}}
    edit(run_dir / "metrics.json", lambda m: m.update(baselines=[row]))
    run = analysis_of()
    run.against_baseline = PairedDifference(figure, 0.88, interval, 9, 5, p_value)
    assert verdict.headline(run).startswith(said)
