"""Packages that import what they offer when it is first used."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

import tfdistill
from tfdistill import compress, losses
from tfdistill.io import processes
from tfdistill.lazy_exports import lazy_exports
from tfdistill.losses import methods

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEAVY = (
    *("keras", "sklearn", "tensorflow_model_optimization"),
    *("scipy.optimize", "scipy.stats"),
)


def test_an_unknown_name_is_refused_as_python_does():
    with pytest.raises(AttributeError, match=r"module 'tfdistill.compress' has no attribute 'all'"):
        _ = compress.all
    assert not hasattr(compress, "all")


def test_a_module_is_imported_where_its_package_does_not(monkeypatch):
    monkeypatch.delattr(losses, "methods")
    monkeypatch.delitem(sys.modules, methods.__name__)
    find, _ = lazy_exports("tfdistill")
    assert find("methods").__name__ == methods.__name__


@pytest.mark.slow
def test_a_run_imports_only_what_it_uses():
    program = (
        "import sys, tfdistill.run, tfdistill.distillers\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    environment = {**os.environ, **processes.WITHOUT_KERAS_3}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_packages_of_the_reference_are_reached_after_import_tfdistill():
    pages = (ROOT / "docs" / "reference").glob("*.md")
    named = {n for p in pages for n in re.findall(r"^::: tfdistill\.(\w+)", p.read_text(), re.M)}
    assert named - set(dir(tfdistill)) == set()
    assert "adb" in dir(tfdistill.benchmark) and tfdistill.benchmark.adb.measure
