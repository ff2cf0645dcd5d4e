"""Turns results into a page that a person likes to read: report.html, report.md, and CSV tables.

Results in, text out: `collect` reads a run folder and `gather` many results; what is rendered from
them is pure.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Sequence

from tfdistill import files
from tfdistill.report import cells, comparison, page
from tfdistill.report.comparison import Comparison, compared
from tfdistill.report.facts import Facts
from tfdistill.report.markdown import render_comparison, render_markdown
from tfdistill.report.page import render_html
from tfdistill.report.results import RunResults, collect
from tfdistill.report.sources import Collection, gather, is_run
from tfdistill.report.templates import TABLES_NAME

__all__ = [
    "Collection",
    "Comparison",
    "RunResults",
    "collect",
    "compared",
    "gather",
    "is_run",
    "render_comparison",
    "render_html",
    "render_markdown",
    "write",
    "write_comparison",
]

HTML_NAME, MARKDOWN_NAME = "report.html", "report.md"


def write(run_dir: files.Path, out: files.Path | None = None) -> tuple[pathlib.Path, pathlib.Path]:
    """Writes report.html, report.md and the folder report-tables of a run, each whole or unchanged.

    Args:
      run_dir: The run folder.
      out: The folder to write to; the run folder by default.

    Returns:
      The paths of the page and of the Markdown.

    Raises:
      DataError: If the folder holds no result, or a malformed one.
      BenchmarkError: If its benchmark is malformed or of another format.
    """
    results = collect(run_dir)
    folder = pathlib.Path(run_dir if out is None else out)
    made = page.all_tables(Facts(results))
    return _write(folder, render_html(results), render_markdown(results), made)


def write_comparison(
    paths: Sequence[files.Path], out: files.Path
) -> tuple[pathlib.Path, pathlib.Path]:
    """Writes report.html, report.md and the folder report-tables of many results.

    Args:
      paths: Run folders, benchmark results, folders of `tfdistill quantizations`, or folders that
        hold such things.
      out: The folder to write to.

    Returns:
      The paths of the page and of the Markdown.

    Raises:
      DataError: If a path holds nothing to report, or something malformed.
      BenchmarkError: If a benchmark result is malformed or of another format.
    """
    value = compared(gather(paths))
    made = comparison.all_tables(value)
    return _write(pathlib.Path(out), comparison.render_html(value), render_comparison(value), made)


def _write(
    folder: pathlib.Path, html: str, markdown: str, tables: Sequence[cells.Table]
) -> tuple[pathlib.Path, pathlib.Path]:
    with files.atomic_folder(folder / TABLES_NAME) as temporary:
        for table in tables:
            name = re.sub(r"[^A-Za-z0-9_.-]", "_", table.key)
            (temporary / f"{name}.csv").write_text(cells.render_csv(table), encoding="utf-8")
    files.atomic_write_text(folder / HTML_NAME, html)
    files.atomic_write_text(folder / MARKDOWN_NAME, markdown)
    return folder / HTML_NAME, folder / MARKDOWN_NAME
