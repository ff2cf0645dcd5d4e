"""Who only measures needs no TensorFlow: these packages raise where they are imported."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
ABSENT = (
    *("tensorflow", "keras", "tf_keras", "tensorflow_text", "official", "transformers"),
    *("tensorflow_model_optimization", "pandas", "pyarrow", "sklearn"),
    *(
        "huggingface_hub",
        "safetensors",
        "litert_quantizer",
        "jinja2",
        "markupsafe",
        "threadpoolctl",
    ),
)


@pytest.fixture
def run(tmp_path):
    """Runs a program, whose children lack the packages too."""
    for name in ABSENT:
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('{name} is not installed')\n")

    def call(*arguments):
        paths = os.pathsep.join([str(tmp_path), str(ROOT)])
        return subprocess.run(
            [sys.executable, *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": paths},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )

    return call


@pytest.mark.slow
def test_a_file_is_run_inspected_and_measured(run, tflite_files, export_folder):
    file = tflite_files / "fast.tflite"
    program = (
        "from tfdistill.tflite import TfliteModel\n"
        f"with TfliteModel({str(file)!r}, isolated=True) as model:\n"
        f"    print(model.predict([2, 5, 3]) == TfliteModel({str(file)!r}).predict([2, 5, 3]))"
    )
    done = run("-c", program)
    assert (done.returncode, done.stdout) == (0, "[ True  True  True]\n"), done.stderr
    done = run("-m", "tfdistill", "inspect", file)
    assert done.returncode == 0, done.stderr
    assert "XNNPACK partitions" in done.stdout
    quick = ("--runs", 4, "--min-seconds", 0, "--warmup", 1, "--repetitions", 1, "--lengths", 8)
    done = run("-m", "tfdistill", "benchmark", export_folder, *quick)
    assert done.returncode == 0, done.stderr
    assert "from text to answer" in done.stdout


def test_the_page_names_what_it_needs(run):
    page = (ROOT / "docs" / "guides" / "getting-started.md").read_text("utf-8")
    (line,) = re.findall(r"pip install (ai-edge-litert .*)", page)
    named = {re.split(r"[<>=\[]", part)[0].replace("-", "_") for part in line.split()}
    modules = {"pyyaml": "yaml", "ai_edge_litert": "ai_edge_litert.interpreter"}
    program = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    named -= {"jinja2", "threadpoolctl"}  # of predict and compare; measuring needs neither
    done = run("-c", program, *(modules.get(name, name) for name in named))
    assert done.returncode == 0, done.stderr
    assert named.isdisjoint(ABSENT)
