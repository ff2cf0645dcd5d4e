"""Ways to damage a file: bytes, values of JSON and YAML, lines of text, ids of shards.

Drawn by `random.Random` and not by Hypothesis, whose draws depend on the constants in the sources
of what is tested: a case that found a fault would be another one once the fault is mended.
"""

from __future__ import annotations

import json
import pathlib
import random
import struct
from collections.abc import Callable
from typing import Any

import yaml

# What a value is replaced with; a string with this mark becomes raw text.
_RAW = "\0raw:"
FORGED = "forged with all checksums: "  # no reader can tell it from what tfdistill wrote
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, -5, 1, 1.5, -0.0, 10**7, 10**9, 2**31, 2**63, -(2**63) - 1, 1e308,
    "", "x", "0", "-1", "\0", "a\0b", "../../../x", "/etc/passwd", "é" * 300, "\u2028", "\x1b[31m",
    "x" * 100_000, [], {}, [[]], [None], [1, "x"], {"x": 1}, ["x"] * 1000, {"": {}},
    f"{_RAW}NaN", f"{_RAW}Infinity", f"{_RAW}-Infinity", f"{_RAW}1e999", f"{_RAW}" + "9" * 4300,
    f"{_RAW}" + "9" * 30, f"{_RAW}" + "[" * 50_000 + "]" * 50_000, f'{_RAW}"\\ud800"',
    f"{_RAW}" + '{"a":' * 50_000 + "1" + "}" * 50_000, f"{_RAW}{'[' * 200}{']' * 200}",
)  # fmt: skip


def damage(path: pathlib.Path, others: list[pathlib.Path], draw: random.Random) -> str:
    """Damages one file in place.

    Args:
      path: The file; replaced, so that a hard link to it keeps its content.
      others: Files whose content may be swapped in.
      draw: Decides everything.

    Returns:
      What was done.
    """
    structured = _STRUCTURED.get(path.suffix)
    if structured is not None and draw.random() < 0.6:
        done = structured(path, draw)
        if done:
            return done
    return _bytes(path, others, draw)


def _replace(path: pathlib.Path, content: bytes) -> None:
    path.unlink()
    path.write_bytes(content)


def _bytes(path: pathlib.Path, others: list[pathlib.Path], draw: random.Random) -> str:
    content = path.read_bytes()
    size = len(content)
    where = draw.randrange(size + 1)
    end = min(size, where + draw.choice((1, 8, 100, 4096)))
    kind = draw.choice(
        ("bom", "crlf", "exchange parts", "link outside",
         "truncate", "empty", "zero", "zero part", "flip", "flip", "latin-1", "nul", "insert",
         "remove part", "repeat", "noise", "swap", "delete", "folder", "link to itself")
    )  # fmt: skip
    other_than_a_file = {
        "delete": lambda: None,
        "folder": path.mkdir,
        "link to itself": lambda: path.symlink_to(path.name),
        "link outside": lambda: path.symlink_to("/etc/hostname"),
    }
    if kind in other_than_a_file:
        path.unlink()
        other_than_a_file[kind]()
        return kind
    if kind == "swap":
        other = draw.choice(others)
        _replace(path, other.read_bytes())
        return f"swap with {other.name}"
    flipped = bytearray(content)
    if kind == "flip" and size:
        for _ in range(draw.choice((1, 1, 10))):
            flipped[draw.randrange(size)] ^= 1 << draw.randrange(8)
    changed = {
        "bom": lambda: b"\xef\xbb\xbf" + content,
        "crlf": lambda: content.replace(b"\n", b"\r\n"),
        "exchange parts": lambda: content[end:] + content[where:end] + content[:where],
        "truncate": lambda: content[:where],
        "empty": lambda: b"",
        "zero": lambda: bytes(size),
        "zero part": lambda: content[:where] + bytes(end - where) + content[end:],
        "flip": lambda: bytes(flipped),
        "latin-1": lambda: content[:where] + b"\xe9\xff" + content[where:],
        "nul": lambda: content[:where] + b"\0" + content[where:],
        "insert": lambda: content[:where] + draw.choice((b"\n", b'"', b"{", b"\t", b",", b"-1"))
        + content[where:],
        "remove part": lambda: content[:where] + content[end:],
        "repeat": lambda: content + content,
        "noise": lambda: draw.randbytes(min(size, 10_000) or 10),
    }[kind]()  # fmt: skip
    _replace(path, changed)
    return f"{kind} at {where} of {size}"


