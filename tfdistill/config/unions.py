"""Sections of several kinds: a key names the class, which has only the options that it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def without_former_defaults(
    values: Any, section: type[Section], former: Mapping[str, Any]
) -> dict[str, Any]:
    """Drops options that the kind does not read and that have the default they once had.

    Recipes that earlier versions saved write every option of every kind out in each section.

    Args:
      values: The section, as plain values.
      section: The class of its kind.
      former: Option -> its default when all kinds had the same options.

    Returns:
      The values that count.
    """
    if not isinstance(values, Mapping):
        return values
    return {
        option: value
        for option, value in values.items()
        if option in section.model_fields or option not in former or plain(value) != former[option]
    }


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


def plain(value: Any) -> Any:
    """Lists and tuples are the same to a recipe."""
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
