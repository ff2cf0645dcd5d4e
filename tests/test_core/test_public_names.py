"""The names that `tfdistill` itself offers."""

import pathlib
import subprocess
import sys

import pytest

import tfdistill
from tfdistill import distillers


def test_every_public_name_can_be_imported():
    for name in tfdistill.__all__:
        assert getattr(tfdistill, name) is not None, name


def test_every_distiller_is_among_them():
    classes = {name for name in distillers.__all__ if name.endswith(("Distiller", "Trainer"))}
    assert len(classes) == 10
    assert classes <= set(tfdistill.__all__)
    for name in classes:
        assert getattr(tfdistill, name) is getattr(distillers, name)


def test_the_package_imports_without_tensorflow():
    code = "import sys, tfdistill; print('tensorflow' in sys.modules, len(dir(tfdistill)) > 20)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "True"]


@pytest.mark.parametrize("name", ["export.py", "export/__init__.py"])
def test_a_module_that_hides_the_package_export_is_refused_by_name(name, tmp_path):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("to_tflite = None\n")
    root = pathlib.Path(tfdistill.__file__).parents[1]
    code = f"import sys; sys.path.insert(1, {str(root)!r}); import tfdistill"
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, cwd=tmp_path, env={}, capture_output=True, text=True)
    assert run.returncode == 1
    last = run.stderr.splitlines()[-1]
    assert f"received {tmp_path / name}" in last and "Rename" in last


def test_a_folder_of_files_called_export_hides_nothing(tmp_path):
    (tmp_path / "export").mkdir()
    root = pathlib.Path(tfdistill.__file__).parents[1]
    code = f"import sys; sys.path.insert(1, {str(root)!r}); import tfdistill, export"
    code += "; print(export.__all__)"
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, cwd=tmp_path, env={}, capture_output=True, text=True)
    assert "to_tflite" in run.stdout, run.stderr
