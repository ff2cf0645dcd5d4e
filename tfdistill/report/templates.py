"""Fills the templates of pages. Pure, apart from reading the templates themselves."""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
from markupsafe import Markup

from tfdistill import _version
from tfdistill.report import cells

TABLES_NAME = "report-tables"  # the folder of the CSV files beside a page
_MOST_ROWS, _FEWEST_ROWS = 200, 12  # of a table in a page, before it is shortened
_ALL_ROWS = 2500  # of all tables of a page together


def render(name: str, context: Mapping[str, Any], tables: Sequence[cells.Table]) -> str:
    """Fills a template.

    Args:
      name: File name of the template.
      context: What it speaks of.
      tables: All of its tables: the more rows they have, the shorter each one is shown.

    Returns:
      A page without control characters that ends in a line break.
    """
    folder = importlib.resources.files("tfdistill.report")
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FunctionLoader(lambda file: (folder / file).read_text(encoding="utf-8")),
    )
    limit = most_rows(tables)
    environment.filters["shortened"] = lambda table: cells.shortened(
        table, limit, f"{TABLES_NAME}/{table.key}.csv"
    )
    style = Markup((folder / "style.css").read_text(encoding="utf-8"))
    page = environment.get_template(name).render(
        context, style=style, version=_version.__version__, tables_name=TABLES_NAME
    )
    return re.sub(r"[^\S\n]+\n", "\n", without_controls(page)).strip() + "\n"


def most_rows(tables: Sequence[cells.Table]) -> int:
    """How many rows of a table are shown, so that the page stays small."""
    limit = _MOST_ROWS
    while limit > _FEWEST_ROWS and sum(min(len(t.rows), limit) for t in tables) > _ALL_ROWS:
        limit = max(_FEWEST_ROWS, limit * 3 // 4)
    return limit


def without_controls(text: str) -> str:
    """Replaces control characters, which no page may hold, by a visible sign."""
    return re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff]", "\ufffd", text)
