import pytest
from page_reading import table_of, tree_of

from tfdistill import report
from tfdistill.report.sections import quality, verdict


def page_of(run_dir):
    return tree_of(report.render_html(report.build(report.collect(run_dir))))


def test_the_models_are_compared_with_their_numbers(run_dir):
    head, *rows = table_of(page_of(run_dir), "models")
    assert head[:3] == ["Model", "Accuracy", "Of the teacher’s"]
    by_name = {row[0].split("3 layers")[0].split("6 layers")[0]: row[1:] for row in rows}
    assert by_name["Teacher"] == [
        "90.0%", "100%", "22.9 M", "2.87 G", "90.0%", "91.3 MBfloat32", "36.0 ms", "1×", "15 min"
    ]  # fmt: skip
    assert by_name["Student: general + intermediate + prediction"] == [
        "88.0 ± 0.4%3 seeds", "97.8%", "7.33 M", "357 M", "87.9%", "7.61 MBdynamic_wi8_afp32",
        "2.00 ms", "18.0×", "12 min",
    ]  # fmt: skip
    untaught = by_name["Student without teacher"]
    assert untaught[:2] == ["81.2 ± 0.6%3 seeds", "90.2%"]
    assert untaught[6] == "2.00 ms †"  # borrowed from the exported student of the same shape
    assert len(rows) == 5


def test_the_test_set_has_a_table_of_its_own(run_dir, edit, analysis_of):
    def score(metrics):
        metrics["test_metrics"] = {
            "teacher": {"accuracy": 0.8},
            "student": {"accuracy": 0.72},
            "file": {"accuracy": 0.7},
        }

    assert "an independent test set would be" in "".join(verdict.limits(analysis_of()))
    edit(run_dir / "metrics.json", score)
    limits = "".join(verdict.limits(analysis_of()))
    assert "independent" not in limits and "expect those of the test set" in limits
    assert table_of(page_of(run_dir), "test-set") == [
        ["Model", "Accuracy", "Of the teacher’s"],
        ["Teacher", "80.0%", "100.0%"],
        ["Student", "72.0%", "90.0%"],
        ["The student’s file", "70.0%", "87.5%"],
    ]


def test_heads_are_named_where_they_do_not_share_the_width(run_dir, edit):
    def prune(metrics):
        for model in metrics["models"]:
            if model["role"] == "student":
                model["architecture"] |= {"num_heads": 6, "head_size": 16}

    edit(run_dir / "metrics.json", prune)
    teacher, *students = table_of(page_of(run_dir), "models")[1:]
    assert "heads" not in teacher[0]
    assert all("6 heads of 16" in row[0] for row in students if row[0].startswith("Student"))


def test_a_student_of_many_stages_goes_by_its_name(run_dir, edit):
    def lengthen(metrics):
        for model in metrics["models"]:
            if model["stages"] == ["general", "intermediate", "prediction"]:
                model["stages"] = ["general", "intermediate_augmented", "prediction_augmented"]
                named.add(model["name"])

    named = set()
    edit(run_dir / "metrics.json", lengthen)
    (name,) = named
    rows = table_of(page_of(run_dir), "models")
    assert any(row[0].startswith(f"Student: {name}") for row in rows)
    assert not any("augmented" in row[0] for row in rows)


def test_a_student_of_another_shape_borrows_nothing(run_dir, edit):
    def grow(metrics):
        for model in metrics["models"]:
            if model["name"] == "no_teacher":
                model["architecture"]["num_layers"] = 4

    edit(run_dir / "metrics.json", grow)
    rows = table_of(page_of(run_dir), "models")
    (row,) = [row for row in rows if row[0].startswith("Student without")]
    assert row[6:9] == ["–", "–", "–"]


def test_latency_parity_and_training_are_tabled(run_dir):
    tree = page_of(run_dir)
    latency = table_of(tree, "latency")
    assert len(latency) == 1 + 12
    assert latency[2] == [
        "student", "32", "1", "0.500 ms[0.495, 0.510]", "0.520 ms", "0.545 ms", "0.650 ms",
        "16.0×[15.5, 16.3]", "600",
    ]  # fmt: skip
    assert table_of(tree, "parity")[1] == [
        "studentdynamic_wi8_afp32", "872real inputs", "0.0934.0% of rms", "0.0120.51% of rms",
        "41.7 dB", "99.77%", "88.0%", "87.9%", "7.61 MBbbbbbbbbbbbb",
    ]  # fmt: skip
    assert table_of(tree, "text")[1][:2] == ["Tokenizer alone", "41.0 µs"]
    assert table_of(tree, "start")[1] == [
        "teacher", "32", "196 ms", "21.0 ms", "17.6 ms", "212 MB"
    ]  # fmt: skip
    assert len(table_of(tree, "seeds")) == 1 + 13
    assert len(table_of(tree, "training")) == 1 + 22


