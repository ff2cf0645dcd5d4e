"""What every section of a recipe is, and sections of several kinds.

Of several kinds is a section in which one key names the kind. A base class declares the options of
all kinds; a table says which of them a kind reads, and with which defaults. A kind that does not
read an option refuses it, and shows readers of the code the default of the base class.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar, Union

import pydantic

from tfdistill import errors

Tokens = Annotated[int, pydantic.Field(ge=3, le=512)]  # [CLS], a word and [SEP] at least
Steps = Annotated[int, pydantic.Field(gt=0, le=10**8)]  # batches or epochs of a training
BatchSize = Annotated[int, pydantic.Field(gt=0, le=2**16)]  # examples, or batches of an update
Width = Annotated[int, pydantic.Field(gt=0, le=2**16)]  # of a layer
HIGHEST_RATE = 10.0
Rate = Annotated[float, pydantic.Field(gt=0, le=HIGHEST_RATE)]
Share = Annotated[float, pydantic.Field(ge=0, le=1)]
Weight = Annotated[float, pydantic.Field(ge=0)]  # of a loss
_SMALLEST, _LARGEST = 1e-30, 1e30  # of numbers whose products are to fit float32
Seed = Annotated[int, pydantic.Field(ge=0, le=2**32 - 1)]  # of NumPy and TensorFlow


class Section(pydantic.BaseModel):
    """A part of a recipe: every key known, nothing changed later, every number one of float32."""

    model_config = pydantic.ConfigDict(
        extra="forbid", protected_namespaces=(), frozen=True, allow_inf_nan=False
    )

    @pydantic.field_validator("*")
    @classmethod
    def _numbers_fit_float32(cls, value: Any) -> Any:
        for number in _numbers_in(value):
            if number and not _SMALLEST <= abs(number) <= _LARGEST:
                raise ValueError(
                    f"expected 0 or a number from {_SMALLEST:g} to {_LARGEST:g}, which float32 "
                    f"holds, received {errors.shortened(repr(number))}"
                )
        return value


def each_once(values: Sequence[Any] | None) -> Sequence[Any] | None:
    """Refuses a list that names a value twice: it would be made twice, under one name."""
    if values is not None and len(set(values)) < len(values):
        raise ValueError(f"expected each value once, received {list(values)}")
    return values


def _numbers_in(value: Any) -> Iterator[float]:
    """The numbers of a value, at any depth of its lists and mappings."""
    if isinstance(value, (int, float)):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _numbers_in(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _numbers_in(part)


SectionType = TypeVar("SectionType", bound=Section)
UNKNOWN = "unknown"  # the tag of values that name no kind


def described(default: Any, description: str, **limits: Any) -> Any:
    """A field whose description is also the help of the command line's option.

    The description is in lower case without a full stop; `limits` are those of `pydantic.Field`.
    """
    return pydantic.Field(default, description=description, **limits)


def section_of(
    base: type[SectionType],
    key: str,
    kind: str,
    *,
    readers: Mapping[str, Collection[str]],
    what: str,
    defaults: Mapping[str, Any],
    types: Mapping[str, Any],
) -> type[SectionType]:
    """Derives the section of one kind from the section that has the options of all.

    `key` is the option that names the kind. `readers` has the kinds that read an option; all read
    one that is not in it. `defaults` and `types` are the kind's where those of `base` are others.
    `what` says what a kind is called, such as "in a stage of kind".
    """
    fields: dict[str, Any] = {key: (Literal[kind], kind)}
    for option, kinds in readers.items():
        if kind not in kinds:
            refusal = pydantic.BeforeValidator(_refusal(kind, kinds, what))
            unread = pydantic.Field(base.model_fields[option].default, exclude=True)
            fields[option] = (Annotated[Any, refusal], unread)
    for option in {**defaults, **types}:
        info = base.model_fields[option]
        annotation = Annotated[types.get(option, info.annotation), info]
        fields[option] = (annotation, defaults.get(option, info.default))
    return pydantic.create_model(kind, __base__=base, __module__=base.__module__, **fields)


def _refusal(kind: str, kinds: Collection[str], what: str) -> Any:
    def refuse(value: Any) -> Any:
        raise ValueError(
            f"expected none {what} {kind}, which does not read it, received {value!r}. "
            f"Those that do: {', '.join(kinds)}"
        )

    return refuse


def union_of(
    base: type[Section], key: str, sections: Mapping[str, type[Section]], varying: Collection[str]
) -> Any:
    """Makes the type of a section of several kinds: a discriminated union over the option `key`.

    A value that names no kind always fails, and all its other options are checked: a misspelt kind
    hides none of their faults. `varying` are the options whose type is another in some kinds.
    """
    open_options = {option: (Any, base.model_fields[option].default) for option in varying}
    named: Any = (Literal[tuple(sections)], ...)
    unknown = pydantic.create_model(UNKNOWN, __base__=base, **{**open_options, key: named})

    def tag(value: Any) -> str:
        kind = value.get(key) if isinstance(value, Mapping) else getattr(value, key, None)
        return kind if isinstance(kind, str) and kind in sections else UNKNOWN

    tagged = {**sections, UNKNOWN: unknown}
    members = tuple(Annotated[section, pydantic.Tag(kind)] for kind, section in tagged.items())
    return Annotated[Union[members], pydantic.Discriminator(tag)]  # noqa: UP007


def unknown_key(option: str, section: type[Section], base: type[Section]) -> str:
    """Says that there is no such option: with the nearest that the kind reads, or another kind."""
    fields = ({n: i for n, i in s.model_fields.items() if not i.exclude} for s in (section, base))
    hints = [errors.nearest(option, read) for read in fields]
    close = [hint for hint in hints if hint.startswith("Did")]
    return f"unknown key. {(close or hints)[0]}"
