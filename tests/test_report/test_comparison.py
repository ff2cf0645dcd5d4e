import csv
import json
import os

import page_reading
import pytest
from page_reading import HTML, of_class, pictures_of, table_of, text_of

from tfdistill import report
from tfdistill.benchmark import schema
from tfdistill.report.collection import NamedSweep
from tfdistill.report.devices import NamedResult
from tfdistill.results import SweepResults

HOSTILE = "<script>alert('x')</script>\"&|`*_\x00=1+1"


@pytest.fixture
def pages(fake_results):
    """Everything that the page of some results is made of: (content, page, its tree)."""

    def make(sweeps=(), **results):
        named = tuple(
            NamedResult(label, schema.Result.model_validate(value))
            for label, value in results.items()
        )
        swept = tuple(NamedSweep(f"sweep {i}", s) for i, s in enumerate(sweeps))
        value = report.build(report.Collection(named, swept))
        page = report.render_html(value)
        return value, page, page_reading.tree_of(page)

    return make


@pytest.fixture
def many(fake_results):
    """A host's result, two of one phone, and one of an emulated device, with everything in them."""
    fr = fake_results
    models = [
        fr.model("small", number=1, p50_ms=2.0, accuracy=0.88, size_bytes=5_000_000),
        fr.model("large", number=2, p50_ms=20.0, accuracy=0.92, size_bytes=50_000_000),
        fr.model("bad", number=3, p50_ms=22.0, accuracy=0.87, size_bytes=51_000_000),
    ]
    for model in models:
        model.p50_ms[32] = model.p50_ms[128] / 5
    phone = fr.result(
        models,
        kind="phone",
        backend="benchmark_model",
        blocks=True,
        threads=(1, 4),
        answers=[fr.answers("small", 0.87)],
        failures=[{"what": "large, GPU", "error": "delegate: expected all, received 3 of 208."}],
    )
    gpu = fr.result(models, kind="phone", backend="benchmark_model", blocks=True, delegate="gpu")
    gpu["summary"][0]["throttled"] = True
    host = fr.result(
        models,
        threads=(1, 2),
        comparisons=True,
        texts=True,
        operators=[fr.operators("small")],
        notes=["Load average 3."],
    )
    emulator = fr.result(models[:1], kind="emulator", backend="benchmark_model")
    return {"phone": phone, "phone_gpu": gpu, "emulator": emulator, "host": host}


SWEEP = SweepResults.model_validate(
    {
        "format_version": 1,
        "rows": [
            {
                "name": name,
                "verdict": "good",
                "size_bytes": size,
                "p50_ms": {"128": latency},
                "busy_lengths": [128] if name == "float32" else [],
                "file_metrics": {"accuracy": accuracy},
                "primary_metric": "accuracy",
            }
            for name, size, latency, accuracy in [
                ("float32", 50_000_000, 5.0, 0.9),
                ("dynamic_wi8_afp32", 14_000_000, 2.0, 0.89),
            ]
        ],
    }
)


def test_each_device_has_a_section_of_its_own_and_no_table_holds_two(pages, many):
    value, _, tree = pages([SWEEP], **many)
    assert [section.title for section in value.sections] == [
        "Host: Example 9000 Processor",
        "Emulated device: sdk_gphone64",
        "Phone: Example Phone 8",
        "Host: sweep sweep 0",
    ]
    results_of = {
        table.key: {row.head.text for row in table.rows}
        for section in value.sections
        for part in section.parts
        for table in part.tables
        if table.key.endswith("conditions")
    }
    assert results_of == {
        "device-1-conditions": {"host"},
        "device-2-conditions": {"emulator"},
        "device-3-conditions": {"phone", "phone_gpu"},
    }
    headings = [text_of(h) for h in tree.iter(HTML + "h2")]
    assert headings[:-1] == [section.title for section in value.sections]
    rows = table_of(tree, "device-1-tradeoff-1-table")
    assert [row[0] for row in rows[1:]] == ["small", "large", "bad"]


def test_the_page_stands_up_to_keyboard_and_screen_reader_and_asks_for_nothing(pages, many):
    _, page, tree = pages([SWEEP], **many)
    assert page_reading.faults_of(tree) == []
    assert page_reading.requests_of(page) == []
    # Host: accuracy twice, lengths. Emulator: lengths (one file is no choice). Phone: accuracy
    # twice, lengths. Sweep: accuracy twice.
    assert len(pictures_of(tree)) == 3 + 1 + 3 + 2


def test_the_front_is_marked_in_chart_table_and_words(pages, many):
    _, _, tree = pages(host=many["host"])
    rows = {row[0]: row[-1] for row in table_of(tree, "device-1-tradeoff-1-table")[1:]}
    assert rows == {"small": "yes", "large": "yes", "bad": "no"}
    marks = {text_of(e): e.get("class") for e in of_class(tree, "point") if text_of(e)}
    assert marks == {"small": "point s4 on", "large": "point s5 on", "bad": "point s6"}
    assert "2 of 3 are on the Pareto front of accuracy, latency and size" in text_of(
        next(tree.iter(HTML + "h1"))
    )


