"""The page that programs in other languages are written from says all that the code reads."""

from __future__ import annotations

import inspect
import pathlib
import re

import pytest

from tfdistill.benchmark import schema
from tfdistill.benchmark.adb import app_protocol
from tfdistill.benchmark.settings import Settings

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "reference" / "benchmark-protocol.md"
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


def test_the_extras_are_documented_with_their_types():
    documented = re.findall(r"^\| `(\w+)` \| `(--e[sif])` \|", section("Start"), re.M)
    arguments = app_protocol.start_arguments(
        "a.b",
        "x",
        "y",
        Settings(),
        lengths=(8,),
        delegate="xnnpack",
        repetition=0,
        sustained_seconds=0,
    )
    assert documented == list(zip(arguments[7::3], arguments[6::3], strict=True))


def test_the_state_that_is_shown_is_one():
    (shown,) = re.findall(r"```json\n(.*?)\n```", section("State and result"), re.S)
    state = app_protocol.parse_state(shown, "the page")
    assert (state.finished, state.of) == (3, 12)
    assert keys(section("State and result")) == set(app_protocol.State.model_fields) - {
        "format_version"
    }
    assert app_protocol.folder_of("PACKAGE") + "/" in section("State and result")
