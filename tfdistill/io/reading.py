"""Text, JSON and YAML from outside, read within bounds: a faulty file is one error, never a crash.

Nesting, the size of integers and the number of nodes are bounded, so that no file costs more time
or memory than its size suggests, and nothing that walks a value needs bounds of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import yaml

from tfdistill import errors
from tfdistill.io import contents, files

# Bytes below 0xa0 of Western text in cp1252: euro, quotation marks, dashes, ellipsis, bullet,
# trade mark, S, Z, OE and Y with their marks.
_CP1252 = frozenset(
    b"\x80\x84\x85\x8a\x8b\x8c\x8e\x91\x92\x93\x94\x95\x96\x97\x99\x9a\x9b\x9c\x9e\x9f"
)
MAX_DEPTH = 100  # of lists and mappings inside each other
MAX_DIGITS = 20  # of an integer: uint64
_NO_LIMIT = str(int(1e30))  # the `model_max_length` that transformers writes where there is none
_MAX_KEYS = 10_000
_YAML = "YAML in UTF-8"
_MAX_YAML_NODES = 1_000_000  # with aliases counted wherever they stand

if TYPE_CHECKING:
    import pydantic

ErrorType = type[errors.TfdistillError]
ModelType = TypeVar("ModelType", bound="pydantic.BaseModel")


def validation_faults(error: pydantic.ValidationError) -> str:
    """Names the first five faults that pydantic found, each with its place in the file."""
    return "; ".join(
        f"{'.'.join(map(str, fault['loc'])) or 'file'}: {fault['msg']}"
        for fault in error.errors()[:5]
    )


def read_text(
    path: files.Path,
    *,
    error: ErrorType = errors.DataError,
    what: str = "",
    expected: str = "",
    encoding: str = "utf-8",
) -> str:
    """Reads a text file; a byte order mark of UTF-8 is dropped, line breaks stay as they are.

    A file that cannot be read, or is in another encoding, raises `error`: the message calls it
    `what` and names the line and the byte.
    """
    name = what or f"{path}"
    content = read_bytes(path, error, name)
    return decode(content, name, error=error, expected=expected, encoding=encoding)


def decode(
    content: bytes,
    name: str,
    *,
    error: ErrorType = errors.DataError,
    expected: str = "",
    encoding: str = "utf-8",
) -> str:
    """The text of a file's content; see `read_text`."""
    try:
        return content.decode("utf-8-sig" if encoding == "utf-8" else encoding)
    except UnicodeDecodeError as fault:
        likely = _likely(content)
        remedy = "Save it as UTF-8 with the program that wrote it."
        if likely:
            remedy = f"Convert the file, for example with `iconv -f {likely} -t utf-8`."
        line = content[: fault.start].count(b"\n") + 1
        raise error(
            f"{name}, line {line}",
            expected or f"{encoding.upper()} text",
            f"byte 0x{content[fault.start]:02x} at position {fault.start}",
            remedy,
        ) from None


def wide_encoding(content: bytes) -> str:
    """The encoding of text of two or four bytes a character, "" for other text.

    Told by the byte order mark, or by the half of the bytes that are zero in mostly Latin text.
    """
    if content[:4] in (b"\xff\xfe\0\0", b"\0\0\xfe\xff"):
        return "utf-32"
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    halves = [content[start:2000:2].count(0) for start in (0, 1)]
    few, many = sorted(halves)
    if many < len(content[:2000]) / 5 or few > many / 10:
        return ""
    return "utf-16-be" if halves[0] > halves[1] else "utf-16-le"


