import statistics

import pytest

from tfdistill import report
from tfdistill.report.sections import limits, verdict


def test_the_student_is_the_chosen_variant_and_its_seeds_are_averaged(analysis_of, fake_run):
    run = analysis_of()
    values = fake_run.ACCURACY["full"]
    assert run.student.name == "full"
    assert run.student.mean("accuracy") == pytest.approx(statistics.fmean(values))
    assert run.student.deviation("accuracy") == pytest.approx(statistics.stdev(values))
    assert run.teacher.deviation("accuracy") is None
    assert run.share_of_teacher(0.88) == pytest.approx(0.88 / 0.9)
    assert run.scores == pytest.approx({"teacher": 0.9, "student": 0.88, "file": 0.8789})
    assert (run.split, run.judged, run.num_examples) == ("development", "file", 872)
    assert [group.name for group in run.groups] == list(fake_run.ACCURACY)


def test_sizes_and_latencies_are_divided_teacher_by_student(analysis_of):
    run = analysis_of()
    assert run.smaller() == pytest.approx(91_332_000 / 7_611_000)
    speed = run.headline_speed()
    assert (speed.sequence_length, speed.threads) == (128, 1)
    assert speed.speedup == pytest.approx(36.0 / 2.0)
    assert speed.interval == pytest.approx((18 * 0.97, 18 * 1.02))
    assert [(s.threads, s.sequence_length) for s in run.speeds] == [
        (t, n) for t in (1, 2) for n in (32, 64, 128)
    ]


def test_a_comparison_recorded_the_other_way_round_is_turned(analysis_of, run_dir, edit):
    def turn(benchmark):
        benchmark["measurements"] = []  # whose samples say something else
        for row in benchmark["comparisons"]:
            row["baseline"], row["candidate"] = row["candidate"], row["baseline"]
            row.update(speedup=0.1, speedup_ci=[0.08, 0.125], faster=False)

    edit(run_dir / "benchmark.json", turn)
    speed = analysis_of().headline_speed()
    assert speed.speedup == pytest.approx(10)
    assert speed.interval == pytest.approx((8, 12.5))
    assert speed.faster is True


def test_without_recorded_comparisons_the_ratio_is_computed_and_nothing_is_claimed(
    analysis_of, run_dir, edit
):
    edit(run_dir / "benchmark.json", lambda b: b.update(comparisons=[]))
    run = analysis_of()
    speed = run.headline_speed()
    assert speed.speedup == pytest.approx(18)
    assert (speed.interval, speed.faster) == (None, None)
    assert "and 18.0× as fast by medians alone on this host" in verdict.headline(run)


def test_the_checksum_and_not_the_name_says_which_file_was_measured(analysis_of, run_dir, edit):
    def rename(benchmark):
        for part in ("models", "measurements", "summary", "end_to_end"):
            for row in benchmark[part]:
                key = "name" if part == "models" else "model"
                row[key] = {"teacher": "big", "student": "small"}[row[key]]
        benchmark["comparisons"] = []

    edit(run_dir / "benchmark.json", rename)
    run = analysis_of()
    assert run.measured_name(run.export_of(run.student)) == "small"
    assert run.headline_speed().speedup == pytest.approx(18)


def test_latency_of_another_file_is_not_shown_and_this_is_said(analysis_of, run_dir, edit):
    edit(run_dir / "benchmark.json", lambda b: b["models"][1].update(sha256="c" * 64))
    run = analysis_of()
    assert run.stale() == ["student"]
    assert run.headline_speed() is None
    assert any("measured another student file" in said for said in limits.limits(run))
    assert "faster" not in verdict.headline(run)


def test_the_recipe_says_which_variant_had_no_teacher(analysis_of, run_dir, edit):
    def rename(metrics):
        for model in metrics["models"]:
            if model["name"] == "no_teacher":
                model.update(name="alone", stages=["gold"])

    edit(run_dir / "metrics.json", rename)
    assert "alone" not in [g.name for g in analysis_of().groups if g.taught is False]
    recipe = (run_dir / "recipe.yaml").read_text()
    (run_dir / "recipe.yaml").write_text(recipe + "  gold: {kind: labels}\n")
    assert [g.name for g in analysis_of().groups if g.taught is False] == ["alone"]


def test_a_run_without_a_teacher_claims_nothing_about_one(analysis_of, run_dir, edit):
    def drop(metrics):
        metrics["models"] = [m for m in metrics["models"] if m["name"] == "no_teacher"]
        metrics["chosen"] = "students/no_teacher/seed-2"

    edit(run_dir / "metrics.json", drop)
    run = analysis_of()
    assert (run.teacher, run.share_of_teacher(0.8), run.smaller()) == (None, None, None)
    assert verdict.headline(run) == (
        "The student reaches accuracy 81.2 ± 0.6% on 872 development examples."
    )
    report.render_html(report.build(run.results))
