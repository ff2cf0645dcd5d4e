"""LiteRT's own profiler: how long each operator of a file takes, inside XNNPACK, too.

The Python package ships LiteRT's C library, whose compiled model has a profiler, but has no Python
call for it: the library is called directly. It reports whole microseconds.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import itertools
import math
import os
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from ctypes import byref, c_char_p, c_int, c_int32, c_size_t, c_uint, c_uint32, c_void_p
from typing import Any

import numpy as np
from ai_edge_litert import interpreter as litert

from tfdistill.tflite.signature import Signature

_LIBRARIES = ("libLiteRt.so", "libLiteRt.dylib", "libLiteRt.dll")
_MOST_RUNS = 50  # each is followed by a page of text
_CPU = 1  # LiteRT's bit for this kind of accelerator
_WRITE = 1  # of a buffer's locks
_KERNELS = {"xnnpack": 0, "none": 2}  # XNNPACK; LiteRT's own kernels
_ROW = re.compile(
    r"^\s*(?P<type>\S.*?)\s+[\d.]+\s+[\d.]+\s+(?P<ms>\d+\.\d+)\s+[\d.]+%\s+[\d.]+%\s+\S+\s+\d+\s"
)


class _Layout(ctypes.Structure):
    _fields_ = (
        ("rank", c_uint, 7),
        ("has_strides", c_uint, 1),
        ("dimensions", c_int32 * 8),
        ("strides", c_uint32 * 8),
    )


class _TensorType(ctypes.Structure):
    _fields_ = (("element", c_int), ("layout", _Layout))


class ProfiledModel:
    """A file opened in LiteRT's compiled model with its profiler; delegate is "xnnpack" or "none".

    The signature is None for a file that has none. Raises RuntimeError if this version of LiteRT
    has no such library or function, or refuses the file.
    """

    def __init__(self, file: str, signature: str | None, *, threads: int, delegate: str) -> None:
        folder = pathlib.Path(litert.__file__).parent
        library = next((folder / name for name in _LIBRARIES if (folder / name).is_file()), None)
        if library is None:
            raise RuntimeError(f"this build of ai_edge_litert has no {_LIBRARIES[0]}")
        self._library = ctypes.CDLL(str(library))
        self._environment = self._make("CreateEnvironment", 0, None)
        model = self._make("CreateModelFromFile", self._environment, os.fsencode(file))
        self._compiled = self._compile(model, threads, delegate)
        self._profiler = self._make("CompiledModelGetProfiler", self._compiled)
        self._index, handle = self._find(model, signature)
        self._inputs = dict(self._buffers("Input", handle))
        self._outputs = dict(self._buffers("Output", handle))

    def run(self, feed: Mapping[str, np.ndarray]) -> None:
        """Writes inputs, by name, and runs the model once."""
        for name, buffer in self._inputs.items():
            values = np.ascontiguousarray(feed[name])
            self._check_size(name, buffer, values.nbytes)
            address = c_void_p()
            self._call("LockTensorBuffer", buffer, byref(address), _WRITE)
            ctypes.memmove(address, values.ctypes.data, values.nbytes)
            self._call("UnlockTensorBuffer", buffer)
        inputs = (c_void_p * len(self._inputs))(*(b.value for b in self._inputs.values()))
        outputs = (c_void_p * len(self._outputs))(*(b.value for b in self._outputs.values()))
        counts = c_size_t(len(inputs)), c_size_t(len(outputs))
        self._call(
            "RunCompiledModel", self._compiled, self._index, counts[0], inputs, counts[1], outputs
        )

    @contextlib.contextmanager
    def profile(self) -> Iterator[list[tuple[str, float]]]:
        """Gives a list that holds, after the block, `rows_of` what ran inside it."""
        rows: list[tuple[str, float]] = []
        self._call("ResetProfiler", self._profiler)
        self._call("StartProfiler", self._profiler)
        yield rows
        self._call("StopProfiler", self._profiler)
        summary = c_char_p()
        self._call("GetProfileSummary", self._profiler, self._compiled, byref(summary))
        rows += rows_of((summary.value or b"").decode(errors="replace"))

    def _compile(self, model: c_void_p, threads: int, delegate: str) -> c_void_p:
        options = self._make("CreateOptions")
        self._call("SetOptionsHardwareAccelerators", options, _CPU)
        self._texts = {  # LiteRT reads them when it compiles
            b"runtime_options_string": b"enable_profiling = true\n",
            b"xnnpack": b"num_threads = %d\nkernel_mode = %d\n" % (threads, _KERNELS[delegate]),
        }
        self._keep = ctypes.CFUNCTYPE(None, c_void_p)(lambda _: None)  # Python frees them
        for name, text in self._texts.items():
            opaque = self._make("CreateOpaqueOptions", name, text, self._keep)
            self._call("AddOpaqueOptions", options, opaque)
        return self._make("CreateCompiledModel", self._environment, model, options)

    def _find(self, model: c_void_p, key: str | None) -> tuple[c_size_t, c_void_p]:
        for i in range(self._count("GetNumModelSignatures", model)):
            signature = self._make("GetModelSignature", model, c_size_t(i))
            name = c_char_p()
            self._call("GetSignatureKey", signature, byref(name))
            if key is None or (name.value or b"").decode() == key:
                return c_size_t(i), signature
        raise RuntimeError(f"LiteRT finds no signature {key!r}")

    def _buffers(self, kind: str, signature: c_void_p) -> Iterator[tuple[str, c_void_p]]:
        for i in range(self._count(f"GetNumSignature{kind}s", signature)):
            name, shape = c_char_p(), _TensorType()
            self._call(f"GetSignature{kind}Name", signature, c_size_t(i), byref(name))
            tensor = self._make(f"GetSignature{kind}TensorByIndex", signature, c_size_t(i))
            self._call("GetRankedTensorType", tensor, byref(shape))
            needed = self._make(
                f"GetCompiledModel{kind}BufferRequirements",
                self._compiled,
                self._index,
                c_size_t(i),
            )
            buffer = c_void_p()
            self._call(
                "CreateManagedTensorBufferFromRequirements",
                *(self._environment, byref(shape), needed, byref(buffer)),
            )
            yield (name.value or b"").decode(), buffer

    def _check_size(self, name: str, buffer: c_void_p, size: int) -> None:
        room = self._count("GetTensorBufferPackedSize", buffer)
        if room != size:
            raise RuntimeError(f"input {name}: expected {room} bytes, received {size}")

    def _count(self, name: str, *arguments: Any) -> int:
        count = c_size_t()
        self._call(name, *arguments, byref(count))
        return count.value

    def _make(self, name: str, *arguments: Any) -> c_void_p:
        handle = c_void_p()
        self._call(name, *arguments, byref(handle))
        return handle

    def _call(self, name: str, *arguments: Any) -> None:
        function = getattr(self._library, f"LiteRt{name}", None)
        if function is None:
            raise RuntimeError(f"this version of LiteRT has no LiteRt{name}")
        status = function(*arguments)
        if status:
            raise RuntimeError(f"LiteRt{name} gave status {status}")


def rows_of(summary: str) -> list[tuple[str, float]]:
    """Reads the operators of one inference from the profiler's summary: name and milliseconds each.

    The text has a table in the order of the run, which is kept, and the same again in another
    order. What XNNPACK ran has "Delegate/" before its name. Raises RuntimeError if there is no such
    table.
    """
    first = re.split(r"^=+ .* =+$", summary, flags=re.MULTILINE)[1:2]
    matches = [_ROW.match(line) for line in "".join(first).splitlines()]
    rows = [(row["type"], float(row["ms"])) for row in matches if row is not None]
    if not rows or not all(math.isfinite(ms) for _, ms in rows):
        raise RuntimeError(f"LiteRT's profiler gave no table of operators: {summary[:200]!r}")
    return rows


def operators(job: dict[str, Any]) -> dict[str, Any]:
    """Measures where the time of an inference goes, operator by operator, as `mean_of_quiet` says.

    The job has file, signature, feeds, threads, delegate, warmup, runs.
    """
    signature = Signature.from_json(job["signature"])
    model = ProfiledModel(
        job["file"], signature.key, threads=job["threads"], delegate=job["delegate"]
    )
    names = [tensor.name for tensor in signature.inputs]
    feeds = [signature.padded(**feed) for feed in job["feeds"]]
    named = [dict(zip(names, values, strict=True)) for values in feeds]
    for i in range(max(job["warmup"], 1)):
        model.run(named[i % len(named)])
    runs = []
    for i in range(min(job["runs"], _MOST_RUNS)):
        with model.profile() as rows:
            model.run(named[i % len(named)])
        runs.append(rows)
    return {"operators": mean_of_quiet(runs)}


def mean_of_quiet(runs: Sequence[Sequence[tuple[str, float]]]) -> list[dict[str, Any]]:
    """Averages profiled runs over the faster half of them: shares add up, pauses do not count.

    A run has name and milliseconds of every operator. Returns type, calls and ms of each kind of
    operator in one inference, the largest first.
    """
    quiet = sorted(runs, key=lambda rows: sum(ms for _, ms in rows))[: (len(runs) + 1) // 2]
    calls = collections.Counter(name for name, _ in quiet[0])
    spent: dict[str, float] = collections.defaultdict(float)
    for name, ms in itertools.chain.from_iterable(quiet):
        spent[name] += ms / len(quiet)
    rows = [
        {"type": name.removeprefix("Delegate/"), "calls": calls[name], "ms": round(ms, 6)}
        for name, ms in spent.items()
    ]
    return sorted(rows, key=lambda row: -row["ms"])
