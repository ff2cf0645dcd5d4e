"""The parts of the JSON files beside a model, which later versions may add keys to."""

from __future__ import annotations

import typing
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import pydantic

FORMAT_VERSION = 1

Sha256 = Annotated[str, pydantic.StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class ManifestPart(pydantic.BaseModel):
    """A part of a manifest: it ignores unknown keys, and its values do not change."""

    model_config = pydantic.ConfigDict(extra="ignore", frozen=True, protected_namespaces=())


class ManifestFile(ManifestPart):
    """The whole of a file whose readers may be older than it, such as an app that is installed.

    A reader ignores the keys that it does not know, and refuses a file that lists one of them in
    `requires`: without it the file would be misread. A nested key is written with dots, without
    the keys of maps and the numbers of lists ("variants.parity").
    """

    format_version: Literal[1] = FORMAT_VERSION
    requires: tuple[str, ...] = ()

    @pydantic.field_validator("requires")
    @classmethod
    def _reads_what_is_required(cls, paths: tuple[str, ...]) -> tuple[str, ...]:
        if unread := [path for path in paths if not _reads(cls, path.split("."))]:
            raise ValueError(
                f"expected keys that this version reads, received {', '.join(unread)}. "
                "Update tfdistill."
            )
        return paths


def _reads(part: Any, keys: Sequence[str]) -> bool:
    """Whether a type, or one in it as in `dict[str, Part] | None`, has fields of these names."""
    if not keys:
        return True
    if isinstance(part, type) and issubclass(part, ManifestPart):
        field = part.model_fields.get(keys[0])
        return field is not None and _reads(field.annotation, keys[1:])
    return any(_reads(inner, keys) for inner in typing.get_args(part))
