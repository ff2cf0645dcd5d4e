"""The `benchmark_model` that is pushed: where it comes from, and which processor it is for."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import struct
from collections.abc import Sequence

from tfdistill import errors
from tfdistill.io import files

MAX_BYTES = 256 << 20
HOW_TO_GET_IT = (
    'tfdistill brings no such binary. LiteRT\'s documentation, page "Benchmark Interpreter API" '
    "(ai.google.dev/edge/litert/models/measurement), links builds of it, such as "
    "android_aarch64_benchmark_model; or build it: `bazel build -c opt --config=android_arm64 "
    "//tflite/tools/benchmark:benchmark_model` in LiteRT's sources. Then pass --binary PATH. The "
    "benchmark_model of the CompiledModel API "
    "(litert/binaries/...) is another program, which takes no token ids."
)
# (ELF class, machine) by Android's name of the processor: 1 is 32 and 2 is 64 bits.
_ELF = {
    "arm64-v8a": (2, 183),
    "armeabi-v7a": (1, 40),
    "x86_64": (2, 62),
    "x86": (1, 3),
    "riscv64": (2, 243),
}


@dataclasses.dataclass(frozen=True)
class BenchmarkModelTool:
    """A benchmark_model on this machine."""

    path: pathlib.Path  # the file
    sha256: str  # of it
    abi: str  # Android's name of the processor that it is built for

    def check_runs_on(self, abis: Sequence[str]) -> None:
        """Checks that a device can run it."""
        if abis and self.abi not in abis:
            raise errors.BenchmarkError(
                f"--binary {self.path.name}",
                f"a program for the device's {abis[0]}",
                f"one for {self.abi}",
                HOW_TO_GET_IT,
            )


def find_tool(source: files.Path | None) -> BenchmarkModelTool:
    """Finds the program that --binary names, and checks it."""
    if not source:
        raise errors.BenchmarkError(
            "--binary", "benchmark_model for the device", "nothing", HOW_TO_GET_IT
        )
    path = pathlib.Path(source).expanduser()
    if not path.is_file():
        raise errors.BenchmarkError(f"--binary {source}", "a file", "no such file", HOW_TO_GET_IT)
    return BenchmarkModelTool(path, files.sha256_of(path), _abi_of(path))


def _abi_of(path: pathlib.Path) -> str:
    """Reads from an ELF header which processor a program is for."""
    with open(path, "rb") as file:
        head = file.read(20)
    what = f"--binary {path.name}"
    if os.path.getsize(path) > MAX_BYTES:
        raise errors.BenchmarkError(what, f"<= {MAX_BYTES} bytes", "more")
    if len(head) < 20 or head[:4] != b"\x7fELF" or head[5] != 1:
        raise errors.BenchmarkError(
            what, "a program for Android (ELF)", f"a file of {head[:4]!r}", HOW_TO_GET_IT
        )
    (machine,) = struct.unpack_from("<H", head, 18)
    for abi, (width, number) in _ELF.items():
        if (width, number) == (head[4], machine):
            return abi
    raise errors.BenchmarkError(
        what,
        f"a program for one of {', '.join(_ELF)}",
        f"one for ELF machine {machine}, {32 * head[4]} bits",
        HOW_TO_GET_IT,
    )
