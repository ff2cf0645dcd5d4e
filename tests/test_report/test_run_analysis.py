import pytest

from tfdistill import report
from tfdistill.report.sections import limits, verdict


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
