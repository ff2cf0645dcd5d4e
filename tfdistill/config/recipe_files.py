"""Recipe files: found by name, laid over what they extend, overridden, validated."""

from __future__ import annotations

import copy
import functools
import importlib.resources
import logging
import os
import pathlib
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

import pydantic
import yaml

from tfdistill import errors
from tfdistill.config.cross_checks import cross_faults
from tfdistill.config.recipe import Recipe
from tfdistill.config.schema import Section, SectionType, unknown_key
from tfdistill.config.sections import SHORTHANDS, spelled_out
from tfdistill.config.stages import STAGE_SECTIONS, Stage
from tfdistill.config.training import COMPRESS_SECTIONS, CompressConfig
from tfdistill.io import reading, safe_paths

RECIPE_FILE = "recipe.yaml"
"""The recipe of a run folder."""
ENVIRONMENT_FILE = "environment.json"
"""What a run began with: versions, devices, and the checksum of its recipe."""
_log = logging.getLogger(__name__)
_ANY = object()
# Keys of earlier versions, which wrote every key into recipe.yaml, with their defaults: one that
# holds its default is dropped. Of a run's, those that change no model are dropped in any case.
_RETIRED = {"data.placeholder_data": False, "export.variants.npu": _ANY}
_WITHOUT_EFFECT = {"data.placeholder_data", "export.variants.npu"}


def recipes() -> dict[str, pathlib.Path]:
    """Returns the named recipes that come with tfdistill: name -> file."""
    folder = pathlib.Path(str(importlib.resources.files("tfdistill"))) / "recipes"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def find_recipe(name: str) -> pathlib.Path:
    """Finds a recipe by name, or takes a path to a YAML file."""
    named = recipes()
    if name in named:
        return named[name]
    path = pathlib.Path(name)
    if path.suffix in (".yaml", ".yml") and path.is_file():
        return path
    close = errors.nearest(name, named)
    hint = f"{close} " if close.startswith("Did") else ""  # nobody reads a list of all of them
    received = f"{name!r}: a folder" if path.is_dir() else repr(name)
    if path.is_file():
        received = f"{name!r}, a file of another kind"
    raise errors.ConfigError(
        "recipe",
        "a known name or an existing .yaml file",
        received,
        f"{hint}Try `tfdistill recipes ls`.",
    )


def load_recipe(source: str, overrides: Sequence[str] = ()) -> Recipe:
    """Reads a recipe, applies overrides and validates the whole.

    Args:
      source: The name of a recipe or a path to a YAML file.
      overrides: Assignments "dotted.key=value"; the value is YAML.

    Raises:
      ConfigError: With every fault, a line each.

    Examples:
      >>> recipe = tfdistill.load_recipe("tinybert_4l", ["data.max_length=64", "seeds=[1, 2]"])
      >>> recipe.data.max_length, recipe.seeds
      (64, (1, 2))
    """
    errors.check_types(source=(source, (str, os.PathLike)))
    path = find_recipe(os.fspath(source))
    return parse_recipe(_read_recipe(path), overrides, source=path.name)


def _read_recipe(path: pathlib.Path, above: tuple[pathlib.Path, ...] = ()) -> dict[str, Any]:
    """Reads a recipe file and lays it over the one that it ``extends``, if it does."""
    values = reading.read_yaml(path, what=f"recipe {path.name}")
    if not isinstance(values, dict):
        raise errors.ConfigError(f"recipe {path.name}", "a mapping", type(values).__name__)
    _drop_retired(values, path)
    if "extends" not in values:
        return values
    base = values.pop("extends")
    files = recipes()
    base_file = files.get(str(base)) or _beside(path, str(base))
    if base_file is None:
        raise errors.ConfigError(
            f"recipe {path.name}, extends",
            "the name of a recipe or a file in this one's folder",
            repr(base),
            errors.nearest(str(base), files),
        )
    if base_file in (*above, path.resolve()):
        raise errors.ConfigError(
            f"recipe {path.name}, extends", "a recipe that ends the chain", base
        )
    return _laid_over(_read_recipe(base_file, (*above, path.resolve())), values)


