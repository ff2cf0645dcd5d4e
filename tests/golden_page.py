"""Compares a page with a file that holds it whole.

After a wanted change of a page write the files anew, and read their difference:

    REWRITE_PAGES=1 .venv/bin/python -m pytest -q tests/test_report/test_render.py
    git diff tests
"""

import difflib
import os


def check(text, file):
    """Fails where a page is not what its file holds."""
    if os.environ.get("REWRITE_PAGES"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, "utf-8")
    lines = text.splitlines(keepends=True)
    expected = file.read_text("utf-8").splitlines(keepends=True)
    difference = "".join(difflib.unified_diff(expected, lines, file.name, "this page"))
    assert not difference, f"see tests/golden_page.py\n{difference}"
