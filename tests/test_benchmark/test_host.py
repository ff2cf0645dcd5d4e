import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from tfdistill import errors
from tfdistill.benchmark import host
from tfdistill.benchmark.settings import Settings
from tfdistill.benchmark.statistics import disturbance
from tfdistill.benchmark.subjects import open_all
from tfdistill.io import files

QUICK = {"runs": 20, "min_seconds": 0.0, "repetitions": 2, "rounds": 5, "warmup": 2}


def test_the_benchmark_imports_neither_tensorflow_nor_keras(tflite_files):
    code = f"""
import sys
from tfdistill.benchmark import host, result
from tfdistill.benchmark.host import worker
from tfdistill.benchmark.settings import Settings
settings = Settings(lengths=(8,), **{QUICK})
host.measure({str(tflite_files / "fast.tflite")!r}, settings=settings)
loaded = {{name.partition(".")[0] for name in sys.modules}}
assert not loaded & {{"tensorflow", "keras", "tf_keras"}}, loaded
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_a_measurement_has_the_agreed_form(export_folder):
    value = host.measure(export_folder, settings=Settings(threads=(1, 2), **QUICK))
    assert (value.format_version, value.kind, value.backend) == (2, "host", "litert")
    (model,) = value.models
    card = json.loads((export_folder / "model.json").read_text())
    assert model.sha256 == card["model"]["sha256"]
    assert model.size_bytes == (export_folder / "model.tflite").stat().st_size
    assert (model.name, model.file) == ("student", "student/model.tflite")
    assert (model.quantization, model.inputs.source) == ("float32", "golden")
    places = [(m.sequence_length, m.threads, m.repetition) for m in value.measurements]
    assert places == [(n, t, r) for n in (8, 16) for t in (1, 2) for r in (0, 1)]
    for row in value.measurements:
        assert row.signature == f"len{row.sequence_length}"
        assert len(row.samples_ms) == 20
        assert min(row.samples_ms) > 0
        start = row.process_start_ms + row.init_ms + row.first_inference_ms
        assert start <= row.cold_start_ms
        assert row.peak_rss_bytes > row.baseline_rss_bytes
    assert [(s.sequence_length, s.threads) for s in value.summary] == [
        (8, 1),
        (8, 2),
        (16, 1),
        (16, 2),
    ]
    first = value.summary[0]
    rows = disturbance.steady(value.measurements[:2])  # another program may run beside this test
    samples = [s for row in rows for s in row.samples_ms]
    assert first.n == 40
    assert first.p95_ms == np.percentile(samples, 95)
    assert first.p50_ci_ms[0] <= first.p50_ms <= first.p50_ci_ms[1]
    assert (value.comparisons, value.failures) == ((), ())


def test_texts_that_tokenize_to_other_ids_than_recorded_are_noted(export_folder):
    golden = json.loads((export_folder / "golden.json").read_text())
    golden["examples"][1]["input_ids"][1] += 1
    (export_folder / "golden.json").write_text(json.dumps(golden))
    card = json.loads((export_folder / "model.json").read_text())
    card["golden_file"]["sha256"] = files.sha256_of(export_folder / "golden.json")
    files.atomic_write_json(export_folder / "model.json", card)
    notes = host.measure(export_folder, settings=Settings(lengths=(8,), **QUICK)).notes
    assert "student: 1 texts tokenize to other ids than those recorded in its golden.json." in notes


def test_files_of_one_name_are_named_by_the_folders_that_tell_them_apart(tmp_path, tflite_files):
    paths = []
    for run in ("first", "second"):
        paths.append(tmp_path / run / "export" / "fast.tflite")
        paths[-1].parent.mkdir(parents=True)
        shutil.copy(tflite_files / "fast.tflite", paths[-1])
    paths.append(tflite_files / "slow.tflite")
    names = [subject.name for subject in open_all(paths, Settings(), ())]
    assert names == ["first", "second", "slow"]


def test_enough_runs_and_enough_time_are_taken_but_not_too_many():
    settings = Settings(runs=100, min_seconds=1.0, max_runs=2000, rounds=10)
    assert settings.block_runs(100.0) == 10  # slow: 100 runs
    assert settings.block_runs(2.0) == 50  # 500 runs make a second
    assert settings.block_runs(0.001) == 200  # quick: 2000 runs at most


@pytest.mark.parametrize(
    ("name", "values"),
    [("threads", (1, 2, 1)), ("lengths", (8, 8)), ("delegates", ("xnnpack", "xnnpack"))],
)
def test_a_place_is_asked_for_once(name, values):
    with pytest.raises(errors.BenchmarkError, match=f"^{name}: expected each once"):
        Settings(**{name: values})


def test_unknown_lengths_baselines_and_settings_are_explained(tflite_files, tmp_path):
    path = tflite_files / "fast.tflite"
    with pytest.raises(errors.BenchmarkError, match=r"lengths: expected some of \[8, 16\]"):
        host.measure(path, settings=Settings(lengths=(8, 32)))
    with pytest.raises(errors.BenchmarkError, match="Did you mean 'fast'"):
        host.compare([path], baseline="fasst")
    with pytest.raises(errors.BenchmarkError, match="models: expected at least one file"):
        host.compare([])
    with pytest.raises(errors.BenchmarkError, match="runs: expected") as caught:
        host.measure(path, settings=Settings(runs=0, threads=(0,), repetitions=0))
    assert "threads: expected" in str(caught.value)
    assert "repetitions: expected" in str(caught.value)
    with pytest.raises(errors.BenchmarkError, match="no such file"):
        host.measure(tmp_path / "none.tflite")


def test_no_process_and_no_progress_bar_is_left_behind(tflite_files, capfd):
    files = [tflite_files / "fast.tflite", tflite_files / "slow.tflite"]
    with pytest.raises(errors.BenchmarkError, match=r"an answer within 0\.01 s"):
        host.compare(files, progress=True, settings=Settings(**QUICK, timeout_seconds=0.01))
    children = subprocess.run(
        ["ps", "--ppid", str(os.getpid()), "-o", "args="],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    assert "ps --ppid" in children
    assert "tfdistill" not in children
    assert capfd.readouterr().err == ""  # not a terminal
