import json
import shutil

import pytest
from test_report import fake_run


@pytest.fixture(scope="session")
def whole_run(tmp_path_factory):
    return fake_run.build(tmp_path_factory.mktemp("whole") / "run")


@pytest.fixture
def run_dir(whole_run, tmp_path):
    """A whole run: teacher, four variants of three seeds, two exports, a benchmark."""
    return shutil.copytree(whole_run, tmp_path / "run")


@pytest.fixture
def edit():
    """Changes a JSON file in place by a function on its value."""

    def change(path, work):
        value = json.loads(path.read_text())
        work(value)
        path.write_text(json.dumps(value))

    return change


@pytest.fixture
def analysis_of(run_dir):
    """Reads the run anew and derives its figures."""
    from tfdistill import report
    from tfdistill.report.run_analysis import RunAnalysis

    return lambda: RunAnalysis(report.collect(run_dir))
