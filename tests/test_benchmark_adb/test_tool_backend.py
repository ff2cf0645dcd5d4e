"""The whole way over the real adb client: files pushed, measured by the stand-in, compared."""

import dataclasses
import hashlib
import json

import numpy as np
import pytest

from tfdistill import benchmark, cli
from tfdistill.benchmark import adb
from tfdistill.benchmark.inputs import LabelledExample

pytestmark = pytest.mark.slow

EXAMPLES = [
    LabelledExample((2, 9 + i, 17, 40 + 2 * i, 3), (0, 0, 1, 1, 1), label=i % 3) for i in range(5)
]


def accuracy(answers):
    right = [answer.argmax() == e.label for answer, e in zip(answers, EXAMPLES, strict=True)]
    return {"accuracy": float(np.mean(right))}


def test_two_files_at_two_lengths_take_turns_and_answer_as_on_the_host(
    phone, binary, tflite_files, short, left_on
):
    daemon = phone()
    models = {name: tflite_files / f"{name}.tflite" for name in ("slow", "fast")}
    settings = dataclasses.replace(short, lengths=None, affinity="1")
    (result,) = adb.measure(models, settings=settings, binary=binary)
    assert result.failures == ()
    assert (result.kind, result.backend) == ("phone", "benchmark_model")
    assert {(m.model, m.sequence_length) for m in result.measurements} == {
        (name, length) for name in models for length in (8, 16)
    }
    for row in result.measurements:
        assert [block.n for block in row.blocks] == [row.block_runs] * 2 == [3, 3]
        assert row.coverage is not None and row.coverage.partitions == 1
        assert row.peak_rss_bytes is not None and row.peak_rss_bytes > 2**20
        assert (row.signature, row.affinity) == (f"len{row.sequence_length}", "1")
        assert row.before is not None and row.before.thermal_status == 0
    assert {(c.baseline, c.candidate) for c in result.comparisons} == {("slow", "fast")}
    assert len(result.answers) == 4
    assert all(a.argmax_agreement == 1 and a.max_abs_error < 1e-4 for a in result.answers)
    runs = [command for command in daemon.commands if "--graph=" in command]
    assert runs and all(" taskset 1 ./benchmark_model" in command for command in runs)
    blocks = [
        next(model for model in ("model0", "model1") if model in command)
        for command in runs
        if "run.sh" in command and "report_peak_memory" not in command
    ]
    rounds = list(zip(blocks[::2], blocks[1::2], strict=True))
    assert set(rounds) == {("model0", "model1"), ("model1", "model0")}  # in random order
    assert left_on(daemon) == []


def test_delegates_and_accuracy_are_measured(phone, binary, tflite_files, short, left_on):
    daemon = phone("Pixel_8")
    (result,) = adb.measure(
        [tflite_files / "fast.tflite"],
        settings=dataclasses.replace(
            short, delegates=("xnnpack", "gpu"), threads=(2,),
        ),
        serials=[daemon.serial],
        binary=binary,
        examples=EXAMPLES,
        metric=accuracy,
    )  # fmt: skip
    assert result.failures == ()
    assert {m.delegate for m in result.measurements} == {"xnnpack", "gpu"}
    assert {m.threads for m in result.measurements} == {2}
    on_task = {a.delegate: a for a in result.answers if a.metrics}
    places = [(a.sequence_length, a.delegate) for a in result.answers]
    assert sorted(places) == [(n, d) for n in (8, 16) for d in ("gpu", "xnnpack")]
    assert on_task["xnnpack"].num_examples == len(EXAMPLES)
    assert on_task["xnnpack"].sequence_length == 16
    assert on_task["xnnpack"].metrics == on_task["xnnpack"].host_metrics
    assert 0 < on_task["xnnpack"].metrics["accuracy"] <= 1
    assert on_task["gpu"].max_abs_error > on_task["xnnpack"].max_abs_error
    assert 30 < on_task["gpu"].sqnr_db < 120  # float16
    assert left_on(daemon) == []


def test_a_throttled_repetition_counts_and_says_so(phone, binary, fast, short, strike):
    daemon = phone()
    strike(daemon, "throttle")
    settings = dataclasses.replace(short, cool_timeout_seconds=0)
    (result,) = adb.measure(fast, settings=settings, binary=binary)
    (row,) = result.measurements
    assert row.left_out == "" and row.after is not None and row.after.thermal_status == 2
    assert result.summary[0].throttled


def test_the_command_writes_a_result_for_each_phone_and_fails_with_a_failure(
    phone, binary, tflite_files, short, strike, tmp_path, capsys
):
    daemons = [phone("Pixel_8", ro__serialno="A"), phone("Pixel_9", ro__serialno="B")]
    strike(daemons[0], "no accelerator")
    model, out = str(tflite_files / "fast.tflite"), tmp_path / "phones.json"
    command = ["benchmark", model, "--device", "adb", "--binary", str(binary), "--out", str(out)]
    command += ["--delegates", "gpu,xnnpack", "--lengths", "8", "--repetitions", "1", "--runs", "6"]
    command += ["--min-seconds", "0", "--warmup", "1", "--serial", daemons[0].serial]
    assert cli.main([*command, "--serial", daemons[1].serial, "--json"]) == 1
    shown = json.loads(capsys.readouterr().out)["results"]
    written = [benchmark.read_result(path) for path in sorted(tmp_path.glob("phones-*.json"))]
    assert {result.device.id for result in written} == {row["device"]["id"] for row in shown}
    failures = {result.device.id: len(result.failures) for result in written}
    assert sorted(failures.values()) == [0, 1]
    assert any("unsupported on this platform" in f.error for r in written for f in r.failures)
    assert sorted(len(result.measurements) for result in written) == [1, 2]
    assert all(result.runtime.sha256 == adb_sha256(binary) for result in written)


def adb_sha256(binary):
    return hashlib.sha256(binary.read_bytes()).hexdigest()
