"""A headless Chromium that is told what to do over its debugging pipe.

As a program it takes the pictures of a report that the documentation shows::

    python tests/test_report/chromium.py runs/sst2/report.html docs/pictures
"""

import base64
import contextlib
import io
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import tempfile
import time

PATIENCE_S = 60.0  # a deadline, not a measure
PICTURES = {  # name -> width, height, scale, preferred colours, whether it is a phone
    "report-top": (1280, 600, 1, "light", False),
    "report-light": (1280, 1500, 1, "light", False),
    "report-dark": (1280, 1500, 1, "dark", False),
    "report-phone": (390, 1300, 2, "light", True),
}


def find():
    """The path of a Chromium, or None."""
    return shutil.which("chromium") or shutil.which("google-chrome")


class Browser:
    """One browser process with one tab.

    `events` holds what the tab reported since `open`, such as requests and console messages.
    """

    def __init__(self, program, profile):
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()

        def hand_over():  # the browser reads from 3 and writes to 4
            low = [os.dup(to_browser), os.dup(from_browser)]
            while min(low) <= 4:
                low = [os.dup(low[0]), os.dup(low[1])]
            os.dup2(low[0], 3)
            os.dup2(low[1], 4)

        self._process = subprocess.Popen(
            [
                program,
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--no-first-run",
                "--remote-debugging-pipe",
                f"--user-data-dir={profile}",
                "about:blank",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=hand_over,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._buffer = b""
        self._number = 0
        self._session = None
        self.events = []
        (target,) = [
            t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"
        ]
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        """Ends the process."""
        self._session = None
        with contextlib.suppress(OSError, RuntimeError, TimeoutError):
            self.call("Browser.close")
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def call(self, method, **parameters):
        """Gives a command and returns its result."""
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self._next(deadline)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, path, *, width=1280, height=900, scale=1, phone=False, colours="light"):
        """Loads a file in a window of a size, for a reader who prefers light or dark."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=phone,
        )
        self.media(colours)
        self.events = []
        self.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        deadline = time.monotonic() + PATIENCE_S
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self._next(deadline))

    def media(self, colours="light", kind=""):
        """Emulates a preference of colours, and "print" where that is asked for."""
        features = [{"name": "prefers-color-scheme", "value": colours}]
        self.call("Emulation.setEmulatedMedia", media=kind, features=features)

    def run(self, script):
        """Evaluates an expression in the page and returns its JSON value."""
        reply = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in reply:
            raise RuntimeError(reply["exceptionDetails"]["exception"]["description"])
        return reply["result"].get("value")

    def press(self, key):
        """Presses a key."""
        code, text = {"Tab": (9, ""), "Enter": (13, "\r")}[key]
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                text=text,
                windowsVirtualKeyCode=code,
            )

    def picture(self, *, whole=False):
        """Takes a picture of the window, or of the whole page, as PNG."""
        reply = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(reply["data"])

    def complaints(self):
        """Messages of the console and of the browser since the page was opened."""
        wanted = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [e["params"] for e in self.events if e.get("method") in wanted]

    def requests(self):
        """Addresses that were asked for since the page was opened."""
        sent = [e["params"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return [e["request"]["url"] for e in sent]

    def _next(self, deadline):
        while b"\0" not in self._buffer:
            if not select.select([self._read], [], [], max(deadline - time.monotonic(), 0))[0]:
                raise TimeoutError("the browser does not answer")
            got = os.read(self._read, 1 << 20)
            if not got:
                raise RuntimeError("the browser has ended")
            self._buffer += got
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)


@contextlib.contextmanager
def browser():
    """A browser with a profile of its own."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        tab = Browser(find(), profile)
        try:
            yield tab
        finally:
            tab.close()


def take_pictures(page, folder):
    """Writes the pictures of a page: light, dark, and on a phone."""
    import PIL.Image

    folder.mkdir(parents=True, exist_ok=True)
    with browser() as tab:
        for name, (width, height, scale, colours, phone) in PICTURES.items():
            tab.open(page, width=width, height=height, scale=scale, colours=colours, phone=phone)
            image = PIL.Image.open(io.BytesIO(tab.picture())).convert("RGB")
            image = image.quantize(96, dither=PIL.Image.Dither.NONE)
            image.save(folder / f"{name}.png", optimize=True)


if __name__ == "__main__":
    take_pictures(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
