"""Runs one job in headless Chromium: a page is served on this machine, which posts its answer."""

from __future__ import annotations

import contextlib
import functools
import http.server
import json
import pathlib
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from typing import Any

PAGES = pathlib.Path(__file__).parent
TIMEOUT_S = 120
_TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm"}


class _Handler(http.server.BaseHTTPRequestHandler):
    """Serves the page, the job, the packages and the files; takes the answer."""

    def __init__(self, desk: _Desk, *arguments: Any) -> None:
        self.desk = desk
        super().__init__(*arguments)

    def do_GET(self) -> None:
        content, kind = self.desk.find(self.path.split("?")[0])
        self.send_response(200 if content is not None else 404)
        # Threads in WebAssembly need a page that no other origin can look into.
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(content or b"")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()
        self.desk.receive(json.loads(body))

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


class _Desk:
    def __init__(self, job: Any, packages: pathlib.Path, files: Mapping[str, pathlib.Path]) -> None:
        self.job, self.packages, self.files = job, packages, files
        self.answer: Any = None
        self.answered = threading.Event()

    def find(self, path: str) -> tuple[bytes | None, str]:
        if path == "/job.json":
            return json.dumps(self.job).encode(), "application/json"
        place, _, name = path.lstrip("/").partition("/")
        file = {
            "packages": self.packages / name,
            "files": self.files.get(name),
        }.get(place, PAGES / ("page.html" if path == "/" else path.lstrip("/")))
        if file is None or not file.is_file():
            return None, "text/plain"
        html = "text/html" if file.suffix == ".html" else "application/octet-stream"
        return file.read_bytes(), _TYPES.get(file.suffix, html)

    def receive(self, answer: Any) -> None:
        self.answer = answer
        self.answered.set()


def ask(
    chromium: str, packages: pathlib.Path, job: Any, files: Mapping[str, pathlib.Path]
) -> dict[str, Any]:
    """Returns what page.mjs answers to a job; an error in the page fails the test."""
    desk = _Desk(job, packages, files)
    with _served(desk) as address, _opened(chromium, address):
        assert desk.answered.wait(TIMEOUT_S), f"no answer from the page within {TIMEOUT_S} s"
    assert "error" not in desk.answer, desk.answer["error"]
    return desk.answer


@contextlib.contextmanager
def _served(desk: _Desk) -> Iterator[str]:
    handler = functools.partial(_Handler, desk)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()


@contextlib.contextmanager
def _opened(chromium: str, address: str) -> Iterator[None]:
    profile = tempfile.mkdtemp(prefix="tfdistill-chromium-")
    switches = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
    browser = subprocess.Popen(
        [chromium, *switches, f"--user-data-dir={profile}", address],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        browser.terminate()
        browser.wait(30)
        shutil.rmtree(profile, ignore_errors=True)