def test_blocks_and_throttling_and_failures_are_said(pages, many):
    _, _, tree = pages(phone=many["phone"], phone_gpu=many["phone_gpu"])
    page = text_of(tree)
    assert "no single durations" in page
    assert any("in blocks" in row[-1] for row in table_of(tree, "device-1-latency"))
    assert "small, GPU" in page and "throttled" in page
    assert "its thermal status was raised, or latency rose" in page
    assert "Cold start" not in page  # the tool tells none
    assert table_of(tree, "device-1-start")[0][2:] == [
        "Opening the file, ms",
        "First inference, ms",
        "Peak memory, MB",
    ]
    assert table_of(tree, "device-1-failures")[1] == [
        "large, GPUphone",
        "delegate: expected all, received 3 of 208.",
    ]


def test_a_host_that_slowed_down_is_not_called_hot(pages, many):
    host = many["host"]
    host["summary"][0]["throttled"] = True
    page = text_of(next(pages(host=host)[2].iter(HTML + "main")))
    assert "usually because something else ran" in page
    assert "thermal" not in page and " hot " not in page


def test_faster_is_said_only_of_files_that_took_turns_and_only_where_the_interval_says_so(
    pages, fake_results
):
    fr = fake_results
    models = [fr.model(name, number=i, p50_ms=5.0) for i, name in enumerate("ab", start=1)]
    together = fr.result(models, comparisons=True)
    _, _, tree = pages(one=together)
    assert "no clear difference" in table_of(tree, "device-1-latency")[2][-2]
    together["comparisons"][0].update(speedup=4.0, speedup_ci=[3.9, 4.1], faster=None)
    _, _, tree = pages(one=together)
    assert "one repetition cannot tell a difference" in table_of(tree, "device-1-latency")[2][-2]
    apart = {"one": fr.result(models[:1]), "two": fr.result(models[1:])}
    _, _, tree = pages(**apart)
    assert not any("Speed-up" in row for row in table_of(tree, "device-1-latency"))
    assert "did not take turns" in text_of(tree)
    words = text_of(next(tree.iter(HTML + "main"))) + text_of(next(tree.iter(HTML + "h1")))
    assert "faster" not in words


def test_different_tasks_have_charts_of_their_own(pages, fake_results):
    fr = fake_results
    value, _, tree = pages(
        host=fr.result(
            [fr.model("a", number=1), fr.model("b", number=2, task="cola", metric="matthews")]
        )
    )
    titles = [part.title for part in value.sections[0].parts]
    assert titles[:2] == [
        "Accuracy, latency and size: sst2",
        "Matthews correlation, latency and size: cola",
    ]
    assert len(table_of(tree, "device-1-tradeoff-1-table")) == 2


