"""The check that resumed work goes on with the settings that it began with."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping
from typing import Any

from tfdistill import errors
from tfdistill.io import files, reading

_LONG_VALUES = 80  # letters of two values in a message


def check_same(
    before: Mapping[str, Any],
    now: Mapping[str, Any],
    expected: str,
    remedy: str,
    *,
    what: str = "--resume",
) -> None:
    """Refuses to continue `expected`, which began with other settings, as JSON has them.

    The message names what differs, with values that are short.
    """
    changed = _differences(before, json.loads(json.dumps(now)))
    if changed:
        raise errors.ConfigError(what, expected, f"others: {', '.join(changed)}", remedy)


def check_same_file(path: files.Path, now: Mapping[str, Any], expected: str, remedy: str) -> None:
    """Does `check_same` with the JSON of an earlier session; an absent file is no beginning."""
    path = pathlib.Path(path)
    if path.is_file():
        before = reading.read_json_object(path, error=errors.ConfigError)
        check_same(before, now, expected, remedy)


def _differences(before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> list[str]:
    names = []
    for key in dict.fromkeys([*before, *now]):
        left, right = before.get(key), now.get(key)
        if isinstance(left, dict) and isinstance(right, dict):
            names += _differences(left, right, f"{prefix}{key}.")
        elif left != right:
            values = f" {right!r} instead of {left!r}"
            names.append(f"{prefix}{key}{values if len(values) < _LONG_VALUES else ''}")
    return names
