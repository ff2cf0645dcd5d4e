"""What makes a stored measurement the one that is asked for."""

import dataclasses

import pytest

from tfdistill.benchmark import schema
from tfdistill.search import design, store

CONDITIONS = store.MeasurementContext(
    device=schema.Device(name="A phone", id="0123456789ab"),
    runtime=schema.Runtime(name="benchmark_model", version="2.3"),
    settings={"threads": (1,), "runs": 100},
    quantize="dynamic_wi8_afp32",
    lengths=(64,),
    head="sequence",
    tfdistill_version="1.0",
)
KEY = CONDITIONS.key(design.ANCHOR)


@pytest.mark.parametrize(
    "changes",
    [
        {"device": schema.Device(name="A phone", id="ba9876543210")},
        {"device": schema.Device(name="A phone", id="0123456789ab", fingerprint="updated")},
        {"runtime": schema.Runtime(name="benchmark_model", version="2.4")},
        {"settings": {"threads": (2,), "runs": 100}},
        {"settings": {"threads": (1,), "runs": 10}},
        {"quantize": "float32"},
        {"lengths": (32, 64)},
        {"head": "token"},
        {"tfdistill_version": "1.1"},
    ],
)
def test_whatever_changes_a_latency_changes_the_key(changes):
    assert dataclasses.replace(CONDITIONS, **changes).key(design.ANCHOR) != KEY


def test_another_shape_has_another_key():
    assert CONDITIONS.key(design.ANCHOR.with_layers(3)) != KEY


def test_clocks_and_memory_do_not_change_the_key():
    moody = schema.Device(
        name="A phone", id="0123456789ab", governor="powersave", max_frequencies_mhz=(1.0,)
    )
    assert dataclasses.replace(CONDITIONS, device=moody).key(design.ANCHOR) == KEY


def test_a_reading_reads_back(tmp_path):
    kept = store.Store(tmp_path / "new")
    assert kept.get(KEY) is None
    reading = store.Reading(
        key=KEY,
        name="x",
        size_bytes=3,
        p50_ms={64: 1.25},
        p50_ci_ms={64: (1.2, 1.3)},
        anchor_ms={64: 0.5},
        created="2026-01-01T00:00:00+00:00",
    )
    kept.put(reading)
    assert kept.get(KEY) == reading


def test_a_reading_under_anothers_name_is_not_taken(tmp_path):
    kept = store.Store(tmp_path)
    other = CONDITIONS.key(design.ANCHOR.with_layers(3))
    test_a_reading_reads_back(tmp_path)
    (tmp_path / "new" / f"{KEY}.json").rename(tmp_path / f"{other}.json")
    assert kept.get(other) is None
