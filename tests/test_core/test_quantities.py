import pathlib
import re

import pytest

from tfdistill.results import quantities

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0, "0"),
        (0.00123, "0.00123"),
        (0.9996, "1.00"),
        (1, "1.00"),
        (9.994, "9.99"),
        (9.996, "10.0"),
        (43.56, "43.6"),
        (99.96, "100"),
        (1234.4, "1,234"),
    ],
)
def test_three_digits_are_kept_also_across_a_rounding_up(value, written):
    assert quantities.digits(value) == written


def test_every_quantity_has_its_unit():
    assert quantities.size(14_860_000) == "14.9 MB"
    assert quantities.size(999) == "999 B"
    assert (quantities.size(23_140), quantities.megabytes(23_140)) == ("23.1 kB", "0.0231")
    assert quantities.count(14_350_248) == "14.4 M"
    assert quantities.flops(22.35e9) == "22.4 G"


def test_what_is_absent_is_a_dash():
    shown = (quantities.size, quantities.megabytes, quantities.count, quantities.flops)
    assert {show(None) for show in shown} == {"–"}


@pytest.mark.parametrize(
    ("one", "other", "written"),
    [
        (0.913, 0.9, ("0.913", "0.900")),
        (0.90304, 0.90301, ("0.90304", "0.90301")),
        (8_003_200 / 1e6, 8, ("8.003", "8.000")),
        (0.5, 0.5, ("0.500", "0.500")),
        (0.5, float("nan"), ("0.500", "nan")),
        (1.0, 1.0 + 1e-15, ("1.00000000000", "1.00000000000")),
    ],
)
def test_what_differs_looks_different(one, other, written):
    assert quantities.apart(one, other) == written


def test_no_other_function_writes_megabytes():
    for package in ("tfdistill", "export"):
        for file in (ROOT / package).rglob("*.py"):
            faults = re.findall(r"\{[^{}]*/ 1e6:[^{}]*\}", file.read_text())
            assert not faults, f"{file}: {faults}: use quantities.size, megabytes or count"
