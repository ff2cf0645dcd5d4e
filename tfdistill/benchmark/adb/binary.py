"""The `benchmark_model` that is pushed: where it comes from, and which processor it is for."""

from __future__ import annotations

import dataclasses
import http.client
import os
import pathlib
import struct
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence

from tfdistill import errors
from tfdistill.io import files

MAX_BYTES = 256 << 20
HOW_TO_GET_IT = (
    'tfdistill brings no such binary. LiteRT\'s documentation, page "Benchmark Interpreter API" '
    "(ai.google.dev/edge/litert/models/measurement), links builds of it, such as "
    "android_aarch64_benchmark_model; or build it: `bazel build -c opt --config=android_arm64 "
    "//tflite/tools/benchmark:benchmark_model` in LiteRT's sources. Then pass --binary PATH, or "
    "--binary URL --binary-sha256 HEX. The benchmark_model of the CompiledModel API "
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
_CHUNK = 1 << 20


@dataclasses.dataclass(frozen=True)
class Binary:
    """The value of --binary.

    Attributes:
      source: A path, or an https URL.
      sha256: What its SHA-256 has to be, 64 hexadecimal digits; needed for a URL.
    """

    source: str
    sha256: str | None = None


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


def find_tool(binary: Binary | None, *, cache: files.Path | None = None) -> BenchmarkModelTool:
    """Finds what --binary names, downloads it where that is needed, and checks it."""
    if binary is None or not binary.source:
        raise errors.BenchmarkError(
            "--binary", "benchmark_model for the device", "nothing", HOW_TO_GET_IT
        )
    source, sha256 = binary.source, binary.sha256
    if sha256 is not None:
        sha256 = sha256.lower()
        if len(sha256) != 64 or not set(sha256) <= set("0123456789abcdef"):
            raise errors.BenchmarkError("--binary-sha256", "64 hexadecimal digits", repr(sha256))
    if "://" in source:
        path = _download(source, sha256, _cache() if cache is None else pathlib.Path(cache))
    else:
        path = pathlib.Path(source).expanduser()
        if not path.is_file():
            raise errors.BenchmarkError(
                f"--binary {source}", "a file", "no such file", HOW_TO_GET_IT
            )
    abi = _abi_of(path)
    return BenchmarkModelTool(path, _checked_digest(path, source, sha256), abi)


def _cache() -> pathlib.Path:
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(home) / "tfdistill"


def _checked_digest(path: pathlib.Path, source: str, sha256: str | None) -> str:
    digest = files.sha256_of(path)
    if sha256 not in (None, digest):
        remedy = "It is another file. It was not used."
        raise errors.BenchmarkError(f"SHA-256 of --binary {source}", sha256, digest, remedy)
    return digest


def _download(url: str, sha256: str | None, cache: pathlib.Path) -> pathlib.Path:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "https" or not parts.hostname:
        raise errors.BenchmarkError(
            f"--binary {url}",
            "an https URL",
            f"{parts.scheme}://",
            "What runs on a device should not come over an open line: download it yourself.",
        )
    if sha256 is None:
        raise errors.BenchmarkError(
            "--binary-sha256",
            "the SHA-256 of what the URL gives",
            "nothing",
            "Download the file once, look at it, and pass its `sha256sum`.",
        )
    cached = cache / sha256 / "benchmark_model"
    if cached.is_file() and files.sha256_of(cached) == sha256:
        return cached
    try:
        with files.atomic_write(cached) as temporary:
            with _open(url) as response, open(temporary, "wb") as file:
                while chunk := response.read(_CHUNK):
                    file.write(chunk)
                    if file.tell() > MAX_BYTES:
                        raise errors.BenchmarkError(
                            f"--binary {url}", f"<= {MAX_BYTES} bytes", "more"
                        )
            _checked_digest(temporary, url, sha256)
    except (OSError, http.client.HTTPException) as error:
        raise errors.BenchmarkError(
            f"--binary {url}",
            "a file",
            f"{type(error).__name__}: {error}",
            "Download it by other means and pass its path.",
        ) from error
    return cached


class _StaysEncrypted(urllib.request.HTTPRedirectHandler):
    """Follows redirects to https only."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        if urllib.parse.urlsplit(newurl).scheme != "https":
            raise urllib.error.URLError(f"redirected to {newurl}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _open(url: str) -> http.client.HTTPResponse:
    return urllib.request.build_opener(_StaysEncrypted).open(url, timeout=60)


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
