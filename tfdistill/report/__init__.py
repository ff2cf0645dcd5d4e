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
    """Computes everything that a report shows, of a run, or of many devices and sweeps."""
    of_run = isinstance(results, RunResults)
    return sections.of_run(results) if of_run else comparison.build(results)


def write(
    run_dir: files.Path, out: files.Path | None = None, *, texts: bool = True
) -> tuple[pathlib.Path, pathlib.Path]:
    """Writes report.html, report.md and the folder report-tables of a run, each whole or unchanged.

    `run_dir` may be an export folder; `out` is by default the same. `texts` says whether the texts
    that models answered are shown. Returns the paths of the page and of the Markdown. A folder
    without a result, or with one that is malformed or of another format, is refused.
    """
    results = collect(run_dir, texts=texts)
    return write_pages(build(results), pathlib.Path(run_dir if out is None else out))


def write_comparison(
    paths: Sequence[files.Path], out: files.Path
) -> tuple[pathlib.Path, pathlib.Path]:
    """Writes report.html, report.md and the folder report-tables of many results; see `gather`."""
    return write_pages(build(gather(paths)), pathlib.Path(out))


def check_output(folder: files.Path) -> None:
    """Refuses a folder whose files a report would replace or be among, see `work_folder`."""
    work_folder.check_ours(folder, [HTML_NAME, MARKDOWN_NAME, f"{TABLES_FOLDER}/"])


def write_pages(report: Report, folder: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """Writes report.html, report.md and the folder report-tables of any report; see `write`."""
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
