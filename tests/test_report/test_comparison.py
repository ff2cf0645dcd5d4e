import csv
import json
import os

import pytest
from test_report import fake_results, page_reading
from test_report.page_reading import text_of

from tfdistill import report
from tfdistill.report.collection import NamedSweep
from tfdistill.results import SweepResults

HOSTILE = "<script>alert('x')</script>\"&|`*_\x00=1+1"


def test_hostile_names_stay_text_in_page_markdown_and_csv(tmp_path):
    fr = fake_results
    model = fr.model("x")
    value = fr.result(
        [model],
        kind="phone",
        device={**fr.PHONE, "name": HOSTILE, "soc": HOSTILE},
        runtime={"name": HOSTILE, "version": HOSTILE},
        notes=[HOSTILE],
        failures=[{"what": HOSTILE, "error": HOSTILE}],
    )
    text = json.dumps(value).replace('"x"', json.dumps(HOSTILE))
    text = text.replace("FULLY_CONNECTED", json.dumps(HOSTILE)[1:-1])
    text = text.replace('"sst2"', json.dumps(HOSTILE))
    (tmp_path / "r.json").write_text(text)
    html, markdown = report.write_comparison([tmp_path / "r.json"], tmp_path / "out")
    page = html.read_text(encoding="utf-8")
    tree = page_reading.tree_of(page)
    assert "<script" not in page and page_reading.requests_of(page) == []
    assert page_reading.faults_of(tree) == []
    assert "alert('x')" in text_of(tree)
    assert "<script" not in markdown.read_text(encoding="utf-8")
    written = (tmp_path / "out" / "report-tables" / "device-1-failures.csv").read_text("utf-8")
    assert list(csv.reader(written.splitlines()))[1][0].startswith("<script>")


def test_a_folder_whose_name_is_no_utf8_is_reported(tmp_path):
    for folder in ("a", os.fsdecode(b"bad\xff")):
        (tmp_path / folder).mkdir()
        result = fake_results.result([fake_results.model("m")])
        (tmp_path / folder / "benchmark.json").write_text(json.dumps(result))
    page, text = report.write_comparison([tmp_path], tmp_path / "out")
    for file in (page, text, tmp_path / "out" / "report-tables" / "device-1-latency.csv"):
        assert "m (bad\ufffd)" in file.read_text(encoding="utf-8")


def small_page(results):
    """What a page of results holds, and its tree: it stays small whatever it holds."""
    content = report.build(fake_results.collected(results))
    page = report.render_html(content)
    assert len(page.encode()) < 2_000_000
    tree = page_reading.tree_of(page)
    assert page_reading.faults_of(tree) == []
    return content, tree


@pytest.mark.slow
def test_long_names_and_hundreds_of_results_keep_the_page_small():
    fr = fake_results
    name = "very_long_name_" * 12
    models = [
        fr.model(f"{name}{i}", number=i + 1, p50_ms=1.0 + i, accuracy=0.5 + i / 99)
        for i in range(30)
    ]
    for model in models:
        model.p50_ms.update({n: model.p50_ms[128] * n / 128 for n in (16, 32, 48, 64, 96)})
    value = fr.result(models, threads=(1, 2, 4))
    for row in value["measurements"]:
        row["samples_ms"] = row["samples_ms"] * 3
    content, tree = small_page({f"result {i}": value for i in range(3)})
    (table,) = [t for t in content.tables() if t.key == "device-1-latency"]
    assert len(table.rows) == 3 * 30 * 6 * 3
    assert "more rows are in report-tables/device-1-latency.csv" in text_of(tree)


@pytest.mark.slow
def test_forty_devices_keep_the_page_small():
    fr = fake_results
    models = [fr.model(f"file {i}", number=i + 1, p50_ms=1.0 + i) for i in range(8)]
    for model in models:
        model.p50_ms.update({32: 1.0, 64: 2.0})
    value = fr.result(models, kind="phone")
    devices = {f"r{i}": {**value, "device": {"name": f"Phone {i}"}} for i in range(40)}
    content, _ = small_page(devices)
    assert len(content.sections) == 40
    assert "Its charts are left out" in content.sections[-1].intro
    assert "Its charts" not in content.sections[0].intro


@pytest.mark.parametrize("rows", [[], [{"name": "float32", "verdict": "good"}]])
def test_a_sweep_without_figures_makes_a_page(rows):
    sweep = SweepResults.model_validate({"format_version": 1, "rows": rows})
    value = report.build(report.Collection((), (NamedSweep("s", sweep),)))
    assert page_reading.faults_of(page_reading.tree_of(report.render_html(value))) == []


def test_synthetic_data_and_unmeasured_runs_are_said():
    results = {"demo": fake_results.result([fake_results.model("m")])}
    collection = fake_results.collected(results, synthetic=("demo",), unmeasured=("new",))
    value = report.build(collection)
    assert value.synthetic
    said = " ".join(value.limits)
    assert "demo: the data is synthetic" in said and "new: not measured" in said
