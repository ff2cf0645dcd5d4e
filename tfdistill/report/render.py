"""Renders a report to HTML, Markdown and CSV. Pure, apart from reading the templates."""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Iterable, Sequence

import jinja2
import markupsafe
from markupsafe import Markup

from tfdistill import _version
from tfdistill.report import cells
from tfdistill.report import format as fmt
from tfdistill.report.document import Definitions, Report, ReportSection, SectionPart
from tfdistill.results.tables import markdown

TABLES_FOLDER = "report-tables"  # the CSV files next to a page
_MOST_ROWS, _FEWEST_ROWS = 200, 12  # of a table in a page, before it is shortened
_ALL_ROWS = 2500  # of all tables of a page together


def render_html(report: Report) -> str:
    """Writes a report as one page that loads nothing and runs no script.

    Args:
      report: What it shows. The more rows its tables have, the fewer of each are shown.

    Returns:
      The page; it is well-formed XML too, has no control characters and ends in a line break.
    """
    folder = importlib.resources.files("tfdistill.report")
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FunctionLoader(lambda file: (folder / file).read_text(encoding="utf-8")),
    )
    limit = _row_limit(list(report.tables()))
    environment.filters["shortened"] = lambda table: cells.shortened(
        table, limit, f"{TABLES_FOLDER}/{table.key}.csv"
    )
    environment.filters["breakable"] = _breakable
    environment.globals["absent"] = fmt.ABSENT
    page = environment.get_template("page.html.j2").render(
        report=report,
        style=Markup((folder / "style.css").read_text(encoding="utf-8")),
        version=_version.__version__,
        tables_folder=TABLES_FOLDER,
    )
    page = re.sub(r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]", "", page)  # turn the rest
    page = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff]", "\ufffd", page)
    return re.sub(r"[^\S\n]+\n", "\n", page).strip() + "\n"


def render_markdown(report: Report) -> str:
    """Writes the headline, figures, tables and sentences of a report as Markdown.

    Args:
      report: What it shows.

    Returns:
      The text, ending in a line break.
    """
    parts = [f"# {markdown(report.name)}", markdown(report.headline)]
    if report.figures:
        lines = (
            f"**{markdown(figure.value)}** "
            + markdown(f"{figure.label} ({figure.detail})" if figure.detail else figure.label)
            for figure in report.figures
        )
        parts.append(_list(lines))
    parts += _sentences("Not in this report", report.missing)
    for section in report.open_sections:
        parts += _section(section)
    parts += _sentences("Limits", report.limits)
    for section in report.folded_sections:
        parts += _section(section)
    listed = [details for details in report.environment if details.rows]
    parts += ["## Environment"] if listed else []
    for details in listed:
        parts += [f"### {markdown(details.title)}", _definitions(details.rows)]
    return "\n\n".join(parts) + "\n"


def render_csv(report: Report) -> dict[str, str]:
    """Writes every table of a report as CSV.

    Args:
      report: What it shows.

    Returns:
      File name -> content.
    """
    return {
        f"{re.sub(r'[^A-Za-z0-9_.-]', '_', table.key)}.csv": cells.render_csv(table)
        for table in report.tables()
    }


def markdown_table(table: cells.Table) -> str:
    """Writes one table with its caption and notes; numbers are right-aligned."""
    lines = [
        "| " + " | ".join(map(markdown, table.heads)) + " |",
        "|" + "|".join(["---", *["---:"] * (len(table.columns) - 1)]) + "|",
    ]
    for row, texts in zip(table.rows, cells.plain(table), strict=True):
        written = [markdown(text) for text in texts]
        if row.strong:
            written[0] = f"**{written[0]}**"
        lines.append("| " + " | ".join(written) + " |")
    return "\n\n".join(
        [f"{markdown(table.caption)}.", "\n".join(lines), *map(markdown, table.notes)]
    )


def _breakable(text: str) -> Markup:
    """A name with underscores may be broken behind them."""
    return Markup("_<wbr/>").join(map(markupsafe.escape, text.split("_")))


def _row_limit(tables: Sequence[cells.Table]) -> int:
    """Returns how many rows of a table are shown, so that the page stays small."""
    limit = _MOST_ROWS
    while limit > _FEWEST_ROWS and sum(min(len(t.rows), limit) for t in tables) > _ALL_ROWS:
        limit = max(_FEWEST_ROWS, limit * 3 // 4)
    return limit


def _section(section: ReportSection) -> list[str]:
    lines = [f"## {markdown(section.title)}"]
    lines += [markdown(section.intro)] if section.intro else []
    for part in section.parts:
        lines += _part(part)
    return [*lines, *(_definitions(details.rows) for details in section.details)]


def _part(part: SectionPart) -> list[str]:
    tables = [markdown_table(table) for table in part.tables]
    if not tables and not part.intro:
        return []
    title = [f"### {markdown(part.title)}"] if part.title else []
    return [*title, *([markdown(part.intro)] if part.intro else []), *tables]


def _definitions(rows: Definitions) -> str:
    return _list(f"{markdown(name)}: {markdown(value)}" for name, value in rows)


def _sentences(title: str, sentences: Sequence[str]) -> list[str]:
    return [f"## {title}", _list(map(markdown, sentences))] if sentences else []


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
