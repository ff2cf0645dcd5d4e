"""A whole search over the real adb client, measured by the stand-in.

The files are one tiny model with more or less behind it: what they hold is tested elsewhere.
"""

import dataclasses
import json

import pytest
import simulated_device

from tfdistill import cli
from tfdistill.benchmark.adb import tool_backend
from tfdistill.commands import search as command
from tfdistill.search import estimating, measuring

pytestmark = pytest.mark.slow

SPACE = "--teacher preset:bert_tiny --lengths 8"


@pytest.fixture
def search(monkeypatch, tflite_files, binary, tmp_path):
    """Runs `tfdistill search` on a phone, with little to measure; counts what is converted."""
    content = (tflite_files / "fast.tflite").read_bytes()
    converted = []

    def convert(candidate, path):
        converted.append(path.stem)
        more = simulated_device.stored_bytes(candidate.config, 8) // 100
        path.write_bytes(content + bytes(more))

    short = dataclasses.replace(command._USUAL, rounds=2)
    monkeypatch.setattr(command, "_USUAL", short)
    monkeypatch.setattr(estimating, "NUM_ANCHORS", 4)
    monkeypatch.setattr(measuring, "converter", lambda *_: convert)
    monkeypatch.setattr(tool_backend, "NUM_FEEDS", 2)

    def run(daemon, *more):
        converted.clear()
        arguments = [
            *SPACE.split(),
            "--latency-ms",
            "1000",
            "--count",
            "1",
            *("--warmup", "1", "--runs", "4", "--min-seconds", "0", "--repetitions", "1"),
        ]
        arguments += [
            "--out",
            str(tmp_path / "found"),
            "--device",
            "adb",
            "--binary",
            binary.source,
        ]
        code = cli.main(["search", *arguments, "--serial", daemon.serial, *more])
        return code, list(converted)

    return run


@pytest.mark.thorough
def test_a_search_measures_proposes_and_names_no_serial(search, phone, tmp_path, left_on, capsys):
    daemon = phone("Pixel_8")
    code, converted = search(daemon, "--json")
    said = capsys.readouterr()
    assert code == 0, said.err
    shown = json.loads(said.out)
    report = json.loads((tmp_path / "found" / "search.json").read_text())
    assert report.pop("checksum").startswith("sha256:")
    assert shown == report
    assert report["kind"] == "phone"
    assert report["device"]["name"] == "Google Pixel 8"
    assert len(converted) == len(set(converted)) and set(converted) == {
        m["name"] for m in report["measurements"]
    }
    assert all(m["p50_ms"]["8"] > 0 for m in report["measurements"])
    (proposal,) = report["proposals"]
    assert 0 < proposal["latency_ms"] < 1000
    recipe = (tmp_path / "found" / proposal["recipe"]).read_text()
    assert "on Google Pixel 8 (phone)" in " ".join(recipe.replace("#", "").split())
    for path in (tmp_path / "found").rglob("*.*"):
        assert daemon.serial not in path.read_text(), path
    assert left_on(daemon) == []
