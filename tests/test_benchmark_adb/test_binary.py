"""The benchmark_model to push: where it comes from, that it is the one meant, and whose it is."""

import hashlib
import io
import struct
import urllib.error
import urllib.request

import pytest

from tfdistill import errors
from tfdistill.benchmark.adb import binary

URL = "https://example.org/android_aarch64_benchmark_model"


def elf(width=2, machine=183, order=1):
    return b"\x7fELF" + bytes([width, order, 1]) + bytes(9) + struct.pack("<HH", 2, machine)


def sha256(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def served(monkeypatch):
    """What the network gives: content by URL; a URL that is not there fails."""
    contents, requests = {}, []

    def open_(url):
        requests.append(url)
        if url not in contents:
            raise urllib.error.HTTPError(url, 404, "Not Found", {}, None)  # pyright: ignore
        return io.BytesIO(contents[url])

    monkeypatch.setattr(binary, "_open", open_)
    return contents, requests


def test_without_a_binary_the_error_says_how_to_get_it(tmp_path):
    for nothing in (None, binary.Binary("")):
        with pytest.raises(errors.BenchmarkError, match="android_aarch64_benchmark_model") as e:
            binary.find_tool(nothing)
        assert "--binary-sha256" in str(e.value) and "bazel build" in str(e.value)
    with pytest.raises(errors.BenchmarkError, match="no such file"):
        binary.find_tool(binary.Binary(str(tmp_path / "absent")))


@pytest.mark.parametrize(
    ("width", "machine", "abi"),
    [(2, 183, "arm64-v8a"), (1, 40, "armeabi-v7a"), (2, 62, "x86_64"), (1, 3, "x86")],
)
def test_a_file_is_known_by_its_header(tmp_path, width, machine, abi):
    path = tmp_path / "tool"
    path.write_bytes(elf(width, machine))
    located = binary.find_tool(binary.Binary(str(path)))
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
        binary.find_tool(binary.Binary(str(path)))


def test_another_processor_or_another_checksum_is_refused(tmp_path):
    program = binary.BenchmarkModelTool(tmp_path / "tool", "0" * 64, "arm64-v8a")
    program.check_runs_on(("arm64-v8a", "armeabi-v7a"))
    program.check_runs_on(())  # a device that does not tell is tried
    binary.BenchmarkModelTool(tmp_path / "tool", "0" * 64, "armeabi-v7a").check_runs_on(
        ("arm64-v8a", "armeabi-v7a")
    )
    with pytest.raises(errors.BenchmarkError, match="device's x86_64, received one for arm64-v8a"):
        program.check_runs_on(("x86_64", "x86"))
    path = tmp_path / "tool"
    path.write_bytes(elf())
    assert binary.find_tool(binary.Binary(str(path), sha256(elf()).upper())).sha256 == sha256(elf())
    with pytest.raises(errors.BenchmarkError, match="another file"):
        binary.find_tool(binary.Binary(str(path), "0" * 64))
    with pytest.raises(errors.BenchmarkError, match="64 hexadecimal digits"):
        binary.find_tool(binary.Binary(str(path), "abc"))


def test_a_download_is_checked_kept_and_used_again(tmp_path, served):
    contents, requests = served
    contents[URL] = elf()
    wanted = binary.Binary(URL, sha256(elf()))
    first = binary.find_tool(wanted, cache=tmp_path)
    assert first.path.read_bytes() == elf() and first.abi == "arm64-v8a"
    assert binary.find_tool(wanted, cache=tmp_path).path == first.path
    assert requests == [URL]
    first.path.write_bytes(b"damaged")
    assert binary.find_tool(wanted, cache=tmp_path).path.read_bytes() == elf()
    assert requests == [URL, URL]


@pytest.mark.parametrize(
    ("url", "checksum", "most_bytes", "message", "num_requests"),
    [
        (URL, sha256(elf() + b"more"), 10**6, "another file", 1),
        (URL, sha256(elf()), 10, "<= 10 bytes", 1),
        ("https://example.org/none", "0" * 64, 10**6, "404", 1),
        ("http://example.org/tool", "0" * 64, 10**6, "an https URL", 0),
        ("ftp://example.org/tool", "0" * 64, 10**6, "an https URL", 0),
        ("file:///x", "0" * 64, 10**6, "an https URL", 0),
        (URL, None, 10**6, "--binary-sha256", 0),
    ],
)
def test_a_download_that_is_refused_leaves_nothing(
    tmp_path, served, monkeypatch, url, checksum, most_bytes, message, num_requests
):
    contents, requests = served
    contents[URL] = elf()
    monkeypatch.setattr(binary, "MAX_BYTES", most_bytes)
    with pytest.raises(errors.BenchmarkError, match=message):
        binary.find_tool(binary.Binary(url, checksum), cache=tmp_path)
    assert len(requests) == num_requests
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_redirect_stays_encrypted():
    follow = binary._StaysEncrypted().redirect_request
    request = urllib.request.Request(URL)
    followed = follow(request, None, 302, "Found", {}, "https://example.org/other")
    assert followed is not None and followed.full_url == "https://example.org/other"
    with pytest.raises(urllib.error.URLError, match="not https"):
        follow(request, None, 302, "Found", {}, "http://example.org/other")
