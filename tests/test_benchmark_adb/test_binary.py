"""The benchmark_model to push: where it is, and which processor it is for."""

import hashlib
import struct

import pytest

from tfdistill import errors
from tfdistill.benchmark.adb import binary


def elf(width=2, machine=183, order=1):
    return b"\x7fELF" + bytes([width, order, 1]) + bytes(9) + struct.pack("<HH", 2, machine)


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def test_without_a_binary_the_error_says_how_to_get_it(tmp_path):
    for nothing in (None, ""):
        with pytest.raises(errors.BenchmarkError, match="android_aarch64_benchmark_model") as e:
            binary.find_tool(nothing)
        assert "bazel build" in str(e.value)
    with pytest.raises(errors.BenchmarkError, match="no such file"):
        binary.find_tool(tmp_path / "absent")


@pytest.mark.parametrize(
    ("width", "machine", "abi"),
    [(2, 183, "arm64-v8a"), (1, 40, "armeabi-v7a"), (2, 62, "x86_64"), (1, 3, "x86")],
)
def test_a_file_is_known_by_its_header(tmp_path, width, machine, abi):
    path = tmp_path / "tool"
    path.write_bytes(elf(width, machine))
    located = binary.find_tool(path)
    assert (located.path, located.abi, located.sha256) == (
        path,
        abi,
        sha256(elf(width, machine)),
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "a program for Android"),
        (b"#!/bin/sh\necho hello, this is no program\n", "a program for Android"),
        (b"MZ" + bytes(100), "a program for Android"),
        (elf(order=2), "a program for Android"),
        (elf(machine=8), "ELF machine 8"),
        (elf(width=1, machine=183), "ELF machine 183, 32 bits"),
    ],
)
def test_what_is_no_program_for_a_phone_is_refused(tmp_path, content, expected):
    path = tmp_path / "tool"
    path.write_bytes(content)
    with pytest.raises(errors.BenchmarkError, match=expected):
        binary.find_tool(path)


def test_another_processor_is_refused(tmp_path):
    program = binary.BenchmarkModelTool(tmp_path / "tool", "0" * 64, "arm64-v8a")
    program.check_runs_on(("arm64-v8a", "armeabi-v7a"))
    program.check_runs_on(())  # a device that does not tell is tried
    binary.BenchmarkModelTool(tmp_path / "tool", "0" * 64, "armeabi-v7a").check_runs_on(
        ("arm64-v8a", "armeabi-v7a")
    )
    with pytest.raises(errors.BenchmarkError, match="device's x86_64, received one for arm64-v8a"):
        program.check_runs_on(("x86_64", "x86"))
