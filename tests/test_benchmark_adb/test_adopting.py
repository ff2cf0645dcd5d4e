"""What the app measured on a device farm is taken over, and nothing that is about another file."""

from __future__ import annotations

import copy
import json
import pathlib

import pytest

from tfdistill import cli, errors
from tfdistill.benchmark import adb, result
from tfdistill.io import files

BUNDLES = pathlib.Path(__file__).parents[2] / "android_demo/text/src/test/resources/bundles"
PAIRS = BUNDLES / "pairs-float32"
CARD = json.loads((PAIRS / "model.json").read_bytes())
NOW = "2026-11-22T12:00:00Z"


def row(length, repetition, **more):
    state = {"time": NOW, "thermal_status": 0, "battery_percent": 80.0}
    return {
        "model": "pairs-float32",  # as the app calls it
        "sequence_length": length,
        "threads": 2,
        "delegate": "xnnpack",
        "signature": f"len{length}",
        "repetition": repetition,
        "samples_ms": [length / 10 + i / 1000 for i in range(20)],
        "block_runs": 10,
        "cold_start_ms": 900.0,
        "before": state,
        "after": state,
        **more,
    }


@pytest.fixture
def written():
    """benchmark.json as the app writes it: without a summary."""
    card = CARD["model"]
    model = {
        "name": "pairs-float32",
        "file": "pairs-float32/model.tflite",
        "sha256": card["sha256"],
        "size_bytes": card["size_bytes"],
        "quantization": "float32",
        "manifest": CARD,
        "inputs": {"source": "golden", "num_examples": 12},
    }
    return {
        "format_version": 2,
        "kind": "phone",
        "backend": "app",
        "created": NOW,
        "tfdistill_version": "0.1.0",
        "command": ["io.github.tfdistill.demo"],
        "settings": {"threads": [2], "lengths": [16, 24], "delegates": ["xnnpack"], "seed": 0},
        "device": {"name": "Maker Phone", "fingerprint": "maker/phone:15", "cores_logical": 8},
        "runtime": {"name": "io.github.tfdistill.demo", "version": "1.0", "build": "release"},
        "models": [model],
        "measurements": [row(length, n) for n in range(2) for length in (16, 24)],
        "sustained": [{"model": "pairs-float32", "windows": [{"start_s": 0.0, "p50_ms": 3.0}]}],
        "notes": ["a note of the app"],
    }


@pytest.fixture
def adopt(tmp_path):
    def run(content, models=(PAIRS,)):
        path = tmp_path / "benchmark.json"
        files.atomic_write_json(path, content)
        (adopted,) = adb.adopt([path], models)
        return adopted

    return run


def test_an_adopted_result_is_completed_and_keeps_the_heat_that_the_app_saw(written, adopt):
    adopted = adopt(written)
    assert [model.name for model in adopted.models] == [CARD["name"]]
    assert {r.model for r in adopted.measurements} == {CARD["name"]}
    assert {(s.sequence_length, s.n) for s in adopted.summary} == {(16, 40), (24, 40)}
    assert adopted.settings["adopted"] == "device farm"
    assert adopted.notes[0] == "a note of the app" and "without the harness" in adopted.notes[1]
    # 0 is what Android says of a device without a sensor, too.
    assert adopted.measurements[0].before.thermal_status is None
    assert adopted.measurements[0].before.battery_percent == 80.0
    assert {r.cold_start_ms for r in adopted.measurements} == {None}  # of the test's runner, too
    assert result.complete(adopted) == adopted
    written["measurements"][3]["after"] = {"time": NOW, "thermal_status": 3}
    adopted = adopt(written)
    last = next(r for r in adopted.measurements if r.after.thermal_status == 3)
    assert last.before.thermal_status == 0
    assert any(s.throttled for s in adopted.summary)