def _likely(content: bytes) -> str:
    """The encoding that text which is not UTF-8 probably has, "" where it cannot be told.

    Western text has mostly single bytes above 0x7f between letters: cp1252 where some are its
    quotation marks, dashes or the euro sign, whose bytes latin1 does not use. Where most come in
    pairs or longer rows, they are letters of another script, whose encodings cannot be told from
    each other.
    """
    if wide := wide_encoding(content):
        return wide
    high = re.findall(rb"[\x80-\xff]+", content)
    windows = {byte for run in high for byte in run if byte < 0xA0}
    several = sum(len(run) > 1 for run in high)
    if several > len(high) / 2 or len(b"".join(high)) > len(content) / 4 or windows - _CP1252:
        return ""
    return "cp1252" if windows else "latin1"


def read_json(
    path: files.Path,
    *,
    error: ErrorType = errors.DataError,
    expected: str = "JSON",
    remedy: str = "",
) -> Any:
    """Reads a JSON file.

    Raises `error` if it cannot be read, is no JSON in UTF-8, is nested deeper than `MAX_DEPTH`,
    holds an integer of more than `MAX_DIGITS` digits or a key twice, or is one of ours and has
    another checksum.
    """
    content = read_bytes(path, error, f"{path}")
    value = parse_json(content, f"{path}", error=error, expected=expected, remedy=remedy)
    return without_checksum(value, f"{path}", error=error)


def read_json_object(
    path: files.Path,
    *,
    error: ErrorType = errors.DataError,
    expected: str = "a JSON object",
    remedy: str = "",
) -> dict[str, Any]:
    """Reads a JSON file that holds an object; see `read_json`."""
    value = read_json(path, error=error, expected=expected, remedy=remedy)
    if not isinstance(value, dict):
        raise error(f"{path}", "a JSON object", f"a {type(value).__name__}", remedy)
    return value


def without_checksum(value: Any, what: str, *, error: ErrorType) -> Any:
    """A value as `files.json_text` took it: compares the checksum, if there is one."""
    if not isinstance(value, dict) or files.CHECKSUM not in value:
        return value
    if value[files.CHECKSUM] == files.checksum_of(value):
        return {key: part for key, part in value.items() if key != files.CHECKSUM}
    raise error(
        what,
        "the content that tfdistill wrote, with its checksum",
        "another content",
        f"Restore it from a copy. If you edited it on purpose, delete its line {files.CHECKSUM!r}.",
    )


def read_model(
    content: bytes,
    kind: type[ModelType],
    what: str,
    *,
    error: ErrorType,
    expected: str,
    remedy: str = "",
) -> ModelType:
    """Reads JSON as `read_json` does, as an object of a class of pydantic."""
    import pydantic

    value = parse_json(content, what, error=error, expected=expected, remedy=remedy)
    value = without_checksum(value, what, error=error)
    try:
        return kind.model_validate_json(json.dumps(value))
    except pydantic.ValidationError as fault:
        raise error(what, expected, validation_faults(fault), remedy) from fault


def parse_json(
    content: str | bytes,
    what: str,
    *,
    error: ErrorType = errors.DataError,
    expected: str = "JSON",
    remedy: str = "",
) -> Any:
    """Parses JSON as `read_json` does; messages call it `what`."""
    try:
        value = json.loads(
            content, parse_int=_bounded_integer, object_pairs_hook=_object_of_distinct_keys
        )
        _check_depth(value)
        _check_whole_characters(value, content)
    except json.JSONDecodeError as fault:
        where = what if ", line " in what else f"{what}, line {fault.lineno}"
        reason = f"a fault: {fault.msg} in column {fault.colno}"
        raise error(where, expected, reason, remedy) from None
    except (ValueError, RecursionError) as fault:
        raise error(what, expected, _fault(fault), remedy) from None
    return value


def read_yaml(path: files.Path, *, error: ErrorType = errors.ConfigError, what: str = "") -> Any:
    """Reads a YAML file within the bounds of `read_json`; plain values only."""
    text = read_text(path, error=error, what=what, expected=_YAML)
    return parse_yaml(text, what or f"{path}", error=error)