def test_a_correlation_with_one_seed_is_shown_as_such(run_dir, edit):
    def change(metrics):
        metrics["task"]["primary_metric"] = "matthews"
        metrics["models"] = [m for m in metrics["models"] if m["seed"] == 1]
        for model in metrics["models"]:
            model["metrics"] = {"matthews": model["metrics"]["accuracy"] - 0.4, "accuracy": None}

    edit(run_dir / "metrics.json", change)
    rows = table_of(page_of(run_dir), "models")
    assert rows[0][1] == "Matthews correlation"
    assert rows[1][1] == "0.500"
    assert rows[5][1:3] == ["0.4801 seed", "96.0%"]


def test_like_is_compared_with_like_where_the_teacher_has_the_students_format(
    fake_run, run_dir, analysis_of
):
    assert quality.formats(analysis_of()) is None  # one file each, in two formats
    assert "export.also_quantize=[dynamic_wi8_afp32]" in " ".join(verdict.limits(analysis_of()))
    fake_run.add_teacher_like_student(run_dir)
    run = analysis_of()
    assert "4.50× faster on this host (both dynamic_wi8_afp32)" in verdict.headline(run)
    assert run.smaller() == pytest.approx(23_000_000 / 7_611_000)
    assert "also_quantize" not in " ".join(verdict.limits(run))
    assert verdict.key_figures(run)[2].detail == "7.61 MB against 23.0 MB, both dynamic_wi8_afp32"
    _, alike, mixed = table_of(page_of(run_dir), "formats")
    assert alike[:3] == ["dynamic_wi8_afp32both", "23.0 MB", "7.61 MB"]
    assert alike[4:6] == ["9.00 ms", "2.00 ms"] and alike[6].startswith("4.50×[")
    assert mixed[0] == "dynamic_wi8_afp32against float32"
    assert mixed[4:6] == ["36.0 ms", "2.00 ms"] and mixed[6].startswith("18.0×[")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, None),
        ({"quantization": "weight_only_wi8_afp32"}, "is weight_only_wi8_afp32: as dynamic_wi8_"),
        (
            {"quantized_layers": {"pooler": "float32"}},
            "is dynamic_wi8_afp32 with pooler in float32: as dynamic_wi8_afp32 it lost too much",
        ),
    ],
)
def test_a_file_in_another_format_than_the_recipe_asks_for_is_named(
    changes, told, run_dir, edit, analysis_of
):
    (run_dir / "recipe.yaml").write_text("export:\n  quantize: dynamic_wi8_afp32\n")
    edit(run_dir / "export" / "model.json", lambda card: card.update(changes))
    said = [line for line in verdict.limits(analysis_of()) if "lost too much" in line]
    assert (told is None and not said) or (told is not None and told in said[0])


def test_baselines_say_what_they_weigh_and_take(run_dir, edit):
    rows = [
        {"name": "tfidf", "metrics": {"accuracy": 0.8}, "parameters": 50_000, "latency_ms": 0.3},
        {"name": "frozen_teacher", "metrics": {"accuracy": 0.85}, "parameters": 22_000_000},
        {"name": "no_teacher", "metrics": {"accuracy": 0.81}, "parameters": 7_330_370},
    ]
    edit(run_dir / "metrics.json", lambda m: m.update(baselines=rows))
    page = page_of(run_dir)
    head, *found = table_of(page, "models")
    cell = {row[0]: dict(zip(head, row, strict=True)) for row in found}
    tfidf = cell["TF-IDF and a linear modelbaseline"]
    assert (tfidf["Parameters"], tfidf["File"]) == ("50.0 k", "200 kB ‡")
    assert tfidf["Latency"] == "0.300 ms ‡"
    frozen = cell["The frozen teacher and a linear modelbaseline"]
    assert (frozen["File"], frozen["Latency"]) == ("88.0 MB ‡", "–")  # its own time is not known
    alone = cell["The same student without a teacherbaseline"]
    assert (alone["File"], alone["Latency"]) == ("7.61 MB †", "2.00 ms †")
    assert "Python on the machine of the run" in "".join(page.itertext())


def test_a_teacher_of_fewer_examples_is_not_compared(run_dir, edit, analysis_of):
    def leave_out(metrics):
        metrics["models"][0]["num_examples"] = 100

    edit(run_dir / "metrics.json", leave_out)
    run = analysis_of()
    assert run.kept(run.student) is None and "teacher’s accuracy" not in verdict.headline(run)
    assert "answered 100 of the 872 development examples" in " ".join(verdict.limits(run))
    figure = verdict.key_figures(run)[0]
    assert figure.label == "accuracy of the student" and "88.0" in figure.value
