"""Turns results into a page for people: report.html, report.md, and CSV tables.

`collect` reads a run folder and `gather` many results; `build` makes one `Report` of either, which
is rendered to HTML, Markdown and CSV.
"""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Sequence

from tfdistill.io import files, ledger, work_folder
from tfdistill.report import comparison, sections
from tfdistill.report.collection import Collection, gather
from tfdistill.report.document import Report
from tfdistill.report.render import TABLES_FOLDER, render_csv, render_html, render_markdown
from tfdistill.report.run_results import RunResults, collect, is_run

__all__ = [
    "Collection",
    "Report",
    "RunResults",
    "build",
    "check_output",
    "collect",
    "gather",
    "is_run",
    "render_csv",
    "render_html",
    "render_markdown",
    "write",
    "write_comparison",
    "write_pages",
]

HTML_NAME, MARKDOWN_NAME = "report.html", "report.md"


def build(results: RunResults | Collection) -> Report:
    """Computes everything that a report shows.

    Args:
      results: Of a run, or of many devices and sweeps.

    Returns:
      The report.
    """
    if isinstance(results, RunResults):
        return sections.of_run(results)
    return comparison.build(results)


def write(
    run_dir: files.Path, out: files.Path | None = None, *, texts: bool = True
) -> tuple[pathlib.Path, pathlib.Path]:
    """Writes report.html, report.md and the folder report-tables of a run, each whole or unchanged.

    Args:
      run_dir: The run folder, or an export folder.
      out: The folder to write to; the run folder by default.
      texts: Whether the texts that models answered are shown.

    Returns:
      The paths of the page and of the Markdown.

    Raises:
      DataError: If the folder holds no result, or a malformed one.
      BenchmarkError: If its benchmark is malformed or of another format.
    """
    results = collect(run_dir, texts=texts)
    return write_pages(build(results), pathlib.Path(run_dir if out is None else out))


def write_comparison(
    paths: Sequence[files.Path], out: files.Path
) -> tuple[pathlib.Path, pathlib.Path]:
    """Writes report.html, report.md and the folder report-tables of many results.

    Args:
      paths: Run folders, benchmark results, folders of `tfdistill export --list`, or folders that
        hold such things.
      out: The folder to write to.

    Returns:
      The paths of the page and of the Markdown.

    Raises:
      DataError: If a path holds nothing to report, or something malformed.
      BenchmarkError: If a benchmark result is malformed or of another format.
    """
    return write_pages(build(gather(paths)), pathlib.Path(out))


def check_output(folder: files.Path) -> None:
    """Refuses a folder whose files a report would replace or be among, see `work_folder`.

    Raises:
      OutputExistsError: If it is not ours, or holds a report that tfdistill did not write.
    """
    work_folder.check_ours(folder, [HTML_NAME, MARKDOWN_NAME, f"{TABLES_FOLDER}/"])


def write_pages(report: Report, folder: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """Writes report.html, report.md and the folder report-tables of any report.

    Args:
      report: What they show.
      folder: The folder to write to.

    Returns:
      The paths of the page and of the Markdown.
    """
    check_output(folder)
    tables = folder / TABLES_FOLDER
    contents = render_csv(report)
    pages = {HTML_NAME: render_html(report), MARKDOWN_NAME: render_markdown(report)}
    work = work_folder.WorkFolder(folder, "report")
    with contextlib.nullcontext() if ledger.read_marker(folder) else work.open():
        with files.atomic_folder(tables) as temporary:  # `check_output`: all in it is ours
            for name, text in contents.items():
                files.atomic_write_text(temporary / name, text)
        names = [tables, *(tables / name for name in contents)]
        work_folder.record(folder, [*names, *(folder / name for name in pages)])
        for name, text in pages.items():
            files.atomic_write_text(folder / name, text)
    return folder / HTML_NAME, folder / MARKDOWN_NAME
