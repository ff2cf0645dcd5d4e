import types

import pytest
from papers.table import check_one_device, notes_of

from tfdistill import errors
from tfdistill.benchmark import result, schema
from tfdistill.benchmark.settings import Settings


def test_measurements_of_two_builds_of_the_tool_are_not_mixed():
    def measured(digest):
        return result.assemble(
            kind="phone",
            backend="benchmark_model",
            device=schema.Device(name="a phone", id="0123456789ab"),
            runtime=schema.Runtime(name="benchmark_model", sha256=digest * 64),
            models=[],
            measurements=[],
            settings=Settings(),
            command=(),
            created="2026-01-01T00:00:00+00:00",
        )

    check_one_device([measured("a"), measured("a")])
    with pytest.raises(errors.BenchmarkError):
        check_one_device([measured("a"), measured("b")])


def test_the_table_says_once_how_busy_the_device_was_and_marks_slow_cases_itself():
    def measured(load, *notes):
        measured = types.SimpleNamespace(before=types.SimpleNamespace(load_average=load))
        measured.notes = [f"Load average {load} on 2 cores before the run", *notes]
        return measured

    slow = (
        "3 of 8 cases were measured on a device that throttled, or slowed down for another reason"
    )
    said = notes_of([measured(0.5, f"{slow}: cool it down."), measured(2.5, "other")])

    assert said == ["Load average 2.5 on 2 cores before the run", "other"]
