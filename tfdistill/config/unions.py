"""Sections of several kinds: a key names the class, which has only the options that it reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Union

import pydantic

from tfdistill import errors
from tfdistill.config.training import Section

UNKNOWN = "unknown"  # the tag of values that name no class


def union_of(name: str, key: str, classes: Mapping[str, type[Section]]) -> Any:
    """Makes the type of a section whose `key` names one of several classes.

    Args:
      name: A name for the class of sections whose kind is unknown.
      key: The option that names the kind.
      classes: Kind -> class.

    Returns:
      A discriminated union.
    """

    def tag(value: Any) -> str:
        kind = value.get(key) if isinstance(value, Mapping) else getattr(value, key, None)
        return kind if isinstance(kind, str) and kind in classes else UNKNOWN

    tagged = {**classes, UNKNOWN: _any_of(name, key, classes)}
    members = tuple(Annotated[section, pydantic.Tag(kind)] for kind, section in tagged.items())
    return Annotated[Union[members], pydantic.Discriminator(tag)]  # noqa: UP007


def _any_of(name: str, key: str, classes: Mapping[str, type[Section]]) -> type[Section]:
    """Makes the class for values that name no kind: it always fails, and checks all the rest.

    Without it a misspelt kind would hide the faults of every other option of the section.
    """
    fields: dict[str, Any] = {}
    for section in classes.values():
        for option, field in section.model_fields.items():
            same = option not in fields or fields[option][0] == field.annotation
            fields[option] = (field.annotation, field) if same else (Any, None)
    fields[key] = (Literal[tuple(classes)], ...)
    return pydantic.create_model(name, __base__=Section, **fields)


def readers(option: str, classes: Mapping[str, type[Section]]) -> list[str]:
    """Returns the kinds that read an option."""
    return [kind for kind, section in classes.items() if option in section.model_fields]


def describe_extra(
    where: str, option: str, value: Any, kind: str, what: str, classes: Mapping[str, type[Section]]
) -> str:
    """Describes an option that a kind does not have: the kinds that do, or the nearest name.

    Args:
      where: The dotted path of the option.
      option: Its name.
      value: What was given.
      kind: The kind.
      what: What a kind is called, such as "in a stage of kind".
      classes: Kind -> class.

    Returns:
      A line for the list of faults.
    """
    others = readers(option, classes)
    if not others:
        every = list(dict.fromkeys(o for c in classes.values() for o in c.model_fields))
        own = list(classes[kind].model_fields) if kind in classes else every
        hints = [errors.nearest(option, known) for known in (own, every)]
        close = [hint for hint in hints if hint.startswith("Did")]
        return f"{where}: unknown key. {(close or hints)[0]}"
    return (
        f"{where}: expected none {what} {kind}, which does not read it, received {value!r}. "
        f"Those that do: {', '.join(others)}"
    )