def test_hostile_names_stay_text_in_page_markdown_and_csv(fake_results, tmp_path):
    fr = fake_results
    model = fr.model("x")
    value = fr.result(
        [model],
        kind="phone",
        device={**fr.PHONE, "name": HOSTILE, "soc": HOSTILE},
        runtime={"name": HOSTILE, "version": HOSTILE},
        notes=[HOSTILE],
        failures=[{"what": HOSTILE, "error": HOSTILE}],
        operators=[fr.operators("x")],
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


def test_a_folder_whose_name_is_no_utf8_is_reported(fake_results, tmp_path):
    for folder in ("a", os.fsdecode(b"bad\xff")):
        (tmp_path / folder).mkdir()
        result = fake_results.result([fake_results.model("m")])
        (tmp_path / folder / "benchmark.json").write_text(json.dumps(result))
    page, text = report.write_comparison([tmp_path], tmp_path / "out")
    for file in (page, text, tmp_path / "out" / "report-tables" / "device-1-latency.csv"):
        assert "m (bad\ufffd)" in file.read_text(encoding="utf-8")


@pytest.mark.slow
def test_long_names_and_hundreds_of_results_keep_the_page_small(fake_results, tmp_path):
    fr = fake_results
    models = [
        fr.model(
            f"{'very_long_name_' * 12}{i}", number=i + 1, p50_ms=1.0 + i, accuracy=0.5 + i / 99
        )
        for i in range(30)
    ]
    for model in models:
        model.p50_ms.update({n: model.p50_ms[128] * n / 128 for n in (16, 32, 48, 64, 96)})
    value = fr.result(models, threads=(1, 2, 4), operators=[fr.operators(m.name) for m in models])
    for row in value["measurements"]:
        row["samples_ms"] = row["samples_ms"] * 3
    results = tuple(
        NamedResult(f"result {i}", schema.Result.model_validate(value)) for i in range(3)
    )
    content = report.build(report.Collection(results))
    page = report.render_html(content)
    assert len(page.encode()) < 2_000_000
    tree = page_reading.tree_of(page)
    assert page_reading.faults_of(tree) == []
    (table,) = [t for t in content.tables() if t.key == "device-1-latency"]
    assert len(table.rows) == 3 * 30 * 6 * 3
    assert "more rows are in report-tables/device-1-latency.csv" in text_of(tree)


@pytest.mark.slow
def test_forty_devices_keep_the_page_small(fake_results):
    fr = fake_results
    models = [fr.model(f"file {i}", number=i + 1, p50_ms=1.0 + i) for i in range(8)]
    for model in models:
        model.p50_ms.update({32: 1.0, 64: 2.0})
    value = fr.result(models, kind="phone", operators=[fr.operators(m.name) for m in models])
    results = tuple(
        NamedResult(
            f"r{i}", schema.Result.model_validate({**value, "device": {"name": f"Phone {i}"}})
        )
        for i in range(40)
    )
    content = report.build(report.Collection(results))
    page = report.render_html(content)
    assert len(page.encode()) < 2_000_000
    tree = page_reading.tree_of(page)
    assert page_reading.faults_of(tree) == []
    assert len(content.sections) == 40
    assert "Its charts are left out" in content.sections[-1].intro
    assert "Its charts" not in content.sections[0].intro


@pytest.mark.parametrize("models", [0, 1])
def test_no_file_and_one_file_make_a_page(pages, fake_results, models):
    listed = [fake_results.model("only")][:models]
    value, _, tree = pages(host=fake_results.result(listed))
    assert page_reading.faults_of(tree) == []
    assert text_of(next(tree.iter(HTML + "h1"))) == (
        "1 file was measured on a host." if models else "0 files were measured on a host."
    )
    assert value.figures == ()


def test_a_file_without_a_manifest_is_measured_and_not_judged(pages, fake_results):
    bare = fake_results.Model("bare", "e" * 64, {128: 1.0})
    value, _, tree = pages(host=fake_results.result([bare]))
    assert [part.title for part in value.sections[0].parts] == [
        "Latency",
        "Start and memory",
        "Device and conditions",
    ]
    assert page_reading.faults_of(tree) == []


def test_a_sweep_is_a_section_that_claims_little(pages):
    value, _, tree = pages([SWEEP])
    assert value.headline == (
        "A sweep of quantizations was made. 2 of 2 are on the Pareto front of accuracy, latency "
        "and size."
    )
    assert "brief measurement" in value.sections[0].intro
    titles, busy, quiet = table_of(tree, "sweep-1-quantizations")
    assert titles[-2] == "Agreement"  # of answers, or of vectors the nearest texts
    assert quiet[0] == "dynamic_wi8_afp32"
    assert ["busy machine" in " ".join(cells) for cells in (busy, quiet)] == [True, False]
    assert [figure.value for figure in value.figures] == ["90.0%", "2.00 ms", "14.0 MB"]


def test_a_file_that_two_results_measured_is_one_file_and_two_measurements(pages, many):
    value, _, _ = pages(host=many["host"], again=many["host"])
    assert value.headline.startswith("3 files were measured on a host. 4 of 6 measurements are on")


def test_an_empty_sweep_makes_a_page(pages):
    _, _, tree = pages([SweepResults(format_version=1)])
    assert page_reading.faults_of(tree) == []


def test_synthetic_data_and_unmeasured_runs_are_said(fake_results):
    result = schema.Result.model_validate(fake_results.result([fake_results.model("m")]))
    value = report.build(
        report.Collection((NamedResult("demo", result),), synthetic=("demo",), unmeasured=("new",))
    )
    assert value.synthetic
    said = " ".join(value.limits)
    assert "demo: the data is synthetic" in said and "new: not measured" in said


def test_page_markdown_and_csv_hold_the_same_tables(fake_results, many, tmp_path):
    for label, value in many.items():
        (tmp_path / f"{label}.json").write_text(json.dumps(value))
    html, markdown = report.write_comparison([tmp_path], tmp_path / "out")
    tree = page_reading.tree_of(html.read_text(encoding="utf-8"))
    keys = {c.get("id").removesuffix("-caption") for c in tree.iter(HTML + "caption")}
    files = {path.stem: path for path in (tmp_path / "out" / "report-tables").iterdir()}
    assert set(files) == keys
    text = markdown.read_text(encoding="utf-8")
    assert text.count("\n|---|") == len(keys)
    for key, path in files.items():
        rows = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
        shown = table_of(tree, key)
        assert len(rows) == len(shown)
        assert len({len(row) for row in rows}) == 1
    latency = list(csv.DictReader(files["device-1-latency"].read_text().splitlines()))
    first = many["host"]["summary"][1]
    assert float(latency[0]["p50 (ms)"]) == pytest.approx(first["p50_ms"], rel=1e-9)
    assert float(latency[0]["p50 (ms), 95% to"]) == pytest.approx(first["p50_ci_ms"][1], rel=1e-9)


def test_reporting_a_folder_again_does_not_take_the_report_for_a_result(many, tmp_path):
    (tmp_path / "host.json").write_text(json.dumps(many["host"]))
    out = tmp_path / "report"
    first = report.write_comparison([tmp_path], out)[0].read_text(encoding="utf-8")
    assert report.write_comparison([tmp_path], out)[0].read_text(encoding="utf-8") == first
