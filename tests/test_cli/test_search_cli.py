"""tfdistill search, up to the device and the converter."""

import json

import pytest
import simulated_device

from tfdistill import cli, config, models, results
from tfdistill.benchmark import adb, host
from tfdistill.io import reading, work_folder
from tfdistill.search import measuring
from tfdistill.weights import hf_config

TEACHER = ("--teacher", "preset:bert_base")
SHORT = (*TEACHER, "--count", "3")


@pytest.fixture
def phone(monkeypatch):
    phone = simulated_device.Phone(noise=0.01)
    monkeypatch.setattr(measuring, "converter", lambda *_: phone.convert)
    monkeypatch.setattr(host, "compare", lambda models, settings: phone.measure(models, settings))
    monkeypatch.setattr(
        adb, "measure", lambda models, settings, **_: [phone.measure(models, settings)]
    )
    return phone


def search(*arguments):
    return cli.main(["search", *map(str, arguments)])


def test_it_writes_recipes_and_names_the_next_command(phone, tmp_path, capsys):
    out = tmp_path / "search"
    assert search("--latency-ms", 3, "--lengths", 64, "--out", out, *SHORT) == 0
    text = capsys.readouterr().out
    written = json.loads((out / "search.json").read_text())
    assert len(written["proposals"]) == len(list((out / "recipes").glob("*.yaml"))) == 3
    assert written["latency_ms"] == 3 and written["lengths"] == [64]
    next_command = text.strip().splitlines()[-1].removeprefix("next: tfdistill ").split()
    assert cli.main(next_command) == 0
    assert "valid" in capsys.readouterr().out


def test_json_is_the_result(phone, tmp_path, capsys):
    search("--latency-ms", 3, "--out", tmp_path, "--json", *SHORT)
    shown = json.loads(capsys.readouterr().out)
    assert shown == reading.read_json(tmp_path / "search.json")


def test_options_reach_the_device_and_the_recipes(phone, tmp_path, monkeypatch):
    measured = []

    def measure(models, settings):
        measured.append(settings)
        return phone.result(models, settings)

    monkeypatch.setattr(host, "compare", measure)
    options = "--threads 2 --affinity 3 --runs 7 --repetitions 4 --min-seconds 0 "
    options += "--task mrpc --quantize float32 --lengths 64,32"
    assert search("--latency-ms", 9, "--out", tmp_path, *options.split(), *SHORT) == 0
    assert {s.threads for s in measured} == {(2,)} and {s.lengths for s in measured} == {(32, 64)}
    assert measured[0].affinity == "3"
    assert (measured[0].runs, measured[0].repetitions, measured[0].min_seconds) == (7, 4, 0.0)
    recipe = config.load_recipe(str(next((tmp_path / "recipes").iterdir())))
    assert (recipe.teacher.source, recipe.data.task) == ("preset:bert_base", "mrpc")
    assert (recipe.export.quantize, recipe.benchmark.threads) == ("float32", (2,))


def test_one_phone_is_asked_through_adb(phone, tmp_path, monkeypatch, capsys):
    arguments = ["--device", "adb", "--serial", "abc", "--latency-ms", 3, "--out", tmp_path]
    assert search(*arguments, *SHORT) == 0
    assert phone.measured
    monkeypatch.setattr(adb, "measure", lambda *_, **__: ["one", "two"])
    assert search(*arguments[:-1], tmp_path / "two", *SHORT) == 1
    assert "--serial: expected one device, received 2" in capsys.readouterr().err


def test_an_impossible_budget_is_misuse_and_names_the_fastest(phone, tmp_path, capsys):
    assert search("--latency-ms", 0.001, "--out", tmp_path, *SHORT) == 2
    assert "The fastest is 1l_128d_" in capsys.readouterr().err


def test_an_earlier_result_is_kept(phone, tmp_path, capsys):
    with work_folder.WorkFolder(tmp_path, "search").open():
        (tmp_path / "search.json").write_text("{}")
    assert search("--latency-ms", 3, "--out", tmp_path, *TEACHER) == 2
    assert "--overwrite" in capsys.readouterr().err


def test_an_interrupted_search_says_that_it_is_kept(phone, tmp_path, capsys):
    phone.fails_at = 3
    assert search("--latency-ms", 3, "--out", tmp_path, *SHORT) == 130
    assert "kept" in capsys.readouterr().err
    assert list((tmp_path / "measurements").iterdir())


