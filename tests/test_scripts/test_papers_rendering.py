"""The papers' table: milliseconds of two devices apart, speed-ups where the intervals allow."""

import csv
import io
import json
import pathlib

import pytest
from papers import rendering
from papers import table as papers

from tfdistill.benchmark import schema

SHA = "ab" * 32
MODELS = ("bert_base", "tinybert_4l_312d", "mobilebert", "bert_tiny", "bert_large")
TIMES = {
    "bert_base": 226.0,
    "tinybert_4l_312d": 13.3,
    "mobilebert": 60.0,
    "bert_tiny": 226.5,
    "bert_large": 700.0,
}


def _latency(model, quantization, length, threads):
    ms = TIMES[model] * length / 128 / threads * (0.3 if quantization != "float32" else 1)
    speedup = TIMES["bert_base"] / TIMES[model]
    over = speedup if quantization == "float32" else speedup / 0.3
    is_reference = model == "bert_base"
    is_float32 = is_reference and quantization == "float32"
    return papers.Latency(
        model=model,
        quantization=quantization,
        sequence_length=length,
        threads=threads,
        n=90,
        repetitions=3,
        p50_ms=ms,
        p50_ci_ms=(ms * 0.99, ms * 1.01),
        speedup=None if is_reference else speedup,
        speedup_ci=None if is_reference else (speedup * 0.98, speedup * 1.02),
        over_float32=None if is_float32 else over,
        over_float32_ci=None if is_float32 else (over * 0.98, over * 1.02),
    )


def table(quantizations=("float32", "dynamic_wi8_afp32"), **changes):
    values = {
        "created": "2026-01-01T00:00:00+00:00",
        "tfdistill_version": "0.1.0",
        "kind": "host",
        "backend": "litert",
        "device": schema.Device(name="Two | cores"),
        "runtime": schema.Runtime(name="ai_edge_litert", version="2.3.0"),
        "settings": {"runs": 30},
        "reference": "bert_base",
        "scaled_down": False,
        "models": [
            papers.TableModel(model=m, parameters=1_234_567, flops={32: 10**9, 128: 4 * 10**9})
            for m in MODELS
        ],
        "files": [
            papers.TableFile(
                model=m, quantization=q, file=f"files/{m}-{q}", sha256=SHA, size_bytes=57
            )
            for m in MODELS
            for q in quantizations
        ],
        "latencies": [
            _latency(m, q, length, threads)
            for m in MODELS
            for q in quantizations
            for length in (32, 128)
            for threads in (1, 2)
        ],
        "measurements": ("measurements/host/x.json",),
        **changes,
    }
    return papers.PapersTable(**values)


def _cells(shown):
    return {
        row.head.text: dict(zip(shown.columns[1:], row.cells, strict=True)) for row in shown.rows
    }


def test_there_is_a_table_for_each_quantization_and_number_of_threads():
    keys = [shown.key for shown in rendering.tables(table())]
    assert keys == [
        "speeds",
        "sizes",
        "latency-float32-1",
        "latency-float32-2",
        "latency-dynamic_wi8_afp32-1",
        "latency-dynamic_wi8_afp32-2",
        "published",
    ]


def test_our_time_and_a_published_one_never_share_a_column():
    speeds = rendering.speeds(table())
    cells = _cells(speeds)
    assert cells["MobileBERT"]["Here: latency"].text == "60.0"
    assert cells["MobileBERT"]["Pixel 4: latency"].text == "62 ms"
    assert cells["BERT-base"]["Xeon E5-2690 v3: time"].text == "668 s"
    assert cells["TinyBERT4"]["NVIDIA K80: speed-up"].text == "9.4×"
    assert cells["TinyBERT4"]["Pixel 4: latency"].text == "–"
    assert cells["bert_tiny"]["NVIDIA K80: speed-up"].text == "–"
    # Each device is told with what was done on it.
    notes = " ".join(speeds.notes)
    assert (
        "Here: an inference at 128 tokens in float32, 1 thread, on the host Two | cores." in notes
    )
    assert all(f"{device}: " in notes for device in ("Pixel 4", "NVIDIA K80", "iPhone 7 Plus"))


def test_speedups_are_over_the_reference_in_the_same_numbers_and_over_float32():
    plain = _cells(rendering.latencies(table(), "float32", 1))
    assert plain["TinyBERT4"]["Speed-up"].text == "17.0×"
    assert plain["BERT-base"]["Speed-up"].text == "1×"
    assert "Over float32" not in plain["TinyBERT4"]
    small = _cells(rendering.latencies(table(), "dynamic_wi8_afp32", 1))
    assert small["TinyBERT4"]["Speed-up"].text == "17.0×"
    assert small["TinyBERT4"]["Over float32"].text == "56.6×"
    assert small["BERT-base"]["Over float32"].text == "3.33×"


