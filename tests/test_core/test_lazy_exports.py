"""Public names, and packages that import what they offer when it is first used."""

import pathlib
import re
import subprocess
import sys

import pytest

import tfdistill
from tfdistill import compress, distillers, losses
from tfdistill.io import processes
from tfdistill.lazy_exports import lazy_exports
from tfdistill.losses import methods

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEAVY = (
    *("keras", "sklearn", "tensorflow_model_optimization"),
    *("scipy.optimize", "scipy.stats", "google.api_core"),
)


def test_an_unknown_name_is_refused_and_a_module_imported_where_its_package_does_not(monkeypatch):
    with pytest.raises(AttributeError, match=r"module 'tfdistill.compress' has no attribute 'all'"):
        _ = compress.all
    assert not hasattr(compress, "all")
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
    environment = processes.child_environment()
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_every_public_name_distiller_and_package_of_the_reference_is_reached():
    for name in tfdistill.__all__:
        assert getattr(tfdistill, name) is not None, name
    classes = {name for name in distillers.__all__ if name.endswith(("Distiller", "Trainer"))}
    assert len(classes) == 10
    assert classes <= set(tfdistill.__all__)
    for name in classes:
        assert getattr(tfdistill, name) is getattr(distillers, name)
    pages = (ROOT / "docs" / "reference").glob("*.md")
    named = {n for p in pages for n in re.findall(r"^::: tfdistill\.(\w+)", p.read_text(), re.M)}
    assert named - set(dir(tfdistill)) == set()
    assert "adb" in dir(tfdistill.benchmark) and tfdistill.benchmark.adb.measure


@pytest.mark.parametrize("name", ["export.py", "export/__init__.py"])
def test_a_module_that_hides_the_package_export_is_refused_by_name(name, tmp_path):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("to_tflite = None\n")
    code = f"import sys; sys.path.insert(1, {str(ROOT)!r}); import tfdistill"
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, cwd=tmp_path, env={}, capture_output=True, text=True)
    assert run.returncode == 1
    last = run.stderr.splitlines()[-1]
    assert f"received {tmp_path / name}" in last and "Rename" in last


def test_a_folder_of_files_called_export_hides_nothing(tmp_path):
    (tmp_path / "export").mkdir()
    code = f"import sys; sys.path.insert(1, {str(ROOT)!r}); import tfdistill, export"
    code += "; print(export.__all__)"
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, cwd=tmp_path, env={}, capture_output=True, text=True)
    assert "to_tflite" in run.stdout, run.stderr
