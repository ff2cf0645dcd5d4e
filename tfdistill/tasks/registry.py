"""Tables that packages above, and other projects, add to."""

from __future__ import annotations

from typing import Any

from tfdistill import errors


def add(table: dict[str, Any], name: str, value: Any, what: str) -> None:
    """Adds a value to a table under a name that it does not have yet; `what` is what it holds."""
    if name in table:
        remedy = "Give it another name."
        raise errors.ConfigError(what, "a name that is not taken", repr(name), remedy)
    table[name] = value
