"""A whole search over the real adb client: measured by the stand-in, cut off, and gone on with.

The files are one tiny model with more or less behind it: what they hold is tested elsewhere.
"""

import dataclasses
import json
import subprocess
import threading
import time

import pytest
import simulated_device
from adb_daemon import Daemon

from tfdistill import cli
from tfdistill.benchmark import result
from tfdistill.benchmark.adb import tool_backend
from tfdistill.commands import search as command
from tfdistill.search import estimating, measuring

pytestmark = pytest.mark.slow

SPACE = "--teacher preset:bert_tiny --lengths 8"
SEVERAL = ("--count", "6")  # of one, the teacher is the best, and nothing more is measured


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


def stored(folder):
    groups = [result.read_result(path) for path in folder.glob("*.json")]
    return {model.name for group in groups for model in group.models}


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


@pytest.mark.thorough
def test_a_phone_that_goes_offline_loses_a_group_and_the_search_goes_on(
    search, phone, adb, tmp_path, capsys
):
    daemon = phone("Pixel_8")
    runs, measurements = (
        daemon.path("/says/benchmark_model.runs"),
        tmp_path / "found" / "measurements",
    )

    def pull_the_cable():
        while not (measurements.is_dir() and any(measurements.glob("anchors-*.json"))):
            time.sleep(0.05)
        before = int(runs.read_text())
        while int(runs.read_text() or 0) < before + 5:
            time.sleep(0.05)
        daemon.lose()

    threading.Thread(target=pull_the_cable, daemon=True).start()
    code, converted = search(daemon, *SEVERAL)
    said = capsys.readouterr().err
    assert code == 1, said
    assert not (tmp_path / "found" / "search.json").exists()
    assert "the same command continues from there" in said
    assert f"adb -s {daemon.serial} shell rm -rf /data/local/tmp/tfdistill-" in said
    first = stored(measurements)
    assert first and first < set(converted)

    again = Daemon(daemon.root, model="Pixel_8")  # the same phone, at another address
    try:
        subprocess.run([adb, "connect", again.serial], check=True, capture_output=True, timeout=60)
        code, converted = search(again, *SEVERAL)
    finally:
        again.close()
    assert code == 0 and not first & set(converted)
    report = json.loads((tmp_path / "found" / "search.json").read_text())
    assert (
        {m["name"] for m in report["measurements"]}
        == first | set(converted)
        == stored(measurements)
    )


@pytest.mark.thorough
def test_a_phone_that_stays_warm_says_so_and_keeps_what_was_measured(
    search, phone, strike, tmp_path, capsys, monkeypatch
):
    impatient = dataclasses.replace(command._USUAL, cool_timeout_seconds=0, max_repeats=0)
    monkeypatch.setattr(command, "_USUAL", impatient)
    daemon = phone("Pixel_8")
    strike(daemon, "throttle", first=20)  # behind the anchors
    code, _ = search(daemon, *SEVERAL)
    said = capsys.readouterr().err
    assert code == 1 and "the device throttled (thermal status 2)" in said
    (measurements,) = (tmp_path / "found" / "measurements").iterdir()
    assert measurements.name.startswith("anchors-")
