import json

import pytest
from test_report import fake_results

from tfdistill import cli


@pytest.fixture
def report(capsys):
    """Runs `tfdistill report` and returns its exit code, stdout and stderr."""

    def run(*arguments):
        code = cli.main(["report", *map(str, arguments)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_a_run_is_reported_in_its_own_folder(report, run_dir):
    code, out, _ = report(run_dir)
    assert (code, out.strip()) == (0, str(run_dir / "report.html"))
    assert "below its teacher in accuracy" in (run_dir / "report.html").read_text(encoding="utf-8")


def test_several_paths_are_compared_in_the_folder_that_is_named(report, run_dir, tmp_path):
    result = tmp_path / "phone.json"
    result.write_text(json.dumps(fake_results.result([fake_results.model("m")], kind="phone")))
    code, out, _ = report(run_dir, result, "--out", tmp_path / "out")
    assert (code, out.strip()) == (0, str(tmp_path / "out" / "report.html"))
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "Phone: Example Phone 8" in page and "Host: Example 9000 Processor" in page
    assert not (run_dir / "report.html").exists()


def test_a_single_result_is_reported_beside_where_one_stands(report, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "host.json").write_text(json.dumps(fake_results.result([fake_results.model("m")])))
    code, out, _ = report("host.json")
    assert (code, out.strip()) == (0, "report/report.html")
    assert (tmp_path / "report" / "report-tables" / "device-1-latency.csv").is_file()


def test_a_path_that_is_not_there_is_an_error_that_names_it(report, tmp_path):
    code, out, err = report(tmp_path / "nowhere", tmp_path)
    assert code != 0 and out == ""
    assert "nowhere" in err and "Check the path" in err


def test_a_result_of_an_older_format_says_what_to_do(report, tmp_path):
    (tmp_path / "old.json").write_text('{"format_version": 1, "kind": "host"}')
    code, _, err = report(tmp_path / "old.json")
    assert code != 0
    assert "old.json" in err and "Measure again" in err
