"""Renders a report to HTML, Markdown and CSV. Pure, apart from reading the templates."""

from __future__ import annotations

import importlib.resources
import re

import markupsafe
from markupsafe import Markup

from tfdistill import _version
from tfdistill.report import format as fmt
from tfdistill.report.document import Report
from tfdistill.results import templates

TABLES_FOLDER = "report-tables"  # the CSV files next to a page
_PACKAGE = "tfdistill.report"
_MOST_ROWS, _FEWEST_ROWS = 200, 12  # of a table in a page, before it is shortened
_ALL_ROWS = 2500  # of all tables of a page together


def render_html(report: Report) -> str:
    """Writes a report as one page that loads nothing and runs no script.

    It is well-formed XML too, has no control characters and ends in a line break. The more rows the
    tables have, the fewer of each are shown.
    """
    limit, sizes = _MOST_ROWS, [len(table.rows) for table in report.tables()]
    while limit > _FEWEST_ROWS and sum(min(size, limit) for size in sizes) > _ALL_ROWS:
        limit = max(_FEWEST_ROWS, limit * 3 // 4)
    style = (importlib.resources.files(_PACKAGE) / "style.css").read_text(encoding="utf-8")
    page = templates.render(
        _PACKAGE,
        "page.html.j2",
        {
            "report": report,
            "style": Markup(style),
            "version": _version.__version__,
            "tables_folder": TABLES_FOLDER,
            "absent": fmt.ABSENT,
        },
        shortened=lambda table: table.shortened(limit, f"{TABLES_FOLDER}/{table.key}.csv"),
        breakable=_breakable,
    )
    page = re.sub(r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]", "", page)  # turn the rest
    page = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff]", "\ufffd", page)
    return re.sub(r"[^\S\n]+\n", "\n", page).strip() + "\n"


def render_markdown(report: Report) -> str:
    """Writes the headline, figures, tables and sentences of a report as Markdown."""
    return templates.render(_PACKAGE, "page.md.j2", {"report": report})


def render_csv(report: Report) -> dict[str, str]:
    """Writes every table of a report as CSV: file name -> content."""
    return {
        f"{re.sub(r'[^A-Za-z0-9_.-]', '_', table.key)}.csv": table.csv()
        for table in report.tables()
    }


def _breakable(text: str) -> Markup:
    """A name with underscores may be broken behind them."""
    return Markup("_<wbr/>").join(map(markupsafe.escape, text.split("_")))
