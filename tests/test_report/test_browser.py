"""The page in a real browser. Skipped where there is none, except on CI."""

import json
import os
import re
import shutil
import subprocess

import pytest

from tfdistill import report

# Loads the report in frames of a phone's and a desk's width, and writes what the browser sees.
PROBE = """<!DOCTYPE html><body>
<iframe src="report.html" style="width:360px;height:800px"></iframe>
<iframe src="report.html" style="width:1200px;height:800px"></iframe>
<pre id="seen"></pre>
<script>
onload = () => {
  const seen = [...document.querySelectorAll("iframe")].map(frame => {
    const page = frame.contentDocument, view = frame.contentWindow;
    const wide = [...page.querySelectorAll("svg[role=img]")].filter(
      e => e.getBoundingClientRect().width < 100).length;
    return {
      overflow: page.scrollingElement.scrollWidth - page.scrollingElement.clientWidth,
      requests: view.performance.getEntriesByType("resource").map(e => e.name),
      charts: page.querySelectorAll("svg[role=img]").length,
      tiny: wide,
      paper: view.getComputedStyle(page.body).backgroundColor,
      headline: page.querySelector("h1").getBoundingClientRect().height,
    };
  });
  document.getElementById("seen").textContent = JSON.stringify(seen);
};
</script></body>"""


def browser():
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("no chromium on this machine: apt-get install chromium")
        pytest.skip("no chromium on this machine")
    return found


def look(folder, *options):
    (folder / "probe.html").write_text(PROBE)
    command = [
        browser(),
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--allow-file-access-from-files",
        "--virtual-time-budget=5000",
        f"--user-data-dir={folder / 'profile'}",
        *options,
        "--dump-dom",
        (folder / "probe.html").as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, flags=re.DOTALL)
    return json.loads(found.group(1))


@pytest.mark.slow
def test_a_browser_shows_the_page_on_a_phone_and_on_a_desk(run_dir):
    report.write(run_dir)
    phone, desk = look(run_dir)
    for seen in (phone, desk):
        assert seen["overflow"] == 0  # only tables scroll sideways, in their own boxes
        assert seen["requests"] == []
        assert (seen["charts"], seen["tiny"]) == (14, 0)
        assert seen["headline"] > 20


@pytest.mark.slow
def test_a_browser_that_prefers_dark_gets_a_dark_page(run_dir):
    report.write(run_dir)
    light = look(run_dir, "--blink-settings=preferredColorScheme=1")[1]["paper"]
    dark = look(run_dir, "--blink-settings=preferredColorScheme=0")[1]["paper"]
    brightness = [sum(map(int, re.findall(r"\d+", paper)[:3])) for paper in (light, dark)]
    assert brightness[0] > 3 * 200
    assert brightness[1] < 3 * 60
