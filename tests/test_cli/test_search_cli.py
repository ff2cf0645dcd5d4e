"""tfdistill search, up to the device and the converter."""

import json
import pathlib

import pytest
import simulated_device

from tfdistill import cli, config, models, results, work_folder
from tfdistill.search import bench, devices
from tfdistill.weights import hf_config

WEIGHTS = "model.safetensors"
SHORT = ("--quick", "--count", "3")


@pytest.fixture
def phone(monkeypatch):
    phone = simulated_device.Phone(noise=0.01)
    monkeypatch.setattr(bench, "converter", lambda form: phone.convert)
    monkeypatch.setattr(devices, "measure_on_host", phone.measure)
    monkeypatch.setattr(
        devices.MeasureOnPhone, "__call__", lambda self, *args: phone.measure(*args)
    )
    return phone


def search(*arguments):
    return cli.main(["search", *map(str, arguments)])


def test_it_writes_recipes_and_names_the_next_command(phone, tmp_path, capsys):
    out = tmp_path / "search"
    assert search("--latency-ms", 3, "--lengths", 64, "--out", out, *SHORT) == 0
    text = capsys.readouterr().out
    found = json.loads((out / "search.json").read_text())
    assert len(found["proposals"]) == len(list((out / "recipes").glob("*.yaml"))) == 3
    assert found["latency_ms"] == 3 and found["lengths"] == [64]
    next_command = text.strip().splitlines()[-1].removeprefix("next: tfdistill ").split()
    assert cli.main(next_command) == 0
    assert "valid" in capsys.readouterr().out


def test_json_is_the_result(phone, tmp_path, capsys):
    search("--latency-ms", 3, "--out", tmp_path, "--json", *SHORT)
    shown = json.loads(capsys.readouterr().out)
    assert shown == json.loads((tmp_path / "search.json").read_text())


def test_options_reach_the_device_and_the_recipes(phone, tmp_path, monkeypatch):
    asked = []

    def measure(models, settings):
        asked.append(settings)
        return phone.result(models, settings)

    monkeypatch.setattr(devices, "measure_on_host", measure)
    options = "--threads 2 --affinity 3 --delegates none --runs 7 --repetitions 4 --min-seconds 0"
    more = (
        "--distiller logits --blocks relu --task mrpc --teacher bert-large-cased --vocab-size 9000"
    )
    given = [*options.split(), *more.split(), "--lengths", "64,32"]
    assert search("--latency-ms", 9, "--out", tmp_path, *given, *SHORT) == 0
    assert {s.threads for s in asked} == {(2,)} and {s.lengths for s in asked} == {(32, 64)}
    assert (asked[0].affinity, asked[0].delegates) == ("3", ("none",))
    assert (asked[0].runs, asked[0].repetitions, asked[0].min_seconds) == (7, 4, 0.0)
    found = json.loads((tmp_path / "search.json").read_text())
    assert {p["kind"] for p in found["proposals"]} == {"relu"}
    assert {p["config"]["vocab_size"] for p in found["proposals"]} == {9000}
    text = next((tmp_path / "recipes").iterdir()).read_text()
    assert "bert-large-cased" in text and "mrpc" in text and "hidden_act: relu" in text


def test_a_phone_is_asked_through_adb(phone, tmp_path):
    given = ["--device", "adb", "--serial", "abc", "--latency-ms", 3, "--out", tmp_path]
    assert search(*given, *SHORT) == 0
    assert phone.measured


def test_an_impossible_budget_is_misuse_and_names_the_fastest(phone, tmp_path, capsys):
    assert search("--latency-ms", 0.001, "--out", tmp_path, *SHORT) == 2
    assert "The fastest is 2l_96d_12h_192f" in capsys.readouterr().err


def test_an_earlier_result_is_kept(phone, tmp_path, capsys):
    with work_folder.WorkFolder(tmp_path, "search").open():
        (tmp_path / "search.json").write_text("{}")
    assert search("--latency-ms", 3, "--out", tmp_path) == 2
    assert "--overwrite" in capsys.readouterr().err


