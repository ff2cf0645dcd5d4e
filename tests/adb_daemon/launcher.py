"""A `benchmark_model` to push: a real ELF program whose few instructions run the stand-in."""

from __future__ import annotations

import pathlib
import platform
import struct
import sys

STAND_IN = pathlib.Path(__file__).parent / "device_bin" / "benchmark_model.py"
# By processor: ELF machine, Android's name, and execve(PATH, argv, envp) or else exit(126), where
# PATH follows the instructions.
_X86 = "488b0424 488d742408 488d54c608 488d3d13000000 b83b000000 0f05 bf7e000000 b83c000000 0f05"
_ARM = "e00340f9 e1230091 220c008b 42200091 c0000010 a81b80d2 010000d4 c00f80d2 a80b80d2 010000d4"
PROCESSORS = {
    "x86_64": (62, "x86_64", bytes.fromhex(_X86)),
    "aarch64": (183, "arm64-v8a", bytes.fromhex(_ARM)),
}
HERE = PROCESSORS.get(platform.machine(), PROCESSORS["x86_64"])
ELSEWHERE = PROCESSORS["aarch64" if HERE[1] == "x86_64" else "x86_64"]
ABI = HERE[1]


def make_binary(folder: pathlib.Path, processor: tuple[int, str, bytes] = HERE) -> pathlib.Path:
    """Writes a `benchmark_model` for this processor, or for another one.

    Args:
      folder: Where to write it, with the script that it becomes.
      processor: One of `PROCESSORS`.

    Returns:
      The program.
    """
    script = folder / "stand_in.sh"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I "{STAND_IN}" "$@"\n')
    script.chmod(0o755)
    machine, _, instructions = processor
    code = instructions + bytes(script) + b"\0"
    base, start = 0x400000, 64 + 56
    size = start + len(code)
    ident = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)  # 64 bits, little-endian
    header = ident + struct.pack(
        "<HHIQQQIHHHHHH", 2, machine, 1, base + start, 64, 0, 0, 64, 56, 1, 0, 0, 0
    )
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 0x1000)
    program = folder / "benchmark_model"
    program.write_bytes(header + segment + code)
    program.chmod(0o755)
    return program
