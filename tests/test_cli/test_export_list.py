"""tfdistill export --list: the quantizations, and what the sweep of a model is asked for."""

import json
import pathlib
import types

import pytest

import export
from export.trials.sweeping import Sweep
from tfdistill import cli
from tfdistill.commands import export_job
from tfdistill.results import Trial
from tfdistill.weights import folders

DATA = {
    "lengths": (8, 16),
    "check_on": "dev",
    "calibrate_on": "train",
    "texts": "texts",
    "task": "task",
    "labels": ("no", "yes"),
    "tokenizer": "of the model",
}


@pytest.fixture
def swept(monkeypatch, tmp_path_factory):
    """Stands in for the model and the sweep; returns what the sweep was asked for."""
    calls = {}
    source = types.SimpleNamespace(model="model")
    job = types.SimpleNamespace(source=source, allow_weak=False, options=lambda *, calibrate: DATA)

    def sweep(model, folder, names, *, measure, report, **arguments):
        calls.update(arguments, model=model, folder=folder, names=names, measure=measure)
        row = Trial(name="float16", verdict="good", size_bytes=1_500_000, sqnr_db=50.0)
        report(row)
        return Sweep(pathlib.Path(folder), (8, 16), (row,))

    run = tmp_path_factory.mktemp("work") / "runs" / "demo"
    run.mkdir(parents=True)
    (run / folders.DESCRIPTION).touch()
    monkeypatch.chdir(run.parents[1])
    monkeypatch.setattr(export_job, "open_job", lambda args: job)
    monkeypatch.setattr(export, "sweep", sweep, raising=False)
    return calls


def test_without_a_model_the_quantizations_are_listed(capsys):
    assert cli.main(["export", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)

    offered = export.quantizations()
    assert listed["quantizations"] == {name: value.summary for name, value in offered.items()}
    assert "LiteRT" in listed["refused"]["dynamic_wi2_afp32_block32"]
    assert cli.main(["export", "--list"]) == 0
    text = capsys.readouterr().out
    assert [name for name in (*offered, *listed["refused"]) if name not in text] == []
    assert "\nint8" in text and "\nint4" in text


def test_a_model_is_swept_with_its_data_and_shown_as_a_table(swept, capsys):
    command = "export runs/demo --list --out out --quantize float16,float32 --calibrate 50 --seed 3"
    assert cli.main([*command.split(), "--threads", "2"]) == 0
    captured = capsys.readouterr()

    assert captured.out.splitlines()[0].startswith("quantization")
    assert captured.out.splitlines()[2].split()[:2] == ["float16", "1.50"]
    assert captured.err.startswith("float16: good\n")
    measure = swept.pop("measure")
    assert measure.keywords == {"threads": 2}
    assert swept == {
        **DATA,
        "threads": 2,
        "allow_weak": True,
        "model": "model",
        "folder": "out",
        "names": ["float16", "float32"],
        "overwrite": False,
        "softmax": False,
        "num_calibration": 50,
        "seed": 3,
    }


def test_latency_can_be_left_out_and_rows_written_as_json(swept, capsys):
    assert cli.main("export runs/demo --list --out out --no-measure --json".split()) == 0

    assert swept["measure"] is None
    assert swept["names"] is None
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["name"], row["size_bytes"], row["verdict"]) == ("float16", 1_500_000, "good")


@pytest.mark.parametrize(
    "options, message",
    [
        ("runs/demo --list", "--out: expected a folder"),
        ("--list --out out", "model: expected a run or a model folder"),
        ("--out out", "model: expected a run or a model folder"),
        ("runs/demo --list --out out --max-drop 0.1", "--max-drop: expected no --list beside it"),
        ("runs/demo --list --out out --max-drop 0", "--max-drop: expected no --list beside it"),
        ("runs/demo --list --out out --size-mb 0", "--size-mb: expected no --list beside it"),
        ("runs/demo --list --out out --for gpu", "--for: expected no --list beside it"),
        ("runs/demo --list --out out --hf x", "--hf: expected no --list beside it"),
        ("runs/demo --threads 2", "--threads: expected --list too"),
        ("runs/demo --no-measure", "--measure: expected --list too"),
        ("runs/demo --list --out out --threads 0", "--threads: expected at least 1"),
        ("runs/demo --list --out out --calibrate 0", "--calibrate: expected at least 1"),
        ("runs/demo --list --out out --quantize float16,float23", "Did you mean 'float32'?"),
        ("runs/demo --list --out out --data-dir glue", "--data-dir: expected --task too"),
        ("runs/demo --text-column title", "--text-column: expected --task too"),
        ("runs/demo --max-length 64 --pair-column b", "--max-length: expected --task too"),
    ],
)
def test_misuse_is_told_before_the_model_is_opened(swept, capsys, options, message):
    assert cli.main(["export", *options.split()]) == 2
    assert message in capsys.readouterr().err
    assert swept == {}


def test_the_head_of_an_encoder_and_other_texts_for_promises_need_no_task(capsys):
    assert cli.main(["export", "runs/none", "--promise-on", "held.csv", "--kind", "embedding"]) != 0
    said = capsys.readouterr().err
    assert "runs/none" in said and "--task" not in said


def test_a_foreign_folder_is_refused_and_unchanged(swept, tmp_path, capsys):
    (tmp_path / "main.py").write_text("mine")
    for more in ([], ["--overwrite"]):
        command = ["export", "runs/demo", "--list", "--out", str(tmp_path), *more]
        assert cli.main(command) == 2
        assert str(tmp_path) in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["main.py"]
    assert swept == {}