def _nodes(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a value."""
    nodes: list[tuple[Any, Any]] = []
    for key in value if isinstance(value, dict) else range(len(value)):
        nodes.append((value, key))
        if isinstance(value[key], dict | list):
            nodes += _nodes(value[key])
    return nodes


def _change(value: Any, draw: random.Random) -> str | None:
    nodes = _nodes(value) if isinstance(value, dict | list) else []
    if not nodes:
        return None
    done = []
    for _ in range(draw.choice((1, 1, 1, 3))):
        container, key = draw.choice(nodes)
        if key not in (container if isinstance(container, dict) else range(len(container))):
            continue
        action = draw.random()
        other_container, other = draw.choice(nodes)
        held = other_container if isinstance(other_container, dict) else range(len(other_container))
        if action < 0.2 and other in held:  # labels of another order, another file's checksum
            value_of = container[key]
            container[key], other_container[other] = other_container[other], value_of
            done.append(f"{key!r} and {other!r} exchanged")
        elif action < 0.4 and isinstance(container[key], bool | int | float | str):
            container[key] = _nearby(container[key], draw)
            done.append(f"{key!r} = {str(container[key])[:30]!r}")
        elif action < 0.75:
            container[key] = draw.choice(VALUES)
            done.append(f"{key!r} = {str(container[key])[:30]!r}")
        elif action < 0.9 or isinstance(container, list):
            del container[key]
            done.append(f"without {key!r}")
        else:
            container[draw.choice(("strange", "", "a.b", "\0"))] = draw.choice(VALUES)
            done.append("strange key")
    return ", ".join(done) or None


def _nearby(value: bool | int | float | str, draw: random.Random) -> Any:
    """A value of the same kind, as a hand that slips writes it."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + draw.choice((-1, 1, 10))
    if isinstance(value, float):
        return value * draw.choice((0.5, 1.001, -1))
    where = draw.randrange(len(value) + 1)
    return value[:where] + draw.choice(("x", " ", "0", "|", "<b>")) + value[where + 1 :]


def _raw(text: str) -> str:
    for value in VALUES:
        if isinstance(value, str) and value.startswith(_RAW):
            text = text.replace(json.dumps(value), value.removeprefix(_RAW))
    return text


def _json(path: pathlib.Path, draw: random.Random) -> str | None:
    value = json.loads(path.read_bytes())
    done = _change(value, draw)
    if done:
        _replace(path, _raw(json.dumps(value, indent=1)).encode())
    return done


def _json_lines(path: pathlib.Path, draw: random.Random) -> str | None:
    lines = path.read_text("utf-8").splitlines()
    number = draw.randrange(len(lines))
    value = json.loads(lines[number])
    done = _change(value, draw)
    lines[number] = _raw(json.dumps(value))
    _replace(path, "\n".join(lines).encode())
    return done and f"line {number + 1}: {done}"


def _yaml(path: pathlib.Path, draw: random.Random) -> str | None:
    value = yaml.safe_load(path.read_text("utf-8"))
    done = _change(value, draw)
    if done:  # JSON is YAML
        text = _raw(json.dumps(value, indent=1)).replace("Infinity", ".inf").replace("NaN", ".nan")
        _replace(path, text.encode())
    return done


def _lines(path: pathlib.Path, draw: random.Random) -> str:
    lines = path.read_text("utf-8", "replace").split("\n")
    number = draw.randrange(len(lines))
    new = draw.choice(
        ("", "\0", "a\0b", lines[0], "x" * 10_000, "\t" * 50, '"', ",,,", "é", "\x1b[2J", "\u2028",
         "9" * 4301, "-1", "nan", "[PAD]", " ", "##", "\ufeff")
    )  # fmt: skip
    action = draw.choice(("replace", "add", "remove", "cell"))
    if action == "replace":
        lines[number] = new
    elif action == "add":
        lines.insert(number, new)
    elif action == "remove":
        del lines[number]
    else:
        separator = "\t" if "\t" in lines[number] else ","
        cells = lines[number].split(separator)
        cells[draw.randrange(len(cells))] = new
        lines[number] = separator.join(cells)
    _replace(path, "\n".join(lines).encode())
    return f"{action} line {number + 1}: {new[:20]!r}"


def _safetensors(path: pathlib.Path, draw: random.Random) -> str | None:
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header, tensors = json.loads(content[8 : 8 + size]), bytearray(content[8 + size :])
    if draw.random() < 0.4:  # values that are no weights
        where = 4 * draw.randrange(max(len(tensors) // 4, 1))
        number = draw.choice((float("nan"), float("inf"), -3e38, 1e30))
        tensors[where : where + 4] = struct.pack("<f", number)
        done: str | None = f"{number} in a tensor"
    else:
        names = [name for name in header if name != "__metadata__"]
        entry = header[draw.choice(names)]
        if draw.random() < 0.5:
            name, value = draw.choice(
                [("dtype", kind) for kind in ("F64", "BF16", "F8_E4M3", "I8", "BOOL", "X", "U64")]
                + [("shape", shape) for shape in ([2**62, 2], [-1], [0], entry["shape"][::-1])]
                + [("data_offsets", header[draw.choice(names)]["data_offsets"])] * 3
            )
            entry[name] = value
            done = f"{name} {value}"
        else:
            done = _change(header, draw)
    encoded = _raw(json.dumps(header)).encode()
    _replace(path, struct.pack("<Q", len(encoded)) + encoded + bytes(tensors))
    return done


def _shard(path: pathlib.Path, draw: random.Random) -> str:
    """Writes a shard of well-formed records whose ids are no tokens, and tells the manifest."""
    import hashlib

    import tensorflow as tf

    ids = draw.choice(([-1, 3], [2**31, 3], [10**6], [2**62], [], [-(2**40)]))
    first = draw.choice((1, 0, -1, 10**9))
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    example = tf.train.Example.FromString(records[0])
    feature = example.features.feature
    feature["input_ids"].int64_list.value[:] = ids
    feature["first_length"].int64_list.value[:] = [first]
    records[0] = example.SerializeToString()
    path.unlink()
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    manifest = path.parent / "corpus.json"
    value = json.loads(manifest.read_bytes())
    for shard in value["shards"].values():
        if shard["file"] == path.name:
            content = path.read_bytes()
            shard |= {"size_bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    value.pop("checksum", None)
    _replace(manifest, json.dumps(value).encode())
    return f"{FORGED}ids {ids}, first_length {first}"


_STRUCTURED: dict[str, Callable[[pathlib.Path, random.Random], str | None]] = {
    ".json": _json,
    ".jsonl": _json_lines,
    ".yaml": _yaml,
    ".txt": _lines,
    ".tsv": _lines,
    ".csv": _lines,
    ".conll": _lines,
    ".safetensors": _safetensors,
    ".tfrecord": _shard,
}