def test_without_float32_nothing_is_said_over_it():
    only = [
        row.model_copy(update={"over_float32": None, "over_float32_ci": None})
        for row in table(quantizations=("dynamic_wi8_afp32",)).latencies
    ]
    value = table(quantizations=("dynamic_wi8_afp32",), latencies=only)
    latencies = rendering.latencies(value, "dynamic_wi8_afp32", 1)
    assert "Over float32" not in latencies.columns
    assert "float32, which" not in latencies.notes[0]


def test_a_table_says_how_many_inferences_stand_behind_it():
    rows = list(table().latencies)
    rows[0] = rows[0].model_copy(update={"n": 60, "repetitions": 2})
    latencies = rendering.latencies(table(latencies=rows), "float32", 1)
    assert latencies.notes[0].startswith("Medians of at least 60 inferences in 2 fresh processes")


def test_text_marks_a_speedup_that_the_interval_does_not_tell_from_1():
    lines = rendering.render_text(table()).splitlines()
    start = next(i for i, line in enumerate(lines) if line.endswith("float32, 1 thread:"))
    rows = {line.split()[0]: line for line in lines[start + 3 : start + 8]}
    assert rows["bert_tiny"].count("0.998× ?") == 2
    assert "?" not in rows["TinyBERT4"] + rows["bert_large"]  # faster, slower
    assert "the interval holds 1" in lines[-1]


def test_markdown_holds_every_table_with_its_intervals():
    text = rendering.render_markdown(table())
    assert text.count("|---|") == len(rendering.tables(table()))
    assert "17.0× (\\[16.7, 17.3\\])" in text
    assert "Two \\| cores" in text


def test_csv_has_a_line_a_latency_with_bare_numbers():
    rows = list(csv.DictReader(io.StringIO(rendering.render_csv(table()))))
    assert len(rows) == len(table().latencies)
    (row,) = (
        row
        for row in rows
        if (row["Model"], row["Quantization"], row["Tokens"], row["Threads"])
        == ("tinybert_4l_312d", "dynamic_wi8_afp32", "128", "2")
    )
    assert float(row["p50 (ms)"]) == pytest.approx(13.3 * 0.3 / 2)
    assert float(row["Speed-up, 95% from"]) == pytest.approx(226 / 13.3 * 0.98)
    assert row["File (bytes)"] == "57" and row["Kind"] == "host"
    reference = next(row for row in rows if row["Model"] == "bert_base")
    assert reference["Speed-up"] == ""


def test_sizes_stand_beside_every_published_count():
    cells = _cells(rendering.sizes(table()))
    assert cells["BERT-base"]["Parameters"].text == "1,234,567"
    assert cells["BERT-base"]["Parameters, published"].text == "109 M / 110 M"
    assert cells["BERT-base"]["FLOPs at 128 tokens"].value == 4 * 10**9
    assert cells["bert_tiny"]["Parameters, published"].text == "–"


def test_only_what_is_published_of_the_tables_models_is_shown():
    published_rows = rendering.published_rows(table())
    assert {row.head.text for row in published_rows.rows} == {
        "BERT-base",
        "TinyBERT4",
        "MobileBERT",
    }
    glue = [row.cells[-1] for row in published_rows.rows if row.head.text == "BERT-base"]
    assert [(cell.text, cell.detail) for cell in glue] == [
        ("78.3", "test sets"),
        ("79.5", "test sets, without WNLI"),
        ("79.5", "development sets, with WNLI"),
        ("–", ""),
        ("–", ""),
    ]


def test_a_table_of_toys_says_so_first():
    for text in (
        rendering.render_text(table(scaled_down=True)),
        rendering.render_markdown(table(scaled_down=True)),
    ):
        assert "Toys of the papers' models" in text.splitlines()[0]


def test_a_phone_is_called_a_phone():
    value = table(kind="phone", device=schema.Device(name="Google Pixel 8"))
    assert "on the phone Google Pixel 8" in rendering.render_text(value).splitlines()[0]


def test_the_value_survives_json():
    value = table()
    assert papers.PapersTable.model_validate_json(json.dumps(value.to_json())) == value


def test_the_recorded_table_still_loads_and_is_the_one_of_the_documentation():
    docs = pathlib.Path(__file__).parents[2] / "docs"
    recorded = (docs / "benchmarks" / "papers" / "table.json").read_bytes()
    value = papers.PapersTable.model_validate_json(recorded)
    page = (docs / "benchmarks" / "papers" / "table.md").read_text("utf-8")
    assert page == rendering.render_markdown(value)
    assert sorted(value.to_json()["sources"][0]) == sorted(json.loads(recorded)["sources"][0])
