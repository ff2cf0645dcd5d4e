"""A student within a budget over the real adb client, measured by the stand-in.

The files are one tiny model: what they hold is tested elsewhere.
"""

import dataclasses
import types

import pytest

from tfdistill import models
from tfdistill.benchmark.adb import tool_backend
from tfdistill.budget import fitting
from tfdistill.commands import measurement_options

pytestmark = pytest.mark.slow


@pytest.mark.thorough
def test_a_student_is_measured_on_a_phone_that_is_left_as_it_was(
    monkeypatch, tflite_files, binary, phone, left_on
):
    daemon, converted = phone("Pixel_8"), []

    def convert(candidate, path):
        converted.append(candidate.name)
        path.write_bytes((tflite_files / "fast.tflite").read_bytes())

    monkeypatch.setattr(tool_backend, "NUM_FEEDS", 2)
    monkeypatch.setattr(
        fitting,
        "_SETTINGS",
        dataclasses.replace(
            fitting._SETTINGS, rounds=2, warmup=1, runs=4, min_seconds=0, repetitions=1
        ),
    )
    options = types.SimpleNamespace(
        device="adb", serial=daemon.serial, binary=binary.source, binary_sha256=None
    )
    fitted = fitting.largest(
        models.preset("bert_tiny"),
        fitting.Budget(1000.0),
        measure=measurement_options.measurer(options),
        convert=convert,
        length=8,
        num_lengths=1,
        quantize="dynamic_wi8_afp32",
    )
    assert 0 < fitted.latency_ms < 1000 and len(converted) == len(set(converted)) > 0
    assert left_on(daemon) == []
