"""No command changes a file that tfdistill did not write, whatever flags it gets."""

import argparse
import os
import pathlib

import pytest

from tfdistill import cli

OUTPUTS = ("--out", "--saved-model", "--hf")
# The positional arguments and required options of each command that writes, as paths in `inputs`.
INPUTS = {
    "answers": ["model", "--task", "sst2", "--data-dir", "data"],
    "data augment": "--masked-lm model --task sst2 --data-dir data".split(),
    "compress": ["model", "--task", "sst2", "--data-dir", "data"],
    "data prepare": ["text.txt", "--vocab", "vocab.txt"],
    "data vocab": ["text.txt"],
    "demo": [],
    "benchmark": ["model"],
    "distill": "--teacher model --student tinybert_4l_312d --task sst2 --data-dir data".split(),
    "export": ["model"],
    "finetune": ["model", "--task", "sst2", "--data-dir", "data"],
    "index": ["text.csv", "--model", "model"],
    "pretrain": ["bert_tiny", "--corpus", "text.txt"],
    "quickstart": ["--teacher", "model", "--data", "text.csv"],
    "report": ["model"],
    "run": ["recipe.yaml"],
}


def writers(parser, name=""):
    """Yields each command with an option for an output, its name and these options."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child, sub in action.choices.items():
                yield from writers(sub, f"{name} {child}".strip())
    flags = [flag for action in parser._actions for flag in action.option_strings]
    outputs = [flag for flag in OUTPUTS if flag in flags]
    if outputs:
        yield name, outputs, [flag for flag in ("--overwrite", "--resume") if flag in flags]


CASES = [
    pytest.param(name, output, flag, id=f"{name} {output} {flag}".strip())
    for name, outputs, flags in writers(cli.parser())
    for output in outputs
    for flag in ("", *flags)
]


def foreign(folder):
    """A git repository with what commands of ours write, by their names."""
    for name in (
        *(".git/HEAD", "src/main.py", "data/train.tsv", "report-tables/mine.csv", "report.md"),
        *("report.html", "recipe.yaml", "model.json", "vocab.txt", "labels.txt", "golden.json"),
        *("model.tflite", "saved_model.pb", "metadata.json", "model.safetensors"),
        *("recipes/mine.yaml", "sweep.json", "float32/model.tflite", "request.json", "files/a"),
        *("pretraining.json", "augmentation.json", "train.tsv", "parts-1/a", "manifest.json"),
        *("corpus.json", "part-00001.tfrecord", "index.json", "metrics.json", "README.md"),
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("name: demo\n" if name == "recipe.yaml" else f"the user's {name}")
    return folder


def content(folder):
    """Every file, folder and link below a folder with its bytes."""
    listed = {}
    for path in sorted(pathlib.Path(folder).rglob("*")):
        held = (
            os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else ""
        )
        listed[str(path.relative_to(folder))] = held
    return listed


@pytest.fixture
def inputs(tmp_path, monkeypatch):
    folder = tmp_path / "inputs"
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "config.json").write_text('{"model_type": "bert"}')
    (folder / "data").mkdir()
    for name in ("text.txt", "vocab.txt", "text.csv", "data/train.tsv", "data/dev.tsv"):
        (folder / name).write_text("text,label\na,b\n")
    assert cli.main(["recipes", "cp", "demo", str(folder / "recipe.yaml")]) == 0
    monkeypatch.chdir(folder)
    return folder


def test_every_command_that_writes_has_a_case():
    assert {name for name, *_ in writers(cli.parser())} == INPUTS.keys()


@pytest.mark.parametrize(("name", "output", "flag"), CASES)
def test_a_foreign_folder_is_refused_and_unchanged(name, output, flag, inputs, tmp_path, capsys):
    out = foreign(tmp_path / "out")
    before = content(tmp_path)
    command = [*name.split(), *INPUTS[name], output, str(out), *([flag] if flag else [])]
    assert cli.main(command) == 2, capsys.readouterr().err
    assert str(out) in capsys.readouterr().err
    assert content(tmp_path) == before


@pytest.mark.parametrize("flag", ["", "--resume", "--overwrite"])
@pytest.mark.parametrize("place", [".", "..", "model", "~", "link"])
def test_an_input_its_parents_and_a_link_to_them_are_refused(
    place, flag, inputs, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("HOME", str(inputs))
    (tmp_path / "link").symlink_to(inputs)
    before = content(tmp_path)
    out = {"~": "~", "link": str(tmp_path / "link")}.get(place, place)
    command = ["run", "recipe.yaml", f"--out={out}", *([flag] if flag else [])]
    assert cli.main(command) == 2
    assert "received a folder with other files" in capsys.readouterr().err
    assert content(tmp_path) == before


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("place", ["/proc/out", "inputs/text.txt/out", "inputs/dangling/out"])
def test_an_output_that_cannot_be_written_is_refused_before_the_work(
    name, place, inputs, tmp_path, capsys
):
    (inputs / "dangling").symlink_to(tmp_path / "nothing")
    before = content(tmp_path)
    suffix = {"answers": "/a.jsonl", "benchmark": "/a.json", "data vocab": "/v.txt"}.get(name, "")
    out = str(tmp_path / place) + suffix
    assert cli.main([*name.split(), *INPUTS[name], "--out", out]) == 2, capsys.readouterr().err
    assert out in capsys.readouterr().err
    assert content(tmp_path) == before
