"""Measuring in the app: the intent, the states, and what is taken from its result."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter

import benchmark_results
import pytest
from adb_daemon.bundles import QUICK, bundle_files, left, subject
from adb_daemon.phone import install_app

from tfdistill import errors, manifest
from tfdistill.benchmark import result, schema
from tfdistill.benchmark.adb import app, app_protocol, phone
from tfdistill.benchmark.settings import Settings
from tfdistill.benchmark.subjects import Subject

PACKAGE = app_protocol.PACKAGE


# What is said


def test_the_intent_says_everything_in_the_types_of_the_protocol():
    settings = Settings(
        threads=(1, 2), warmup=5, runs=50, min_seconds=1.5, max_runs=900, rounds=7, seed=2**31 + 3
    )
    arguments = app_protocol.start_arguments(
        PACKAGE,
        "tfdistill-1a",
        "sst2-dynamic",
        settings,
        lengths=(32, 64),
        delegate="gpu",
        repetition=4,
        sustained_seconds=30,
    )
    component = "io.github.tfdistill.demo/io.github.tfdistill.demo.BenchmarkActivity"
    assert arguments[:6] == ["am", "start", "-W", "-S", "-n", component]
    extras = arguments[6:]
    said = {extras[i + 1]: (extras[i], extras[i + 2]) for i in range(0, len(extras), 3)}
    assert said == {
        "run_id": ("--es", "tfdistill-1a"),
        "bundle": ("--es", "sst2-dynamic"),
        "lengths": ("--es", "32,64"),
        "threads": ("--es", "1,2"),
        "accelerator": ("--es", "gpu"),
        "warmup": ("--ei", "5"),
        "runs": ("--ei", "50"),
        "min_seconds": ("--ef", "1.5"),
        "max_runs": ("--ei", "900"),
        "repetitions": ("--ei", "1"),
        "rounds": ("--ei", "7"),
        "cool_down_seconds": ("--ef", "0.0"),
        "sustained_seconds": ("--ef", "30.0"),
        "seed": ("--ei", "7"),  # below 2**31, and another one for each repetition
    }


def test_everything_that_an_app_cannot_do_is_refused_at_once():
    settings = Settings(delegates=("nnapi", "none"), affinity="f0", operators=True, min_seconds=1e4)
    with pytest.raises(errors.BenchmarkError) as caught:
        app_protocol.check(settings, "a.package; reboot")
    starts = [line.split(":")[0] for line in str(caught.value).splitlines()]
    assert starts == ["--app", "delegates of the app", "affinity", "operators", "min_seconds"]
    app_protocol.check(Settings(delegates=("xnnpack", "gpu"), affinity="all"), "com.example.app2")


def test_a_bundle_is_called_like_its_folder_or_as_the_export_calls_it(tmp_path):
    exported = subject(tmp_path)
    assert app_protocol.bundle_of(exported) == "student-float32"
    hostile = tmp_path / "bundles" / "a'; reboot"
    exported.file.parent.rename(hostile)
    moved = Subject(
        "x",
        hostile / "model.tflite",
        exported.sha256,
        exported.signatures,
        None,
        None,
        (),
        "golden",
    )
    with pytest.raises(errors.BenchmarkError, match="a bundle of the app"):
        app_protocol.bundle_of(moved)
    bare = Subject(
        "x", tmp_path / "m.tflite", exported.sha256, exported.signatures, None, None, (), "golden"
    )
    with pytest.raises(errors.BenchmarkError, match=r"without model\.json"):
        app_protocol.bundle_of(bare)


def test_a_variant_is_called_like_its_bundle_and_device(tmp_path, toy_card):
    card = toy_card("My model")
    entry = {key: getattr(card, key) for key in manifest.FileVariant.model_fields}
    entry["model"] = card.model.model_copy(update={"file": "model-gpu.tflite"})
    variants = {"gpu": manifest.FileVariant(**entry)}
    whole = card.model_copy(update={"variants": variants})
    for folder, name in (("export", f"My-model-{card.quantization}"), ("bundles/x", "x")):
        (tmp_path / folder).mkdir(parents=True)
        manifest.write_manifest(whole, tmp_path / folder)
        (tmp_path / "bundles").mkdir(exist_ok=True)
        (tmp_path / "bundles" / "index.json").touch()
        for device, expected in (("cpu", name), ("gpu", f"{name}-gpu")):
            described = whole.for_device(device)
            file = tmp_path / folder / described.model.file
            exported = Subject("x", file, "0", {}, described, None, (), "golden")
            assert app_protocol.bundle_of(exported) == expected


@pytest.mark.slow
def test_the_default_name_of_a_bundle_is_that_of_the_export(tmp_path, toy_card):
    from export.targets import android_bundle

    for name in ("sst2", "My model, v2", "..."):
        for device in ("cpu", "gpu"):
            card = toy_card(name).model_copy(update={"device": device})
            exported = Subject("x", tmp_path / "m", "0", {}, card, None, (), "golden")
            expected = android_bundle.bundle_name(name, card.quantization, device)
            assert app_protocol.bundle_of(exported) == expected
            assert expected.endswith("-gpu") == (device == "gpu")


@pytest.fixture
def toy_card():
    def make(name: str) -> manifest.Manifest:
        record = manifest.FileRecord(file="m", sha256="0" * 64, size_bytes=1)
        sizes = dict.fromkeys(
            ("num_layers", "hidden_size", "num_heads", "intermediate_size", "vocab_size"), 1
        )
        return manifest.Manifest(
            name=name,
            created="now",
            tfdistill_version="0",
            converter="x",
            model=record,
            quantization="dynamic_wi8_afp32",
            signatures={},
            softmax=False,
            tokenizer=None,
            task=None,
            architecture=manifest.Architecture(family="bert", num_parameters=1, **sizes),
            parity=None,
        )

    return make


def test_a_state_is_read_and_another_one_refused():
    good = {"format_version": 1, "state": "running", "finished": 1, "of": 6, "error": None}
    assert app_protocol.parse_state(json.dumps(good), "x").finished == 1
    for change in ({"format_version": 2}, {"state": "odd"}, {"finished": -1}, {"more": 1}):
        with pytest.raises(errors.BenchmarkError, match="different versions"):
            app_protocol.parse_state(json.dumps({**good, **change}), "x")
    with pytest.raises(errors.BenchmarkError, match="a state of format_version 1"):
        app_protocol.parse_state("[" * 10_000, "x")


def test_what_the_shell_alone_is_told_is_added_and_the_apps_own_word_stays():
    def row(before):
        return benchmark_results.measurement(
            [1.0], model="m", length=8, before=before, after=before
        )

    conditions = schema.Conditions(time="10:00", thermal_status=1)
    before = schema.Conditions(time="09:59", thermal_status=0, temperatures_c={"SKIN": 30.0})
    after = schema.Conditions(time="10:09", thermal_status=2, load_average=3.0)
    backend = app.AppBackend(phone.Phone("adb", "x"), PACKAGE, {}, [], Settings())
    run = app.AppRun(backend, "m", "xnnpack", 0)
    run._ran = benchmark_results.assembled([row(conditions), row(conditions), row(None)])
    first, middle, last = run.finish(before, after).measurements
    assert first.before == conditions.model_copy(update={"temperatures_c": {"SKIN": 30.0}})
    assert (first.after, middle) == (conditions, row(conditions))
    assert (last.before, last.after) == (None, after)


# The whole way, over the real adb client


@pytest.mark.slow
def test_two_files_are_measured_in_the_app_and_nothing_is_left(connect, measure_in_app, tmp_path):
    daemon = connect()
    files = [subject(tmp_path, "big", (32, 64)), subject(tmp_path, "small", (32,))]
    install_app(daemon.root, bundle_files(*files))
    (measured,) = measure_in_app(files, settings=QUICK)

    assert (measured.kind, measured.backend, measured.failures) == ("phone", "app", ())
    assert measured.device.name == "Google Pixel 8"  # from the shell, which is told more
    assert measured.runtime.version == "1.0" and measured.runtime.packages == {"litert": "2.1.6"}
    assert [m.name for m in measured.models] == ["big", "small"]
    assert measured.models[0].inputs == schema.Inputs(source="golden", num_examples=7)
    places = {(m.model, m.sequence_length, m.threads, m.repetition) for m in measured.measurements}
    assert places == {
        (name, length, threads, repetition)
        for name, length in (("big", 32), ("big", 64), ("small", 32))
        for threads in (1, 2)
        for repetition in (0, 1)
    }
    assert len(measured.measurements) == len(places)
    levels = {
        (s.sequence_length, s.threads): s.p50_ms for s in measured.summary if s.model == "big"
    }
    assert levels == {
        (length, threads): pytest.approx(length / 10 / threads, abs=0.01)
        for length in (32, 64)
        for threads in (1, 2)
    }
    firsts = [m for m in measured.measurements if m.process_start_ms is not None]
    assert len(firsts) == 4  # each repetition of each file is a process of its own
    assert all(m.before.temperatures_c for m in firsts)
    assert {(c.baseline, c.candidate) for c in measured.comparisons} == {("big", "small")}
    assert measured.tokenizer is not None and len(measured.texts) == 4
    assert measured.before.thermal_status == 0 and measured.after.temperatures_c
    starts = [c for c in daemon.commands if "am start" in c]
    assert len(starts) == 4 and len({re.search(r"run_id (\S+)", c)[1] for c in starts}) == 4
    said = [(a.model, a.sequence_length, a.num_examples) for a in measured.answers]
    assert sorted(said) == [("big", 32, 7), ("small", 32, 7)]  # of one repetition of each
    assert left(daemon) == []
    compiled = [c for c in daemon.commands if "cmd package compile -m speed -f" in c]
    assert len(compiled) == 1 and daemon.commands.index(compiled[0]) < daemon.commands.index(
        starts[0]
    )
    assert any(f"{PACKAGE} was compiled ahead of time" in note for note in measured.notes)
    written = result.write_result(measured, tmp_path / "out.json")
    assert result.read_result(written) == measured


@pytest.mark.slow
def test_a_status_that_no_sensor_measured_is_unknown_in_the_apps_rows_too(
    connect, measure_in_app, tmp_path
):
    daemon = connect()
    file = subject(tmp_path, lengths=(32,))
    install_app(daemon.root, bundle_files(file))  # the app is told 0, as by a service without a HAL
    service = daemon.path("/says/dumpsys/thermalservice")
    service.write_text(service.read_text().replace("HAL Ready: true", "HAL Ready: false"))
    daemon.path("/says/compile").write_text("Failure: package not found\n")
    settings = dataclasses.replace(QUICK, threads=(1,), sustained_seconds=1)
    (measured,) = measure_in_app([file], settings=settings)
    moments = [measured.before, measured.after]
    moments += [at for row in measured.measurements for at in (row.before, row.after)]
    moments += [window.conditions for row in measured.sustained for window in row.windows]
    assert {at.thermal_status for at in moments if at is not None} == {None}
    assert any("unknown (`HAL Ready: false`)" in note for note in measured.notes)
    assert any("was not compiled ahead of time" in note for note in measured.notes)


@pytest.mark.slow
def test_heat_and_the_gpu_come_from_runs_of_their_own(connect, measure_in_app, tmp_path):
    daemon = connect()
    file = subject(tmp_path)
    install_app(daemon.root, bundle_files(file))
    settings = Settings(
        delegates=("xnnpack", "gpu"), threads=(2, 1), warmup=0, runs=2, rounds=1, repetitions=2,
        min_seconds=0, sustained_seconds=5, texts=False,
    )  # fmt: skip
    (measured,) = measure_in_app([file], settings=settings)
    assert measured.failures == ()
    assert Counter((m.delegate, m.sequence_length, m.threads) for m in measured.measurements) == {
        (delegate, length, threads): 2
        for delegate in ("xnnpack", "gpu")
        for length in (32, 64)
        for threads in (1, 2)
    }
    places = {(s.model, s.delegate, s.sequence_length, s.threads) for s in measured.sustained}
    assert places == {("student", "gpu", 64, 2), ("student", "xnnpack", 64, 2)}
    assert {a.delegate for a in measured.answers} == {"xnnpack", "gpu"}
    cold = {m.delegate for m in measured.measurements if m.cold_start_ms is not None}
    assert cold == {"xnnpack"}
    assert len(measured.sustained) == 2 and measured.texts == ()
    starts = [c for c in daemon.commands if "am start" in c]
    heat = ["sustained_seconds 5.0" in c for c in starts]
    assert heat == [*[False] * 4, True, True]  # last of all: it disturbs nothing


@pytest.mark.slow
def test_a_result_stays_when_the_files_behind_it_cannot_be_removed(
    connect, measure_in_app, tmp_path
):
    daemon = connect()
    file = subject(tmp_path)
    install_app(daemon.root, bundle_files(file))
    daemon.path("/system/bin/rm").unlink()
    (measured,) = measure_in_app([file], settings=QUICK)
    assert measured.failures == () and len(measured.measurements) == 2 * 4
    notes = [note for note in measured.notes if "was left on" in note]
    assert len(notes) == 2 and len(left(daemon)) == 2 * 2
