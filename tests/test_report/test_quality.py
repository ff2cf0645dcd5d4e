import pytest
from page_reading import chart_of, table_of, tree_of, words_of

from tfdistill import report
from tfdistill.report.sections import limits, verdict


def page_of(run_dir):
    return tree_of(report.render_html(report.build(report.collect(run_dir))))


def test_the_models_are_compared_with_their_numbers(run_dir):
    head, *rows = table_of(page_of(run_dir), "models")
    assert head[:3] == ["Model", "Accuracy", "Of the teacher’s"]
    by_name = {row[0].split("3 layers")[0].split("6 layers")[0]: row[1:] for row in rows}
    assert by_name["Teacher"] == [
        "90.0%", "100%", "90.0%", "22.9", "2,870", "91.3float32", "36.0", "912"
    ]  # fmt: skip
    assert by_name["Student: general + intermediate + prediction"] == [
        "88.0 ± 0.4%3 seeds", "97.8%", "87.9%", "7.33", "357", "7.61dynamic_wi8_afp32", "2.00",
        "720",
    ]  # fmt: skip
    untaught = by_name["Student without teacher"]
    assert untaught[:2] == ["81.2 ± 0.6%3 seeds", "90.2%"]
    assert untaught[6] == "2.00 †"  # borrowed from the exported student of the same shape
    assert len(rows) == 5


def test_the_test_set_has_a_table_of_its_own(run_dir, edit, analysis_of):
    def score(metrics):
        metrics["test_metrics"] = {
            "teacher": {"accuracy": 0.8},
            "student": {"accuracy": 0.72},
            "file": {"accuracy": 0.7},
        }

    assert "an independent test set would be" in "".join(limits.limits(analysis_of()))
    edit(run_dir / "metrics.json", score)
    said = "".join(limits.limits(analysis_of()))
    assert "independent" not in said and "The test set chose none; it may have set the thr" in said
    assert "10.0 points below its teacher in accuracy on the test set" in verdict.headline(
        analysis_of()
    )
    assert table_of(page_of(run_dir), "test-set") == [
        ["Model", "Accuracy"],
        ["Teacher", "80.0%"],
        ["Student", "72.0%"],
        ["The student’s file", "70.0%"],
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
    assert row[6:8] == ["–", "–"]


def test_latency_parity_and_training_are_tabled(run_dir):
    tree = page_of(run_dir)
    latency = table_of(tree, "latency")
    assert len(latency) == 1 + 12
    assert latency[2] == [
        "student", "32", "1", "0.500[0.495, 0.510]", "0.509", "0.516", "0.633",
        "16.0×[15.5, 16.3]", "600",
    ]  # fmt: skip
    assert table_of(tree, "parity")[1] == [
        "studentdynamic_wi8_afp32", "872real inputs", "0.0934.0% of rms", "0.0120.51% of rms",
        "41.7", "99.77%", "88.0%", "87.9%", "bbbbbbbbbbbb",
    ]  # fmt: skip
    assert table_of(tree, "text")[1][:2] == ["Tokenizer alone", "0.0410"]
    assert table_of(tree, "start")[1] == [
        "teacher", "32", "196", "21.0", "17.6", "212"
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
    assert rows[5][1:3] == ["0.480", "96.0%"]


def test_like_is_compared_with_like_where_the_teacher_has_the_students_format(
    fake_run, run_dir, analysis_of
):
    wanted = "export.also_quantize=[dynamic_wi8_afp32]"
    assert wanted in " ".join(limits.limits(analysis_of()))  # one file each, in two formats
    fake_run.add_teacher_like_student(run_dir)
    run = analysis_of()
    assert "4.50× faster on this host" in verdict.headline(run)
    assert run.smaller() == pytest.approx(23_000_000 / 7_611_000)
    assert "also_quantize" not in " ".join(limits.limits(run))
    _, size, latency = verdict.key_figures(run)
    assert (size.label, size.detail) == ("file, 3.02× smaller", "both dynamic_wi8_afp32")
    assert words_of(chart_of(latency.chart)) == ["Teacher’s file", "9.00 ms", "File", "2.00 ms"]
    files = {row[0]: row[1:] for row in table_of(page_of(run_dir), "tradeoff-1-table")}
    assert set(files) == {"File", "teacher", "teacher-int8", "student"}


def test_a_file_that_was_made_to_fit_lost_nothing_too_much(run_dir, edit, analysis_of):
    (run_dir / "recipe.yaml").write_text("export:\n  quantize: dynamic_wi8_afp32\n  size_mb: 4.5\n")
    layers = {"quantized_layers": {"word_embeddings": "dynamic_wi4_afp32"}}
    edit(run_dir / "export" / "model.json", lambda card: card.update(layers))
    (line,) = [line for line in limits.limits(analysis_of()) if "word_embeddings" in line]
    assert line.endswith("with word_embeddings in dynamic_wi4_afp32: it had to fit 4.5 MB.")


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
    said = [line for line in limits.limits(analysis_of()) if "lost too much" in line]
    assert (told is None and not said) or (told is not None and told in said[0])


def test_baselines_say_what_they_weigh_and_take(run_dir, edit):
    rows = [
        {"name": "tfidf", "metrics": {"accuracy": 0.8}, "parameters": 50_000, "latency_ms": 0.3},
        {"name": "frozen_teacher", "metrics": {"accuracy": 0.85}, "parameters": 22_000_000},
        {"name": "no_teacher", "metrics": {"accuracy": 0.81}, "parameters": 7_330_370},
    ]
    edit(run_dir / "metrics.json", lambda m: m.update(baselines=rows))
    page = page_of(run_dir)
    head, *models = table_of(page, "models")
    cell = {row[0]: dict(zip(head, row, strict=True)) for row in models}
    tfidf = cell["TF-IDF and a linear model"]
    assert (tfidf["Parameters, M"], tfidf["File, MB"]) == ("0.0500", "0.200 ‡")
    assert tfidf["Latency, ms"] == "0.300 ‡"
    frozen = cell["The frozen teacher and a linear model"]
    assert (frozen["File, MB"], frozen["Latency, ms"]) == ("88.0 ‡", "–")  # its time is not known
    alone = cell["The same student without a teacher"]
    assert (alone["File, MB"], alone["Latency, ms"]) == ("7.61 †", "2.00 †")
    assert "median Python time per text on this machine" in "".join(page.itertext())


def test_a_teacher_of_fewer_examples_is_not_compared(run_dir, edit, analysis_of):
    def leave_out(metrics):
        metrics["models"][0]["num_examples"] = 100

    edit(run_dir / "metrics.json", leave_out)
    run = analysis_of()
    assert run.share_of_teacher(0.88) is None and "teacher" not in verdict.headline(run)
    assert "answered 100 of the 872 development examples" in " ".join(limits.limits(run))
    assert next(verdict.key_figures(run)).value == "87.9%"
