"""The papers' table of a phone: exported here, measured there, its figures called a phone's."""

import json

import pytest

from tfdistill import cli
from tfdistill.benchmark import result
from tfdistill.benchmark.adb import tool_backend

pytestmark = pytest.mark.slow


def test_a_toy_is_measured_on_a_phone_and_the_table_says_which(
    phone, binary, tmp_path, monkeypatch, capsys, left_on
):
    monkeypatch.setattr(tool_backend, "NUM_FEEDS", 2)
    daemon = phone("Pixel_8")
    options = "--scaled-down --models bert_base --quantize float32 --lengths 8 "
    options += "--threads 1 --runs 4 --warmup 1 --min-seconds 0 --repetitions 2 --device adb"
    where = ["--serial", daemon.serial, "--binary", binary.source]
    out = tmp_path / "table"
    assert cli.main(["table", *options.split(), *where, "--out", str(out), "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert (table["kind"], table["backend"]) == ("phone", "benchmark_model")
    (row,) = table["latencies"]
    assert row["p50_ms"] > 0 and row["n"] >= 8
    (name,) = table["measurements"]
    assert daemon.serial not in name
    assert result.read_result(out / name).kind == "phone"
    assert "on the phone" in (out / "table.md").read_text().splitlines()[0]
    assert left_on(daemon) == []
