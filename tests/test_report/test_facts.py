import statistics

import pytest

from tfdistill import report
from tfdistill.report import story
from tfdistill.report.facts import Facts


@pytest.fixture
def facts_of(run_dir):
    def make():
        return Facts(report.collect(run_dir))

    return make


def test_the_student_is_the_chosen_variant_and_its_seeds_are_averaged(facts_of, fake_run):
    facts = facts_of()
    values = fake_run.ACCURACY["full"]
    assert facts.student.name == "full"
    assert facts.student.mean("accuracy") == pytest.approx(statistics.fmean(values))
    assert facts.student.spread("accuracy") == pytest.approx(statistics.stdev(values))
    assert facts.teacher.spread("accuracy") is None
    assert facts.kept(facts.student) == pytest.approx(0.88 / 0.9)
    assert facts.gain() == pytest.approx(0.88 - 0.812)
    assert [group.name for group in facts.groups] == list(fake_run.ACCURACY)


def test_sizes_and_latencies_are_divided_teacher_by_student(facts_of):
    facts = facts_of()
    assert facts.smaller() == pytest.approx(91_332_000 / 7_611_000)
    speed = facts.headline_speed()
    assert (speed.sequence_length, speed.threads) == (128, 1)
    assert speed.speedup == pytest.approx(36.0 / 2.0)
    assert speed.interval == pytest.approx((18 * 0.97, 18 * 1.02))
    assert [(s.threads, s.sequence_length) for s in facts.speeds()] == [
        (t, n) for t in (1, 2) for n in (32, 64, 128)
    ]


def test_a_comparison_recorded_the_other_way_round_is_turned(facts_of, run_dir, edit):
    def turn(benchmark):
        for row in benchmark["comparisons"]:
            row["baseline"], row["candidate"] = row["candidate"], row["baseline"]
            row.update(speedup=0.1, speedup_ci=[0.08, 0.125], faster=False)

    edit(run_dir / "benchmark.json", turn)
    speed = facts_of().headline_speed()
    assert speed.speedup == pytest.approx(10)
    assert speed.interval == pytest.approx((8, 12.5))
    assert speed.faster is True


def test_without_recorded_comparisons_the_ratio_is_computed_and_nothing_is_claimed(
    facts_of, run_dir, edit
):
    edit(run_dir / "benchmark.json", lambda b: b.update(comparisons=[]))
    facts = facts_of()
    speed = facts.headline_speed()
    assert speed.speedup == pytest.approx(18)
    assert (speed.interval, speed.faster) == (None, None)
    assert "and has 18.0× the speed on this host by medians alone" in story.headline(facts)
    assert story.figures(facts)[-1].label == "the speed on this host, by medians alone"


def test_the_checksum_and_not_the_name_says_which_file_was_measured(facts_of, run_dir, edit):
    def rename(benchmark):
        for part in ("models", "summary", "end_to_end"):
            for row in benchmark[part]:
                key = "name" if part == "models" else "model"
                row[key] = {"teacher": "big", "student": "small"}[row[key]]
        benchmark["comparisons"] = []

    edit(run_dir / "benchmark.json", rename)
    facts = facts_of()
    assert facts.measured_name(facts.export_of(facts.student)) == "small"
    assert facts.headline_speed().speedup == pytest.approx(18)


def test_latency_of_another_file_is_not_shown_and_this_is_said(facts_of, run_dir, edit):
    edit(run_dir / "benchmark.json", lambda b: b["models"][1].update(sha256="c" * 64))
    facts = facts_of()
    assert facts.stale() == ["student"]
    assert facts.headline_speed() is None
    assert any("measured another student file" in said for said in story.limits(facts))
    assert "faster" not in story.headline(facts)


def test_the_recipe_says_which_variant_had_no_teacher(facts_of, run_dir, edit):
    def rename(metrics):
        for model in metrics["models"]:
            if model["name"] == "no_teacher":
                model.update(name="alone", stages=["gold"])

    edit(run_dir / "metrics.json", rename)
    assert facts_of().untaught is None
    recipe = (run_dir / "recipe.yaml").read_text()
    (run_dir / "recipe.yaml").write_text(recipe + "  gold: {kind: labels}\n")
    assert facts_of().untaught.name == "alone"


def test_a_run_without_a_teacher_claims_nothing_about_one(facts_of, run_dir, edit):
    def drop(metrics):
        metrics["models"] = [m for m in metrics["models"] if m["name"] == "no_teacher"]
        metrics["chosen"] = "students/no_teacher/seed-2"

    edit(run_dir / "metrics.json", drop)
    facts = facts_of()
    assert (facts.teacher, facts.kept(facts.student), facts.gain()) == (None, None, None)
    assert story.headline(facts) == "A 3-layer student was trained on the task sst2."
    report.render_html(facts.results)


def test_the_headline_says_what_came_of_it(facts_of):
    assert story.headline(facts_of()) == (
        "A 3-layer student learned the task sst2 from its 6-layer teacher. It keeps 97.8% of the "
        "teacher’s accuracy, fits in a file 12.0× smaller and answers 18.0× faster on this host."
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
    facts_of, run_dir, edit, faster, interval, said
):
    def change(benchmark):
        for row in benchmark["comparisons"]:
            row.update(speedup=sum(interval) / 2, speedup_ci=interval, faster=faster)

    edit(run_dir / "benchmark.json", change)
    facts = facts_of()
    assert said in story.headline(facts)
    assert ("faster" in story.headline(facts)) == (faster is True)
    label = story.figures(facts)[-1].label
    assert ("faster" in label) == (faster is True)


def test_limits_name_what_a_reader_may_forget(facts_of, run_dir, edit):
    said = " ".join(story.limits(facts_of()))
    assert "not the latency of a phone" in said
    assert "Example 9000" in said
    assert "dynamic_wi8_afp32" in said and "float32" in said
    assert "872 examples" in said and "1.1 points" in said  # sqrt(0.88 * 0.12 / 872)
    assert "synthetic" not in said
    edit(run_dir / "metrics.json", lambda m: m.update(synthetic_data=True))
    edit(run_dir / "benchmark.json", lambda b: b.update(notes=["Load average 3"]))
    said = " ".join(story.limits(facts_of()))
    assert "The data is synthetic" in said
    assert "Load average 3." in said


def test_a_file_that_was_checked_on_random_ids_or_not_at_all_is_named(facts_of, run_dir, edit):
    edit(run_dir / "export" / "model.json", lambda m: m["parity"].update(inputs="random"))
    edit(run_dir / "teacher" / "export" / "model.json", lambda m: m.update(parity=None))
    said = story.limits(facts_of())
    assert "The student file was checked on random token ids, not on sentences." in said
    assert "The teacher file was not compared with its model." in said
