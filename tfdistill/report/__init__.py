"""Turns a run folder into a page that a person likes to read: report.html, and report.md.

Results in, text out: `collect` reads the folder, `render_html` and `render_markdown` are pure.
"""

from __future__ import annotations

import pathlib

from tfdistill import files
from tfdistill.report.markdown import render_markdown
from tfdistill.report.page import render_html
from tfdistill.report.results import RunResults, collect

__all__ = ["RunResults", "collect", "render_html", "render_markdown", "write"]

HTML_NAME, MARKDOWN_NAME = "report.html", "report.md"


def write(run_dir: files.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """Writes report.html and report.md into a run folder, each whole or unchanged.

    Args:
      run_dir: The run folder.

    Returns:
      The paths of the two files.

    Raises:
      DataError: If the folder holds no result, or a malformed one.
    """
    results = collect(run_dir)
    folder = pathlib.Path(run_dir)
    files.atomic_write_text(folder / HTML_NAME, render_html(results))
    files.atomic_write_text(folder / MARKDOWN_NAME, render_markdown(results))
    return folder / HTML_NAME, folder / MARKDOWN_NAME
