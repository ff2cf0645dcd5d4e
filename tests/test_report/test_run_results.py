import shutil

import pytest

from tfdistill import errors, report
from tfdistill.io import files
from tfdistill.report.run_results import read_history


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("benchmark.json", "latency was not measured"),
        ("metrics.json", "how the models were trained"),
        ("recipe.yaml", "settings of the run"),
        ("environment.json", "versions and commit"),
        ("export/model.json", "the student file"),
        ("teacher/export/model.json", "the teacher file"),
        ("students/full/seed-2/general/history.csv", "no loss curve"),
    ],
)
def test_what_is_missing_is_said_and_the_rest_is_still_reported(run_dir, path, said):
    (run_dir / path).unlink()
    results = report.collect(run_dir)
    (sentence,) = [s for s in results.missing if path in s]
    assert said in sentence
    page = report.render_html(report.build(results))
    assert sentence in page.replace("&#39;", "'")
    assert sentence in report.render_markdown(report.build(results)).replace("\\", "")


def test_a_folder_without_results_is_refused(tmp_path):
    with pytest.raises(
        errors.DataError, match=r"metrics\.json, benchmark\.json or model\.json, received none"
    ):
        report.collect(tmp_path)
    with pytest.raises(errors.DataError, match="no such folder"):
        report.collect(tmp_path / "none")


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("metrics.json", "{"),
        ("metrics.json", '{"format_version": 2}'),
        ("metrics.json", '{"format_version": 1, "models": [{"name": "a", "role": "pupil"}]}'),
        ("benchmark.json", '{"format_version": 1, "summary": [{"model": "a"}]}'),
        ("benchmark.json", '{"format_version": 2, "summary": [{"model": "a"}]}'),
        ("benchmark.json", '{"format_version": 2, "summary"'),
        ("metrics.json", '{"format_version": 1, "files": {}}'),  # of another kind
        ("environment.json", "[1]"),
        ("recipe.yaml", "a: [1"),
        ("recipe.yaml", "- a"),
    ],
)
def test_a_malformed_file_is_an_error_that_names_it(run_dir, path, content):
    (run_dir / path).write_text(content)
    kind = errors.BenchmarkError if path == "benchmark.json" else errors.DataError
    with pytest.raises(kind, match=path.replace(".", r"\.")):
        report.collect(run_dir)


def test_a_path_that_leaves_the_run_folder_is_refused(run_dir, edit):
    edit(
        run_dir / "metrics.json", lambda m: m["exports"][0].update(manifest="../outside/model.json")
    )
    with pytest.raises(errors.ManifestError):
        report.collect(run_dir)


def test_a_stage_that_models_share_is_read_once(run_dir, edit):
    def share(metrics):
        variants = [m for m in metrics["models"] if m["name"] == "full"]
        for model in variants:
            model["history"][0] = variants[0]["history"][0]

    edit(run_dir / "metrics.json", share)
    general = [h for h in report.collect(run_dir).histories if h.stage == "general"]
    assert [(h.model, h.seed) for h in general] == [("full", 1)]


def test_a_history_that_was_changed_since_is_refused_and_one_that_is_gone_named(run_dir, edit):
    csv = run_dir / "teacher" / "labels" / "history.csv"

    def record(metrics):
        metrics["models"][0]["history"][0]["sha256"] = files.sha256_of(csv)

    edit(run_dir / "metrics.json", record)
    assert report.collect(run_dir).histories
    csv.write_text(csv.read_text().replace("1095.1", "1095.2").replace("0.9", "0.8"))
    with pytest.raises(errors.DataError, match="the history that the run wrote"):
        report.collect(run_dir)
    csv.unlink()
    (missing,) = report.collect(run_dir).missing
    assert "labels/history.csv is missing" in missing


def test_a_recipe_that_was_changed_since_is_refused(run_dir, edit):
    recipe, recorded = run_dir / "recipe.yaml", run_dir / "environment.json"
    edit(recorded, lambda record: record.update(recipe_sha256=files.sha256_of(recipe)))
    report.collect(run_dir)
    recipe.write_text(recipe.read_text().replace("epochs: 4", "epochs: 5"))
    with pytest.raises(errors.ConfigError, match=r"the recipe that environment\.json records"):
        report.collect(run_dir)


def test_aliases_of_a_recipe_do_not_outgrow_it(run_dir):
    lists = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 12)]
    (run_dir / "recipe.yaml").write_text("\n".join(["l0: &l0 [1]", *lists]))
    with pytest.raises(errors.DataError, match="nodes"):
        report.collect(run_dir)


def test_history_cells_that_are_no_finite_number_are_empty():
    columns = read_history("epoch,loss,val_accuracy\n1,2.5,\n2,nan,0.5\n3,oops,0.6\n")
    assert columns == {
        "epoch": [1.0, 2.0, 3.0],
        "loss": [2.5, None, None],
        "val_accuracy": [None, 0.5, 0.6],
    }
    assert read_history("") == {}


def test_a_run_is_written_to_another_folder_where_one_is_named(run_dir, tmp_path):
    before = sorted(run_dir.rglob("*"))
    html, markdown = report.write(run_dir, tmp_path / "elsewhere")
    assert (html.parent, markdown.parent) == (tmp_path / "elsewhere",) * 2
    assert sorted(run_dir.rglob("*")) == before


def test_a_table_of_an_earlier_report_does_not_stay(run_dir):
    report.write(run_dir)
    tables = run_dir / "report-tables"
    assert (tables / "latency.csv").is_file()
    (run_dir / "benchmark.json").unlink()
    report.write(run_dir)
    assert not (tables / "latency.csv").exists()
    assert (tables / "models.csv").is_file()


@pytest.fixture
def export_dir(run_dir, edit, tmp_path):
    """The run's export alone, of a task whose metric is another one, with its measurement."""
    folder = tmp_path / "phone-file"
    shutil.copytree(run_dir / "export", folder)
    shutil.copy(run_dir / "benchmark.json", folder)

    def rename(card):
        card["task"] |= {"primary_metric": "f1"}
        card["parity"] |= {"file_metrics": {"accuracy": 0.9, "f1": 0.5}}

    edit(folder / "model.json", rename)
    return folder


def test_vectors_agree_on_the_nearest_text_and_not_on_an_answer(export_dir, edit):
    edit(export_dir / "model.json", lambda card: card["parity"].update(min_cosine=0.99))
    value = report.build(report.collect(export_dir))
    assert "It has the same nearest text as its model for 99.8% of " in value.headline
    text = report.render_markdown(value)
    assert "| Same nearest text |" in text and "| Same answer |" not in text


def test_a_measurement_of_another_file_than_the_export_is_no_latency_of_it(export_dir, edit):
    edit(export_dir / "model.json", lambda card: card["model"].update(sha256="d" * 64))
    value = report.build(report.collect(export_dir))
    assert len(value.figures) == 2
    assert any("measured another exported file" in sentence for sentence in value.limits)


def test_a_file_that_has_changed_since_its_export_is_named(run_dir, export_dir):
    for folder, name in ((run_dir / "export", "student"), (export_dir, "exported")):
        (folder / "model.tflite").write_bytes(b"another")
        (sentence,) = report.collect(folder.parent if name == "student" else folder).missing
        assert sentence.startswith(f"The {name} file has changed since its export; figures are of")
