"""The report as Markdown: the same words and tables. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tfdistill.report import cells, curves, page, story, tables
from tfdistill.report.comparison import Comparison
from tfdistill.report.evidence import Block, Section
from tfdistill.report.facts import Facts
from tfdistill.report.results import RunResults


def render_markdown(results: RunResults) -> str:
    """Writes the report of a run as Markdown.

    Args:
      results: What a run folder holds.

    Returns:
      The text, ending in a line break.
    """
    facts = Facts(results)
    made = tables.all_tables(facts)
    training = curves.table(facts)
    parts = [f"# {escape(results.name)}", escape(story.headline(facts)), *_figures(facts)]
    parts += _titled("Models", [made[key] for key in ("models", "seeds") if key in made])
    for block in page.trade_offs(facts):
        parts += _block(block, 2)
    measured = page.measurements(facts)
    if measured:
        parts += [f"## Latency {escape(story.where(facts))}"]
        parts += _block(measured[0], 0)
        for block in measured[1:]:
            parts += _block(block, 3)
    for section in page.sections(facts):
        parts += _section(section)
    parts += _titled("Training", [training] if training is not None else [])
    parts += _titled("Parity of the files", [made["parity"]] if "parity" in made else [])
    parts += _listed("Limits", story.limits(facts))
    parts += _listed("Missing", list(results.missing))
    circumstances = story.circumstances(facts)
    if circumstances:
        parts += ["## Circumstances", _definitions(circumstances)]
    return "\n\n".join(parts) + "\n"


def render_comparison(value: Comparison) -> str:
    """Writes a comparison as Markdown.

    Args:
      value: What the page says.

    Returns:
      The text, ending in a line break.
    """
    parts = ["# Comparison", escape(value.headline)]
    if value.figures:
        parts.append(_figure_lines(value.figures))
    for section in value.sections:
        parts += _section(section)
    parts += _listed("Limits", value.limits)
    return "\n\n".join(parts) + "\n"


def table(value: cells.Table) -> str:
    """Writes one table with its caption and notes; numbers are right-aligned."""
    head = [escape(column) for column in value.columns]
    strong = [row.strong for row in value.rows]
    lines = [
        "| " + " | ".join(head) + " |",
        "|" + "|".join(["---", *["---:"] * (len(head) - 1)]) + "|",
    ]
    for row, stands_out in zip(cells.plain(value), strong, strict=True):
        written = [escape(cell) for cell in row]
        if stands_out:
            written[0] = f"**{written[0]}**"
        lines.append("| " + " | ".join(written) + " |")
    return "\n\n".join([f"{escape(value.caption)}.", "\n".join(lines), *map(escape, value.notes)])


def escape(text: str) -> str:
    """Makes text from outside plain: no markup, no HTML, no line breaks."""
    flat = re.sub(r"\s+", " ", text).strip()
    flat = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|#~])", r"\\\1", flat)


def _section(section: Section) -> list[str]:
    parts = [f"## {escape(section.title)}", escape(section.intro)]
    for block in section.blocks:
        parts += _block(block, 3)
    return [*parts, _definitions(section.facts)] if section.facts else parts


def _block(block: Block, level: int) -> list[str]:
    """A block under its heading of a level; 0 for none."""
    parts = [f"{'#' * level} {escape(block.title)}"] if level else []
    parts += [escape(block.intro)] if block.intro else []
    return [*parts, *map(table, (*block.tables, *block.folded))]


def _titled(title: str, present: Sequence[cells.Table]) -> list[str]:
    return [f"## {title}", *map(table, present)] if present else []


def _figures(facts: Facts) -> list[str]:
    found = story.figures(facts)
    return [_figure_lines(found)] if found else []


def _figure_lines(figures: Sequence[story.Figure]) -> str:
    return "\n".join(
        f"- **{escape(f.value)}** {escape(f.label)} ({escape(f.detail)})" for f in figures
    )


def _definitions(rows: Sequence[tuple[str, str]]) -> str:
    return "\n".join(f"- {escape(name)}: {escape(value)}" for name, value in rows)


def _listed(title: str, sentences: Sequence[str]) -> list[str]:
    if not sentences:
        return []
    return [f"## {title}", "\n".join(f"- {escape(sentence)}" for sentence in sentences)]
