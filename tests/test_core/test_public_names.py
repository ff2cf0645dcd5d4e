"""The names that `tfdistill` itself offers."""

import subprocess
import sys

import tfdistill
from tfdistill import distillers


def test_every_public_name_can_be_imported():
    for name in tfdistill.__all__:
        assert getattr(tfdistill, name) is not None, name


def test_every_distiller_is_among_them():
    classes = {name for name in distillers.__all__ if name.endswith(("Distiller", "Trainer"))}
    assert len(classes) == 12
    assert classes <= set(tfdistill.__all__)
    for name in classes:
        assert getattr(tfdistill, name) is getattr(distillers, name)


def test_the_package_imports_without_tensorflow():
    code = "import sys, tfdistill; print('tensorflow' in sys.modules, len(dir(tfdistill)) > 20)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "True"]