def _drop_retired(values: dict[str, Any], path: pathlib.Path | None = None) -> None:
    """Removes the keys of `_RETIRED`, of a file's if `path`; others not known are faults."""
    of_run = path and path.name == RECIPE_FILE and path.with_name(ENVIRONMENT_FILE).is_file()
    for key, default in _RETIRED.items():
        *parents, last = key.split(".")
        section: Any = values
        for parent in parents:
            section = section.get(parent) if isinstance(section, dict) else None
        if not isinstance(section, dict) or last not in section:
            continue
        holds_default = section[last] == default
        if holds_default or (of_run and key in _WITHOUT_EFFECT):
            del section[last]
            if not holds_default:
                _left_out(str(path), key)


@functools.cache  # a command reads the recipe of a run several times
def _left_out(path: str, key: str) -> None:
    _log.warning("%s: %s is left out: see Removed in CHANGELOG.md", path, key)


def _beside(path: pathlib.Path, name: str) -> pathlib.Path | None:
    try:
        file = safe_paths.inside(path.parent, name)
    except errors.ManifestError:
        return None
    return file if file.is_file() else None


def _laid_over(base: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Replaces values of `base`, mapping by mapping.

    Variants are an ordered comparison: where they are given, they replace those of the base.
    """
    merged = dict(base)
    for key, value in values.items():
        under = merged.get(key)
        if isinstance(value, Mapping) and isinstance(under, Mapping) and key != "variants":
            merged[key] = _laid_over(dict(under), value)
        elif isinstance(value, Mapping) and isinstance(under, str) and key in SHORTHANDS:
            merged[key] = {SHORTHANDS[key]: under, **value}
        else:
            merged[key] = value
    return merged


def parse_recipe(
    values: dict[str, Any], overrides: Sequence[str] = (), *, source: str = "recipe"
) -> Recipe:
    """Validates a recipe given as plain values, which stay as they are; names every fault.

    `overrides` are assignments "dotted.key=value"; the value is YAML. Messages call it `source`.
    """
    values = copy.deepcopy(values)
    _drop_retired(values)
    stages = values.get("stages")
    named: set[str] = set(stages) if isinstance(stages, dict) else set()
    values = _assigned(values, overrides)
    _check_stages(overrides, values, named)
    return parse_section(Recipe, values, source=source)


def parse_section(
    section: type[SectionType],
    values: dict[str, Any],
    overrides: Sequence[str] = (),
    *,
    source: str,
    place: str = "",
) -> SectionType:
    """Validates one section given as plain values, which a recipe has in `place`.

    `overrides` are assignments "key=value" inside the section; the value is YAML.
    """
    values = _assigned(values, overrides)
    try:
        return section.model_validate(values)
    except pydantic.ValidationError as error:
        faults = _faults_of(error, section, values)
        faults = [f"{place}.{fault}" if place else fault for fault in faults]
        count = f"{len(faults)} fault{'s' if len(faults) > 1 else ''}"
        raise errors.ConfigError("\n  - ".join([f"{source}: {count}.", *faults])) from error


def _faults_of(
    error: pydantic.ValidationError, section: type[Section], values: Mapping[str, Any]
) -> list[str]:
    """The faults inside the sections, then those between the sections that are valid."""
    # A list that is too short and not empty only lacks elements that were faults themselves.
    inside = (f for f in error.errors() if not (f["type"] == "too_short" and f["input"]))
    faults = list(dict.fromkeys(_describe(fault, section) for fault in inside))
    if section is Recipe and all(fault["loc"] for fault in error.errors()):
        faults += cross_faults(_valid_sections(spelled_out(values)))
    return faults


def _valid_sections(values: Mapping[str, Any]) -> Any:
    """The sections that are valid by themselves, and None for the others; of stages each one."""
    sections: dict[str, Any] = {}
    for name, field in Recipe.model_fields.items():
        value = values.get(name, field.get_default(call_default_factory=True))
        if typing.get_origin(field.annotation) is dict and isinstance(value, Mapping):
            _, kind = typing.get_args(field.annotation)
            sections[name] = {key: _validated(kind, part) for key, part in value.items()}
        else:
            sections[name] = _validated(field.annotation, value)
    return types.SimpleNamespace(**sections)


def _validated(kind: Any, value: Any) -> Any:
    try:
        return pydantic.TypeAdapter(kind).validate_python(value)
    except pydantic.ValidationError:
        return None


def dump_recipe(recipe: Recipe) -> str:
    """Writes a recipe as YAML that `load_recipe` reads back to an equal value."""
    return yaml.safe_dump(recipe.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def without_defaults(recipe: Recipe) -> str:
    """Writes a recipe as YAML without the values that it has by default; equal when read back."""
    values = recipe.model_dump(mode="json", exclude_defaults=True)
    kinds = {name: {"kind": stage.kind} for name, stage in recipe.stages.items()}
    values["stages"] = {name: {**kinds[name], **values["stages"][name]} for name in kinds}
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


def _assigned(values: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    values = copy.deepcopy(values)
    for assignment in overrides:
        key, separator, text = assignment.partition("=")
        if not separator or not key:
            raise errors.ConfigError("--set", "dotted.key=value", repr(assignment))
        value = reading.parse_yaml(text, f"--set {key}", expected="a YAML value") if text else None
        *parents, last = key.split(".")
        section: Any = values
        for parent in parents:
            inner = section.get(parent)
            if isinstance(inner, str) and parent in SHORTHANDS:
                inner = {SHORTHANDS[parent]: inner}
            section[parent] = inner = inner if isinstance(inner, dict) else {}
            section = inner
        shorthand = SHORTHANDS.get(key)
        if shorthand and isinstance(value, str) and isinstance(section.get(last), dict):
            section[last][shorthand] = value
        else:
            section[last] = value
    return values


def _check_stages(overrides: Sequence[str], values: Mapping[str, Any], named: set[str]) -> None:
    """Refuses options of a stage that neither the recipe nor another assignment names."""
    stages = values.get("stages")
    for assignment in overrides:
        key = assignment.partition("=")[0]
        section, _, rest = key.partition(".")
        name = rest.partition(".")[0]
        stage = stages.get(name) if isinstance(stages, Mapping) else None
        if section == "stages" and name not in named and "kind" not in (stage or ()):
            hint = errors.nearest(name, named)
            raise errors.ConfigError(f"--set {key}: no stage {name!r}. {hint}")


# What a field wants, by the kind of fault that pydantic finds.
_WANTED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "finite_number": "a finite number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "string_pattern_mismatch": "text of the form {pattern}",
    "tuple_type": "a list such as [a, b]",
    "dict_type": "keys with values",
    "model_type": "keys with values",
    "model_attributes_type": "keys with values",
    "literal_error": "{expected}",
    "too_short": "at least {min_length} of them",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
}


def _describe(fault: Any, section: type[Section]) -> str:
    location, *sections = _without_tags(fault["loc"])
    where = ".".join(str(part) for part in location if "[" not in str(part))
    if fault["type"] == "extra_forbidden":
        at = sections or [_section_at(section, location[:-1])] * 2
        return f"{where}: {unknown_key(str(location[-1]), *at)}"
    message = fault["msg"].removeprefix("Value error, ")
    if fault["type"] == "missing":
        return f"{where}: missing. It is required"
    if not where:
        return message.replace("\n", "\n  - ")
    if fault["type"] == "value_error":
        return f"{where}: {message}" if message.startswith("expected ") else f"{where}.{message}"
    if fault["type"] not in _WANTED:
        return f"{where}: {message}, received {fault.get('input')!r}"
    wanted = _WANTED[fault["type"]].format_map(fault.get("ctx", {}))
    return errors.explain(where, wanted, repr(fault.get("input")))


def _without_tags(location: Sequence[Any]) -> tuple[Any, ...]:
    """Takes the kinds out of a location; with the section of the innermost kind and its base."""
    match location:
        case ["stages", name, _, "compress", method, *rest]:
            section = COMPRESS_SECTIONS.get(method, CompressConfig)
            return ["stages", name, "compress", *rest], section, CompressConfig
        case ["stages", name, kind, *rest]:
            section = STAGE_SECTIONS.get(kind, Stage)
            return ["stages", name, *rest], section, Stage
        case _:
            return (location,)


def _section_at(section: type[Section], location: Sequence[Any]) -> type[Section]:
    for part in location:
        field = section.model_fields.get(str(part))
        inner = () if field is None else (field.annotation, *typing.get_args(field.annotation))
        sections = [kind for kind in inner if isinstance(kind, type) and issubclass(kind, Section)]
        section = sections[0] if sections else section
    return section