def edit(content, path, value):
    *parents, last = path
    for key in parents:
        content = content[key]
    content[last] = value


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (["models", 0, "sha256"], "a" * 64, r"result of .*received one of pairs-float32 \(a{64}\)"),
        (["format_version"], 3, "format_version 2, received format_version 3"),
        (["surprise"], 1, "format_version 2, received surprise"),
        (["backend"], "litert", "wrote by itself, about one model, received one of litert"),
        (["device", "id"], "0" * 12, "received one of tfdistill itself.*need no --adopt"),
        (["measurements"], [], "measurements with one delegate"),
        (["measurements", 0, "delegate"], "gpu", "one delegate, received .*gpu.*xnnpack"),
        (["measurements", 0, "sequence_length"], 17, r"lengths of \[16, 24\], received \[17\]"),
        (["measurements", 0, "repetition"], 1, "received several repetitions"),
        (["measurements", 0, "threads"], 4, r"none at 24 tokens on 4 thread"),
        (["settings", "threads"], [1, 2], r"none at 16 tokens on 1 thread"),
        (["measurements"], [row(16, 0), row(16, 1)], r"none at 24 tokens on 2 thread"),
        (["measurements", 0, "samples_ms"], [0.0], "more than 0 ms"),
        (
            ["measurements"],
            [row(n, 0, delegate="gpu") for n in (16, 24)],
            "fast and wrong",
        ),
    ],
)
def test_another_file_format_or_case_is_refused(written, adopt, path, value, expected):
    edit(written, path, value)
    with pytest.raises(errors.BenchmarkError, match=expected):
        adopt(written)


def test_each_result_finds_its_own_model(written, adopt, tmp_path):
    adopted = adopt(written, [BUNDLES / "tags-float32", PAIRS])
    assert adopted.models[0].sha256 == CARD["model"]["sha256"]
    (tmp_path / "benchmark.json").write_text("{")
    with pytest.raises(errors.BenchmarkError):
        adb.adopt([tmp_path / "benchmark.json"], [PAIRS])


def test_the_command_writes_what_report_and_compare_read(written, tmp_path, capsys):
    slower = copy.deepcopy(written)
    for r in slower["measurements"]:
        r["samples_ms"] = [2 * ms for ms in r["samples_ms"]]
    farm = [tmp_path / name for name in ("a.json", "b.json")]
    for path, content in zip(farm, (written, slower), strict=True):
        files.atomic_write_json(path, content)
    out = tmp_path / "farm.json"
    assert cli.main(["benchmark", str(PAIRS), "--adopt", *map(str, farm), "--out", str(out)]) == 0
    assert "without the harness" in capsys.readouterr().out
    first, second = (tmp_path / f"farm-unknown{number}.json" for number in ("", "-1"))
    assert cli.main(["report", str(first), str(second), "--out", str(tmp_path / "page")]) == 0
    (page,) = (tmp_path / "page").rglob("*.html")
    assert "app, device farm" in page.read_text()
    capsys.readouterr()
    cli.main(["compare", str(first), str(second)])
    assert "slower" in capsys.readouterr().out


def test_options_of_a_measurement_are_refused(written, tmp_path, capsys):
    path = tmp_path / "a.json"
    files.atomic_write_json(path, written)
    options = ["--adopt", str(path), "--runs", "7", "--cool-down", "2"]
    assert cli.main(["benchmark", str(PAIRS), *options]) == 2
    said = capsys.readouterr().err
    assert "--runs: expected none with --adopt" in said and "--cool-down: expected none" in said
    assert cli.main(["benchmark", str(PAIRS), "--adopt", str(tmp_path / "absent.json")]) == 2
    assert "--adopt: expected an existing path" in capsys.readouterr().err


def test_a_phone_has_a_card_of_what_the_app_wrote_on_it_alone(written, tmp_path, capsys):
    ms = [9.0 + i / 10 for i in range(12)]
    texts = {"model": "pairs-float32", "threads": 2, "delegate": "xnnpack", "repetition": 0}
    texts |= {"tokenizer_ms": ms, "samples_ms": ms}
    written["texts"] = [texts, {**texts, "words": 16, "tokens": 40}]
    path, out = tmp_path / "app.json", tmp_path / "card.md"
    files.atomic_write_json(path, written)
    command = ["benchmark", str(PAIRS), "--adopt", str(path), "--card", str(out)]
    assert cli.main(command) == 0
    page = out.read_text()
    assert page.startswith("# Latency on Maker Phone\n\nphone: Maker Phone; measured by")
    assert "9.550 (p90 9.990; 40 tokens, cut at 24)" in page
    assert page.count("| not measured") == 2
    out.unlink()
    written["kind"] = "emulator"
    files.atomic_write_json(path, written)
    assert cli.main([*command, "--out", str(tmp_path / "a.json")]) == 1
    assert "A simulated device gets no card" in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["app.json"]
