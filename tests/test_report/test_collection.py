import json
import shutil

import pytest
from test_report import fake_results

from tfdistill import errors, report


@pytest.fixture
def save(tmp_path):
    """Writes a result and returns its path."""

    def write(name, models=None, **options):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        models = [fake_results.model("student")] if models is None else models
        path.write_text(json.dumps(fake_results.result(models, **options)))
        return path

    return write


DATA, BENCHMARK = errors.DataError, errors.BenchmarkError
SWEEP = {"format_version": 1, "rows": [{"name": "float32", "verdict": "good", "later": 1}]}


def labels(paths):
    return [named.label for named in report.gather(paths).results]


def test_results_go_by_their_file_and_runs_by_their_folder(save, run_dir):
    assert labels([save("pixel8.json"), run_dir]) == ["pixel8", "run"]


def test_equal_names_get_as_many_folders_as_it_takes(save):
    paths = [save("a/x/result.json"), save("b/x/result.json")]
    assert labels(paths) == ["a/x/result", "b/x/result"]


def test_what_is_named_twice_counts_once(save, tmp_path):
    path = save("one.json")
    assert labels([path, path, tmp_path]) == ["one"]


def test_a_folder_gives_the_runs_results_and_sweeps_below_it(save, run_dir, tmp_path):
    save("results/host.json")
    save("results/phone.json", kind="phone")
    (tmp_path / "results" / "notes.json").write_text('{"kind": "other"}')
    (tmp_path / "results" / "model.json").write_text("[1]")
    (tmp_path / "swept").mkdir()
    (tmp_path / "swept" / "sweep.json").write_text(json.dumps(SWEEP))
    collection = report.gather([tmp_path])
    assert [named.label for named in collection.results] == ["host", "phone", "run"]
    assert [swept.label for swept in collection.sweeps] == ["swept"]
    assert collection.sweeps[0].sweep.rows[0].name == "float32"


def test_a_result_of_any_name_counts_beside_one_of_the_usual_name(save, tmp_path):
    save("results/benchmark.json")
    save("results/pixel8.json", kind="phone")
    assert labels([tmp_path]) == ["results", "pixel8"]


def test_a_run_gives_the_results_of_other_devices_too(save, run_dir):
    shutil.move(save("other.json", kind="phone"), run_dir / "benchmark-ba9876543210.json")
    assert labels([run_dir]) == ["run", "benchmark-ba9876543210"]


def test_runs_on_synthetic_data_and_runs_without_a_measurement_are_known(run_dir, edit, tmp_path):
    edit(run_dir / "metrics.json", lambda m: m.update(synthetic_data=True))
    assert report.gather([run_dir]).synthetic == ("run",)
    (run_dir / "benchmark.json").unlink()
    collection = report.gather([run_dir])
    assert (collection.results, collection.unmeasured) == ((), ("run",))


def test_an_export_that_nobody_measured_is_named_as_one(save, run_dir):
    save("phone.json", kind="phone")
    collection = report.gather([run_dir.parent / "phone.json", run_dir / "export"])
    assert [named.label for named in collection.results] == ["phone"]
    assert collection.unmeasured == ("export",)


@pytest.mark.parametrize(
    ("name", "content", "error", "said"),
    [
        ("a.tflite", "\x1c\0\0\0TFL3", DATA, r"a\.tflite: .* received a model\. Name the folder"),
        ("a.json", '{"format_version": 1, "measurements": []}', BENCHMARK, "1. Measure again"),
        ("a.json", '{"format_version": 7, "measurements": []}', BENCHMARK, "format_version 7"),
        ("a.json", '{"format_version": 1, "rows": []}', BENCHMARK, "that is no benchmark result"),
        ("a.json", '{"format_version": 2}', BENCHMARK, "Field required"),
        ("a.json", '{"format_version": 2, "kind": "host", "mod', BENCHMARK, "a.json"),
        ("a.json", "[]", BENCHMARK, "a.json"),
        ("a.json", "", BENCHMARK, "a.json"),
        ("in/cut-off.json", '{"format_version": 2, "kind": "host", ', DATA, "cut-off.json"),
        ("in/sweep.json", "{", DATA, "sweep.json"),
        ("in/sweep.json", '{"format_version": 2}', DATA, "sweep.json"),
        ("in/sweep.json", '{"format_version": 1, "rows": 3}', DATA, "sweep.json"),
        ("in/recipe.yaml", "name: begun", DATA, r"in: .* a run without results\. .*--resume"),
        ("in/notes.txt", "nothing to report", DATA, r"in\b.*tfdistill benchmark"),
    ],
)
def test_what_cannot_be_reported_is_an_error_that_names_it(tmp_path, name, content, error, said):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    with pytest.raises(error, match=said) as caught:
        report.gather([path.parent if name.startswith("in/") else path])
    assert (path if path.suffix == ".json" else path.parent).name in str(caught.value)


def test_links_to_other_folders_are_not_followed(save, tmp_path):
    save("results/one.json")
    save("elsewhere/two.json")
    (tmp_path / "results" / "loop").symlink_to(tmp_path, target_is_directory=True)
    assert labels([tmp_path / "results"]) == ["one"]
