"""A part of `scripts/fuzz`: the commands that need no TensorFlow, and files without training."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
from test_report import fake_run

ROOT = pathlib.Path(__file__).parents[2]
FUZZ = ROOT / "scripts" / "fuzzing"
sys.path.append(str(FUZZ))

import mutations  # noqa: E402
import undamaged  # noqa: E402

from tfdistill.io.files import atomic_write_json  # noqa: E402


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    undamaged._texts(folder)
    (folder / "text" / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
    fake_run.build(folder / "run")
    result = json.loads((folder / "run" / "benchmark.json").read_text())
    atomic_write_json(folder / "both.json", result)
    for ready in (folder, folder / "text"):
        (ready / undamaged.READY).touch()
    return folder


def fuzz(files, *arguments, path=None):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*(path or ()), str(ROOT)])}
    return subprocess.run(
        [sys.executable, str(FUZZ), "--files", str(files), *arguments],
        env=environment,
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_no_damaged_file_ends_a_command_that_reads_results_and_recipes(files):
    kinds = "recipe,sweep,result,measurement"
    done = fuzz(files, "--seed", "3", "--count", "20", "--kinds", kinds)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "20 cases, 0 faults" in done.stdout
    assert "recipe: refused (2)" in done.stdout and "measurement: refused (1)" in done.stdout


@pytest.mark.parametrize(
    ("broken", "fault"),
    [("raise ValueError", "recipe: traceback"), ("os.kill(os.getpid(), 11)", "recipe: signal 11")],
)
def test_a_traceback_and_a_signal_are_faults(files, tmp_path, broken, fault):
    code = f"import os\nfrom tfdistill import cli\ndef main(argv):\n    {broken}\ncli.main = main\n"
    (tmp_path / "sitecustomize.py").write_text(code)
    done = fuzz(files, "--count", "1", "--kinds", "recipe", path=[str(tmp_path)])
    assert done.returncode == 1 and "1 cases, 1 faults" in done.stdout, done.stdout + done.stderr
    assert fault in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "path", "last"),
    [
        ("sweep", "text/sweep.json", "1 cases, 1 faults"),
        ("recipe", "text/toy.yaml", "1 cases, 0 faults"),  # of a user's: another recipe
    ],
)
def test_damage_that_is_taken_with_another_result_is_a_fault(files, tmp_path, kind, path, last):
    code = (
        "import os\nfrom tfdistill import cli\n"
        f"content = lambda: os.path.isfile({path!r}) and open({path!r}, errors='replace').read()\n"
        "cli.main = lambda argv: print(content()) or 0\n"
    )
    (tmp_path / "sitecustomize.py").write_text(code)
    done = fuzz(files, "--seed", "4", "--count", "1", "--kinds", kind, path=[str(tmp_path)])
    assert last in done.stdout, done.stdout + done.stderr
    taken = "taken, with another result" if kind == "sweep" else "another input"
    assert f"{kind}: {taken}" in done.stdout


def test_a_case_is_decided_by_its_seed(tmp_path):
    import random

    outcomes = set()
    for _ in range(2):
        path = tmp_path / "a.json"
        path.write_text(json.dumps({"a": [1, {"b": "c"}]}))
        said = [mutations.damage(path, [path], random.Random("7:1"))]
        outcomes.add((*said, path.read_bytes() if path.is_file() else b""))
    assert len(outcomes) == 1