def parse_yaml(
    text: str,
    what: str,
    *,
    error: ErrorType = errors.ConfigError,
    expected: str = _YAML,
) -> Any:
    """Parses YAML as `read_yaml` does; messages call it `what`."""
    try:
        value = yaml.load(text, _Loader)
        _check_depth(value, max_nodes=_MAX_YAML_NODES)
        _check_whole_characters(value, text)
    except (yaml.YAMLError, ValueError, RecursionError) as fault:
        raise error(what, expected, _fault(fault)) from None
    return value


class _Loader(yaml.SafeLoader):
    """Plain values, with bounded integers and merges; tags go: their constructors may fail."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        tag = getattr(self.peek_event(), "tag", None)
        if tag not in (None, "!"):
            raise ValueError(f"the tag {tag!r}")
        return super().compose_node(parent, index)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)  # a key that several merges bring stands there several times
        if len(node.value) > _MAX_KEYS:
            raise ValueError(f"a mapping of more than {_MAX_KEYS} keys")


def _yaml_integer(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    number = 10**MAX_DIGITS
    if len(node.value) <= 4 * MAX_DIGITS:  # binary, with underscores
        number = loader.construct_yaml_int(node)
    if abs(number) >= 10**MAX_DIGITS:
        raise ValueError(f"an integer of more than {MAX_DIGITS} digits")
    return number


def _yaml_mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> Iterator[dict[Any, Any]]:
    """Refuses a key that occurs twice: YAML's own rule, and the first would be lost unseen."""
    seen = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
            if key.value in seen:
                raise ValueError(
                    f"the key {key.value!r} twice, again on line {key.start_mark.line + 1}"
                )
            seen.add(key.value)
    return loader.construct_yaml_map(node)


_Loader.add_constructor("tag:yaml.org,2002:int", _yaml_integer)
_Loader.add_constructor("tag:yaml.org,2002:map", _yaml_mapping)
_Loader.add_constructor("tag:yaml.org,2002:timestamp", yaml.SafeLoader.construct_yaml_str)


def read_bytes(path: files.Path, error: ErrorType, what: str) -> bytes:
    """The content of a file; raises `error` where it cannot be read."""
    try:
        return contents.content_of(path)
    except (OSError, ValueError) as fault:  # ValueError: a null character in the path
        reason = fault.strerror if isinstance(fault, OSError) else None
        raise error(what, "a file that can be read", (reason or str(fault)).lower()) from None


def _bounded_integer(digits: str) -> int:
    if len(digits.lstrip("-")) > MAX_DIGITS and digits != _NO_LIMIT:
        raise ValueError(f"an integer of {len(digits)} digits")
    return int(digits)


def _object_of_distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuses a key that occurs twice: JSON's readers differ in which value they take."""
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} twice")
    return value


def _check_whole_characters(value: Any, content: str | bytes) -> None:
    """Refuses half of a surrogate pair, which no file can be written with."""
    escaped = b"\\ud" if isinstance(content, bytes) else "\\ud"
    if escaped in content.lower():  # type: ignore[operator]
        json.dumps(value, ensure_ascii=False).encode()


def _check_depth(value: Any, max_nodes: int | None = None) -> None:
    """Refuses what is nested too deep, without recursion."""
    level, depth, nodes = [value], 0, 0
    while level:
        below: list[Any] = []
        for node in level:
            if isinstance(node, dict):
                below += node.values()
            elif isinstance(node, list):
                below += node
            if max_nodes is not None and nodes + len(below) > max_nodes:
                raise ValueError(f"more than {max_nodes} nodes")
        nodes += len(below)
        depth += 1
        if depth > MAX_DEPTH + 1:
            raise ValueError(f"more than {MAX_DEPTH} levels of nesting")
        level = below


def _fault(fault: Exception) -> str:
    if isinstance(fault, RecursionError):
        return f"more than {MAX_DEPTH} levels of nesting"
    if isinstance(fault, UnicodeEncodeError):
        return "half of a surrogate pair"
    return f"a fault: {' '.join(str(fault).split())}"
