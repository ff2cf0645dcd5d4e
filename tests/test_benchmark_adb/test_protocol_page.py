"""The page that programs in other languages are written from says all that the code reads."""

from __future__ import annotations

import inspect
import pathlib
import re

import pytest

from tfdistill.benchmark import schema

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "benchmark-protocol.md"
(REQUEST,) = ROOT.glob("android_demo/benchmark/src/main/**/BenchmarkRequest.kt")
KOTLIN = REQUEST.read_text("utf-8")
PARTS = [
    part
    for _, part in inspect.getmembers(schema, inspect.isclass)
    if issubclass(part, schema.Part)
    and part is not schema.Part
    and part.__module__.startswith(schema.__name__)
]


def section(heading: str) -> str:
    text = PAGE.read_text("utf-8")
    (body,) = re.findall(rf"^### {heading}\n(.*?)(?=^##|\Z)", text, re.M | re.S)
    return body


def keys(text: str) -> set[str]:
    return {
        key for cell in re.findall(r"^\| (`[^|]+) \|", text, re.M) for key in cell.split("`")[1::2]
    }


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_every_key_of_a_part_is_documented_and_no_other(part):
    names = {name for name in part.model_fields if name in inspect.get_annotations(part)}
    assert keys(section(part.__name__)) == names


def test_the_arguments_are_those_of_the_app():
    (names,) = re.findall(r"val KEYS =(.*?)\n\n", KOTLIN, re.S)
    assert keys(section("Device farms")) == set(re.findall(r'"(\w+)"', names))
