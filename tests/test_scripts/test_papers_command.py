"""papers_table.py: what it asks of the device, and the whole path on toys."""

import json
import re

import benchmark_results as results_of
import papers_table
import pytest
from papers import making, published

from tfdistill.benchmark import adb, host, schema


@pytest.fixture
def table_options(monkeypatch):
    """Stands in for the long work; returns what it was asked for."""
    options_of = {}

    def make_table(out, request, measure, **options):
        options_of.update(out=out, request=request, measure=measure, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(making, "make_table", make_table)
    return options_of


def test_the_default_is_the_seven_models_in_two_quantizations(table_options):
    assert papers_table.main(["--out", "somewhere"]) == 130
    request = table_options["request"]
    assert request.presets == tuple(published.TITLES) and len(request.presets) == 7
    assert request.quantizations == ("float32", "dynamic_wi8_afp32")
    assert (request.settings.lengths, request.settings.threads) == ((32, 64, 128), (1, 2))
    assert request.folder == "host" and not request.scaled_down
    assert request.settings.runs * request.settings.repetitions == 90


def test_options_reach_the_measurement(table_options):
    options = "--models bert_tiny,bert_mini --lengths 16 --threads 4 --quantize float16 "
    options += "--runs 7 --warmup 1 --min-seconds 0 --repetitions 2 --cool-down 5 --overwrite"
    assert papers_table.main(["--out", "somewhere", *options.split()]) == 130
    request = table_options["request"]
    assert request.presets == ("bert_tiny", "bert_mini")
    assert (request.quantizations, request.settings.lengths) == (("float16",), (16,))
    settings = request.settings
    assert (settings.threads, settings.runs, settings.warmup) == ((4,), 7, 1)
    assert (settings.min_seconds, settings.repetitions, settings.cool_down_seconds) == (0, 2, 5)
    assert table_options["overwrite"]


def test_a_phone_is_measured_through_adb(table_options, monkeypatch):
    calls = []
    lost = schema.Failure(what="the rest on 0123456789ab", error="gone")

    def measure(paths, *, shown, **options):
        calls.append((paths, options))
        shown["0123456789ab"] = "SECRET"
        return [
            results_of.assembled(
                results_of.repetitions(2.0), device=results_of.PHONE, failures=[lost]
            )
        ]

    monkeypatch.setattr(adb, "Binary", lambda source, sha256: (source, sha256), raising=False)
    monkeypatch.setattr(adb, "measure", measure, raising=False)
    options = "--device adb --serial SECRET --binary tool --binary-sha256 00"
    assert papers_table.main(["--out", "somewhere", *options.split()]) == 130
    (failure,) = table_options["measure"](["a"], "settings").failures
    assert failure.what == "the rest on SECRET"  # for the terminal; nothing of it is kept
    assert calls == [
        (["a"], {"settings": "settings", "serials": ("SECRET",), "binary": ("tool", "00")})
    ]
    place = table_options["request"].folder
    assert place.startswith("adb-") and "SECRET" not in place


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--serial X", "--device adb"),
        ("--binary-sha256 00", "--device adb"),
        ("--device adb --serial all", "one device"),
        ("--runs 0", "runs"),
        ("--models bert_bass", "bert_base"),
        ("--lengths 1024", "512"),
    ],
)
def test_misuse_is_told_before_anything_is_made(options, said, tmp_path, capsys):
    assert papers_table.main(["--out", str(tmp_path / "out"), *options.split()]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_measurements_of_another_phone_or_binary_have_another_folder(table_options, monkeypatch):
    def place(*options):
        papers_table.main(["--out", "somewhere", "--device", "adb", *options])
        return table_options["request"].folder

    monkeypatch.delenv("ANDROID_SERIAL", raising=False)
    first = place("--serial", "A", "--binary", "tool")
    assert place("--serial", "A", "--binary", "tool") == first
    others = {place("--serial", "B", "--binary", "tool"), place("--serial", "A", "--binary", "x")}
    monkeypatch.setenv("ANDROID_SERIAL", "A")
    assert place("--binary", "tool") == first
    assert first not in others and len(others) == 2


def test_a_folder_is_needed(capsys):
    with pytest.raises(SystemExit) as stopped:
        papers_table.main([])
    assert stopped.value.code == 2
    assert "--out" in capsys.readouterr().err


@pytest.mark.thorough
def test_toys_are_exported_and_measured_on_this_host_and_a_second_call_only_reads(
    tmp_path, capsys, monkeypatch
):
    options = "--scaled-down --models bert_base,mobilebert_tiny --quantize float32 --lengths 8 "
    options += "--threads 1 --runs 4 --warmup 1 --min-seconds 0 --repetitions 2"
    arguments = [*options.split(), "--out", str(tmp_path / "out")]
    assert papers_table.main(arguments) == 0
    table = json.loads((tmp_path / "out" / "table.json").read_text())
    assert table["scaled_down"] and table["kind"] == "host"
    assert len(table["latencies"]) == 2
    for row in table["latencies"]:
        assert row["p50_ci_ms"][0] <= row["p50_ms"] <= row["p50_ci_ms"][1]
        assert row["n"] >= 8
    first = capsys.readouterr().out
    assert "MobileBERT-TINY" in first
    monkeypatch.setattr(host, "compare", None)  # nothing is measured again
    assert papers_table.main(arguments) == 0
    assert capsys.readouterr().out == first


def test_the_help_tells_what_it_asks_for(table_options, capsys):
    assert papers_table.main(["--out", "x"]) == 130
    assert table_options["request"].settings == papers_table.DEFAULTS
    text = " ".join(papers_table.parser().format_help().split())
    for name in ("threads", "lengths", "warmup", "runs", "min_seconds", "repetitions"):
        value = getattr(papers_table.DEFAULTS, name)
        shown = ",".join(map(str, value)) if isinstance(value, tuple) else f"{value:g}"
        assert re.search(rf"--{name.replace('_', '-')} [^-]*\(default: {shown}\)", text), name
