"""What is set on a device before it measures is undone afterwards."""

from __future__ import annotations

import pytest

from tfdistill import errors
from tfdistill.benchmark.adb import device_backend, measuring

pytestmark = pytest.mark.slow


def modes(daemon) -> list[str]:
    path = daemon.path("/says/fixed-performance")
    return path.read_text().split() if path.exists() else []


def test_fixed_performance_ends_with_the_measurement_also_after_ctrl_c(connect):
    daemon = connect()
    (phone,) = measuring.choose([daemon.serial])
    with device_backend.fixed_performance(phone):
        assert modes(daemon) == ["true"]
    assert modes(daemon) == ["true", "false"]
    with pytest.raises(KeyboardInterrupt), device_backend.fixed_performance(phone):
        phone.stop()  # what Ctrl-C does from the main thread
        phone.rest(0)
    assert modes(daemon) == ["true", "false"] * 2


def test_a_device_without_fixed_performance_is_refused_and_a_lost_one_told_to_end_the_mode(connect):
    daemon = connect()
    daemon.path("/says/android-10").touch()
    (phone,) = measuring.choose([daemon.serial])
    expected = "--fixed-performance on .*Unknown command: set-fixed.*Leave it out"
    with (
        pytest.raises(errors.BenchmarkError, match=expected) as caught,
        device_backend.fixed_performance(phone),
    ):
        raise AssertionError("measured all the same")
    assert "stays" not in str(caught.value)  # what was never set is not undone
    daemon = connect()
    (phone,) = measuring.choose([daemon.serial])
    expected = "stays in fixed performance mode: .*set-fixed-performance-mode-enabled false"
    with (
        pytest.raises(errors.DeviceLostError, match=f"(?s){expected}"),
        device_backend.fixed_performance(phone),
    ):
        daemon.lose()
