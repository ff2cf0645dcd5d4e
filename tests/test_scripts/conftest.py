"""The modules of scripts/benchmarks can be imported as the scripts there import them."""

import importlib
import pathlib
import sys

import pytest

SCRIPTS = pathlib.Path(__file__).parents[2] / "scripts"
sys.path.append(str(SCRIPTS / "benchmarks"))


@pytest.fixture
def script(monkeypatch):
    """The script for models in PyTorch."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module("answers_from_transformers")
