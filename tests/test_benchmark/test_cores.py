"""Which cores a process is bound to, from what was asked and what Linux tells."""

import os

import pytest

from tfdistill import errors
from tfdistill.benchmark import cores


def machine(folder, name, values):
    for core, value in enumerate(values):
        place = folder / f"cpu{core}" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{value}\n")
    return folder


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("cpu_capacity", [400, 400, 400, 400, 870, 870, 870, 1024]),
        ("cpufreq/cpuinfo_max_freq", [1800000] * 4 + [2400000] * 3 + [2910000]),
    ],
)
def test_little_cores_are_the_slowest_kind_and_big_ones_all_others(tmp_path, name, values):
    root = machine(tmp_path, name, values)
    assert cores.resolve("big", available=range(8), root=root) == "f0"
    assert cores.resolve("little", available=range(8), root=root) == "f"


def test_only_cores_that_may_be_used_are_looked_at_and_others_refused(tmp_path):
    root = machine(tmp_path, "cpu_capacity", [400, 400, 870, 1024])
    assert cores.resolve("big", available=[0, 2], root=root) == "4"
    with pytest.raises(errors.BenchmarkError, match=r"some of the cores \[0, 1\], received \[2\]"):
        cores.resolve("6", available=[0, 1])


@pytest.mark.parametrize(
    ("values", "said"), [([1024] * 2, "2 cores of one kind"), ([], "unknown speed")]
)
def test_a_machine_of_equal_or_unknown_cores_has_neither_big_nor_little_ones(
    tmp_path, values, said
):
    root = machine(tmp_path, "cpu_capacity", values)
    with pytest.raises(errors.BenchmarkError, match=said) as caught:
        cores.resolve("little", available=[0, 1], root=root)
    assert "a mask such as 3" in str(caught.value) or not values


@pytest.mark.parametrize("mask", ["f0", "F0", "0xf0"])
def test_a_mask_is_hexadecimal_with_or_without_0x(mask):
    assert cores.cores_of(mask) == [4, 5, 6, 7]
    assert cores.resolve(mask, available=range(8)) == "f0"
    assert cores.mask_of([4, 5, 6, 7]) == "f0"


@pytest.mark.parametrize("mask", ["", "0", "0x", "bigg", "-1", "1" * 65, "f 0"])
def test_what_is_no_mask_is_refused(mask):
    with pytest.raises(errors.BenchmarkError, match="hexadecimal mask such as f0"):
        cores.cores_of(mask)


def test_without_a_wish_there_is_no_mask_and_all_cores_that_the_process_may_use(monkeypatch):
    assert cores.resolve(None) is None
    assert cores.resolve("all", available=[0, 1]) is None
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {5, 2}, raising=False)
    assert cores.usable() == [2, 5]
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert cores.usable() == [0, 1, 2]
    with pytest.raises(errors.BenchmarkError, match="Linux"):  # which alone can bind
        cores.resolve("1")


def test_clocks_are_in_the_order_of_the_cores(tmp_path):
    root = machine(tmp_path, "cpufreq/scaling_cur_freq", [1000 * (i + 1) for i in range(12)])
    assert cores.frequencies_mhz(root) == tuple(float(i + 1) for i in range(12))
    (tmp_path / "cpu3" / "cpufreq" / "scaling_cur_freq").unlink()
    assert cores.frequencies_mhz(root) == ()
