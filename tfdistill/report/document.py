"""A report as a value: it is built once and rendered to HTML, Markdown and CSV.

A new section is one more `ReportSection`: a title, tables and charts. No renderer changes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from markupsafe import Markup

from tfdistill.results.tables import Table

Legend = tuple[tuple[Markup, str], ...]  # marks and their meanings
Definitions = tuple[tuple[str, str], ...]  # names and values


@dataclasses.dataclass(frozen=True)
class KeyFigure:
    """A key figure: a large number, what it is, the numbers behind it, and a chart of them."""

    value: str
    label: str
    detail: str = ""
    chart: Markup | None = None


@dataclasses.dataclass(frozen=True)
class Picture:
    """A chart, what it shows (the subject, then the rest), and the meaning of its marks."""

    chart: Markup
    subject: str = ""
    caption: str = ""
    legend: Legend = ()


@dataclasses.dataclass(frozen=True)
class SectionPart:
    """A part of a section."""

    key: str  # anchor, unique in the report
    title: str = ""  # its heading; empty for none
    intro: str = ""  # A sentence or none
    pictures: tuple[Picture, ...] = ()  # its charts
    tables: tuple[Table, ...] = ()  # its tables
    folds: bool = False  # whether a reader opens it, by its title
    small: bool = False  # whether the charts are drawn small, several in a row


def part(
    key: str,
    title: str = "",
    *tables: Table | None,
    pictures: Sequence[Picture | None] = (),
    folds: bool = False,
) -> list[SectionPart]:
    """A part with the tables and charts that there are; none without any."""
    shown = tuple(table for table in tables if table is not None)
    drawn = tuple(picture for picture in pictures if picture is not None)
    whole = SectionPart(f"{key}-part", title, pictures=drawn, tables=shown, folds=folds)
    return [whole] if shown or drawn else []


@dataclasses.dataclass(frozen=True)
class Details:
    """A part that a reader opens: names and values, or a text such as a recipe."""

    title: str
    rows: Definitions = ()
    text: str = ""


@dataclasses.dataclass(frozen=True)
class ReportSection:
    """A section of the page."""

    key: str  # anchor, unique in the report
    title: str  # its heading
    short: str  # its name in the list of sections
    intro: str = ""  # what it is, a sentence or none
    parts: tuple[SectionPart, ...] = ()  # its parts
    legend: Legend = ()  # the meaning of the marks in all of its charts
    details: tuple[Details, ...] = ()  # what a reader opens at its end
    folds: bool = False  # whether a reader opens it, by its heading; such sections come last


@dataclasses.dataclass(frozen=True)
class Report:
    """Everything that a report shows.

    Attributes:
      name: Of the run, or of the comparison.
      headline: What came of it, a sentence or two.
      tags: Short facts next to the name: the task, the day.
      synthetic: Whether all models were trained on synthetic data.
      figures: The key figures.
      missing: A sentence for each input that is missing.
      sections: The sections.
      limits: Sentences about what the numbers do not show.
      environment: What the results depend on: settings, versions, devices.
    """

    name: str
    headline: str
    tags: tuple[str, ...] = ()
    synthetic: bool = False
    figures: tuple[KeyFigure, ...] = ()
    missing: tuple[str, ...] = ()
    sections: tuple[ReportSection, ...] = ()
    limits: tuple[str, ...] = ()
    environment: tuple[Details, ...] = ()

    def tables(self) -> Iterator[Table]:
        """Yields every table of every section, whole."""
        for section in self.sections:
            for part in section.parts:
                yield from part.tables
