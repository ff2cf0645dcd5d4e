"""The papers' table of a phone: exported here, measured there, its figures called a phone's."""

import json
import pathlib
import sys

import pytest

from tfdistill.benchmark import result
from tfdistill.benchmark.adb import tool_backend

sys.path.append(str(pathlib.Path(__file__).parents[2] / "scripts" / "benchmarks"))

import papers_table

pytestmark = pytest.mark.slow


@pytest.mark.thorough
def test_a_toy_is_measured_on_a_phone_and_the_table_says_which(
    phone, binary, tmp_path, monkeypatch, left_on
):
    monkeypatch.setattr(tool_backend, "NUM_FEEDS", 2)
    daemon = phone("Pixel_8")
    options = "--scaled-down --models bert_base --quantize float32 --lengths 8 "
    options += "--threads 1 --runs 4 --warmup 1 --min-seconds 0 --repetitions 2 --device adb"
    where = ["--serial", daemon.serial, "--binary", binary.source]
    out = tmp_path / "table"
    assert papers_table.main([*options.split(), *where, "--out", str(out)]) == 0
    table = json.loads((out / "table.json").read_text())
    assert (table["kind"], table["backend"]) == ("phone", "benchmark_model")
    (row,) = table["latencies"]
    assert row["p50_ms"] > 0 and row["n"] >= 8
    (name,) = table["measurements"]
    assert daemon.serial not in name
    assert result.read_result(out / name).kind == "phone"
    assert "on the phone" in (out / "table.md").read_text().splitlines()[0]
    assert left_on(daemon) == []
