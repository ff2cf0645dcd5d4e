"""Contrast by the definition of WCAG 2.2, and what tells colours apart for whoever sees few."""

import importlib.resources
import itertools
import re

import pytest

STYLE = (importlib.resources.files("tfdistill.report") / "style.css").read_text("utf-8")
LIGHT, DARK = (
    dict(re.findall(r"--([\w-]+):\s*(#[0-9a-f]{6})", part))
    for part in STYLE.split("* {")[0].split("prefers-color-scheme: dark")
)


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_that_of_the_definition():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_text_is_readable_in_both_modes(colours):
    for ink, ground in [
        *itertools.product(("ink", "soft", "accent"), ("paper", "card")),
        ("ink", "tint"),
        ("soft", "tint"),
        ("warn", "warn-tint"),
        ("ink", "warn-tint"),
    ]:
        assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_marks_stand_out_from_the_card_in_both_modes(colours):
    for series in (f"s{i}" for i in range(10)):
        assert contrast(colours[series], colours["card"]) >= 3, series