@pytest.mark.parametrize(
    "nonsense, fault",
    [
        (["--quantize", "static_wi8_ai8"], "without calibration"),
        (["--quantize", "int7"], "int7"),
        (["--serial", "x"], "--serial: expected --device adb"),
        (["--teacher", "who/knows"], "preset:NAME"),
        (["--teacher", "preset:mobilebert"], "a BERT, TinyBERT or DistilBERT"),
        (["--updates", "-1"], "--updates: expected at least 0"),
        (["--updates", "5"], "--updates: expected the task's files, received none"),
        (["--size-mb", "nan"], "size_mb"),
        (["--runs", "0"], "runs"),
        (["--threads", "0"], "--threads sets benchmark.threads."),
        (["--lengths", "1024"], "data.max_length: expected at most 512, received 1024"),
        (["--lengths", "2,64"], "--lengths sets export.lengths."),
    ],
)
def test_nonsense_is_refused_before_anything_is_measured(phone, tmp_path, capsys, nonsense, fault):
    assert search("--latency-ms", 3, "--out", tmp_path, *TEACHER, *nonsense) in (1, 2)
    assert fault in capsys.readouterr().err
    assert phone.calls == 0


@pytest.fixture
def teacher_run(tmp_path):
    """A run folder with the shape of a teacher and a task of two columns."""
    folder = tmp_path / "teacher"
    values = {
        "name": "intents",
        "data": {
            "task": "intents",
            "dir": str(tmp_path / "data"),
            "text_column": "text",
            "label_column": "intent",
            "max_length": 48,
        },
        "teacher": {"source": "preset:bert_base", "finetune": {}},
        "student": {"preset": "tinybert_4l_312d"},
        "stages": {"labels": {"kind": "labels"}},
        "variants": {"student": {"stages": ["labels"]}},
    }
    hf = folder / "teacher" / "model" / "hf"
    hf.mkdir(parents=True)
    (hf / "config.json").write_text(
        json.dumps(
            hf_config.format_config(
                models.preset("bert_base"), models.Head("sequence", 2), ("a", "b")
            )
        )
    )
    (folder / "recipe.yaml").write_text(config.dump_recipe(config.parse_recipe(values)))
    (tmp_path / "data").mkdir()
    rows = "".join(f"how do you {i % 2} {i}\t{'ab'[i % 2]}\n" for i in range(20))
    for split in ("train", "dev"):
        (tmp_path / "data" / f"{split}.tsv").write_text(f"text\tintent\n{rows}")
    return folder


@pytest.fixture
def distilled(monkeypatch):
    """What is distilled: (recipe, students, folder)."""
    from tfdistill import run

    calls = []

    def distil(recipe, students, out):
        calls.append((recipe, dict(students), out))
        return results.CandidateMetrics(
            task="intents",
            metric="accuracy",
            num_examples=20,
            teacher=0.9,
            students={name: 0.8 for name in students},
            within_chance=tuple(students),
        )

    monkeypatch.setattr(run, "distill_candidates", distil)
    return calls


def test_students_are_distilled_on_the_data_of_the_teacher_s_run(
    phone, teacher_run, distilled, tmp_path, capsys
):
    arguments = ["--teacher", teacher_run, "--latency-ms", 3, "--count", 3]
    assert search(*arguments, "--out", tmp_path / "out") == 0
    recipe, students, folder = distilled[-1]
    assert len(students) == 3 and distilled[0][1] == {}
    assert recipe.data.label_column == "intent" and recipe.data.max_length == 48
    assert recipe.stages["joint"].steps == 200
    assert folder.parent == tmp_path / "out" / "measurements"
    written = json.loads((tmp_path / "out" / "search.json").read_text())
    assert written["lengths"] == [48] and written["task"] == "intents"
    fastest = min(written["proposals"], key=lambda proposal: proposal["latency_ms"])
    assert capsys.readouterr().out.splitlines()[-1].endswith(fastest["recipe"])
    proposed = config.load_recipe(str(tmp_path / "out" / fastest["recipe"]))
    assert config.missing_inputs(proposed) == []
    assert proposed.data.text_column == "text"
    assert proposed.export.lengths is None  # the run takes those that fit its texts

    assert search(*arguments, "--updates", 70, "--out", tmp_path / "out", "--overwrite") == 0
    other = distilled[-1]
    assert other[0].stages["joint"].steps == 70
    assert other[2].parent == folder.parent and other[2] != folder  # not taken for the same
    assert search(*arguments, "--updates", 0, "--out", tmp_path / "none") == 0
    assert distilled[-1] is other
