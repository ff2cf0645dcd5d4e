import importlib.util
import json
import pathlib
import shutil
import sys

import pytest


def _load(name):
    if name not in sys.modules:
        path = pathlib.Path(__file__).with_name(f"{name}.py")
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


for _name in (
    "page_reading",
    "chromium",
    "fake_answers",
):  # the tests beside this file import them by name
    _load(_name)


@pytest.fixture(scope="session")
def fake_results():
    """The module that makes up benchmark results."""
    return _load("fake_results")


@pytest.fixture(scope="session")
def fake_run(fake_results):
    """The module that writes run folders with made-up numbers."""
    return _load("fake_run")


@pytest.fixture(scope="session")
def whole_run(fake_run, tmp_path_factory):
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