def test_an_interrupted_search_says_that_it_is_kept(phone, tmp_path, capsys):
    phone.fails_at = 3
    assert search("--latency-ms", 3, "--out", tmp_path, *SHORT) == 130
    assert "kept" in capsys.readouterr().err
    assert list((tmp_path / "measurements").iterdir())


@pytest.mark.parametrize(
    "given, fault",
    [
        (["--quantize", "static_wi8_ai8"], "without calibration"),
        (["--quantize", "int7"], "int7"),
        (["--serial", "x"], "--serial: expected --device adb"),
        (["--teacher", "who/knows"], "--teacher-layers"),
        (["--vocab-size", "0"], "--vocab-size"),
        (["--blocks", "no_norm"], "kinds for tinybert"),
        (["--size-mb", "nan"], "size_mb"),
        (["--runs", "0"], "runs"),
        (["--lengths", "1024"], "lengths"),
    ],
)
def test_nonsense_is_refused_before_anything_is_measured(phone, tmp_path, capsys, given, fault):
    assert search("--latency-ms", 3, "--out", tmp_path, *given) in (1, 2)
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
def asked(monkeypatch):
    """What is distilled: (recipe, students, folder)."""
    from tfdistill import run

    found = []

    def distil(recipe, students, out):
        found.append((recipe, dict(students), out))
        return results.CandidateMetrics(
            task="intents",
            metric="accuracy",
            num_examples=20,
            teacher=0.9,
            students={name: 0.8 for name in students},
            within_chance=tuple(students),
        )

    monkeypatch.setattr(run, "distill_candidates", distil)
    return found


@pytest.mark.slow
def test_parts_of_a_run_s_teacher_are_distilled_on_its_data(
    phone, teacher_run, asked, tmp_path, capsys
):
    given = ["--distiller", "pruned", "--teacher", teacher_run, "--latency-ms", 3]
    assert search(*given, "--out", tmp_path / "out", *SHORT) == 0
    recipe, students, folder = asked[-1]
    assert len(students) == 3 and asked[0][1] == {}
    assert recipe.data.label_column == "intent" and recipe.data.max_length == 48
    assert recipe.stages["joint"].steps == 50  # --quick
    assert folder.parent == tmp_path / "out" / "measurements"
    found = json.loads((tmp_path / "out" / "search.json").read_text())
    assert found["lengths"] == [48] and found["task"] == "intents"
    fastest = min(found["proposals"], key=lambda proposal: proposal["measured_ms"])
    shown = capsys.readouterr().out
    assert shown.splitlines()[-1].endswith(fastest["recipe"]) and "report.html" in shown
    proposed = config.load_recipe(str(tmp_path / "out" / fastest["recipe"]))
    assert config.missing_inputs(proposed) == []
    assert proposed.data.text_column == "text"

    again = [*given, "--updates", 70, "--out", tmp_path / "again", *SHORT]
    assert search(*again, "--measurements", tmp_path / "out" / "measurements") == 0
    other = asked[-1]
    assert other[0].stages["joint"].steps == 70
    assert other[2].parent == folder.parent and other[2] != folder  # not taken for the same
    seen = {folder, other[2]}
    for changed in (tmp_path / "data" / "train.tsv", pathlib.Path(recipe.teacher.source, WEIGHTS)):
        changed.write_bytes(changed.read_bytes() + b"new text\ta\n" if changed.exists() else b"x")
        assert search(*given, "--out", tmp_path / "changed", "--overwrite", *SHORT) == 0
        other = asked[-1]
        assert other[0] == recipe and other[2].name not in {path.name for path in seen}
        seen.add(other[2])
    assert search(*given, "--updates", 0, "--out", tmp_path / "none", *SHORT) == 0
    assert asked[-1] is other and not (tmp_path / "none" / "report.html").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--updates", 5], "--updates: expected --distiller pruned"),
        (["--updates", -1], "--updates: expected at least 0"),
        (
            ["--updates", 5, "--distiller", "pruned", "--teacher", "preset:bert_base"],
            "--updates: expected the task's files, received none",
        ),
    ],
)
def test_updates_without_what_they_need_are_refused(phone, tmp_path, capsys, given, said):
    assert search("--latency-ms", 3, "--out", tmp_path / "out", *given, *SHORT) == 2
    assert said in capsys.readouterr().err
    assert not phone.calls
