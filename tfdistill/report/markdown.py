"""The report as Markdown: the same words and tables. Pure."""

from __future__ import annotations

import re

from tfdistill.report import curves, story, tables
from tfdistill.report.facts import Facts
from tfdistill.report.results import RunResults

_SECTIONS = (
    ("Models", ("models", "seeds")),
    ("Latency on this host", ("latency", "text", "start")),
    ("Training", ("training",)),
    ("Parity of the files", ("parity",)),
)


def render_markdown(results: RunResults) -> str:
    """Writes the report as Markdown.

    Args:
      results: What a run folder holds.

    Returns:
      The text, ending in a line break.
    """
    facts = Facts(results)
    made = tables.all_tables(facts)
    training = curves.table(facts)
    if training is not None:
        made["training"] = training
    parts = [f"# {escape(results.name)}", escape(story.headline(facts))]
    figures = story.figures(facts)
    if figures:
        parts.append(
            "\n".join(
                f"- **{escape(f.value)}** {escape(f.label)} ({escape(f.detail)})" for f in figures
            )
        )
    for title, keys in _SECTIONS:
        present = [made[key] for key in keys if key in made]
        if present:
            parts += [f"## {title}", *(table(t) for t in present)]
    parts += _listed("Limits", story.limits(facts))
    parts += _listed("Missing", list(results.missing))
    circumstances = story.circumstances(facts)
    if circumstances:
        lines = [f"- {escape(name)}: {escape(value)}" for name, value in circumstances]
        parts += ["## Circumstances", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def table(value: tables.Table) -> str:
    """Writes one table with its caption and notes; numbers are right-aligned."""
    head = [escape(column) for column in value.columns]
    strong = [row.strong for row in value.rows]
    lines = [
        "| " + " | ".join(head) + " |",
        "|" + "|".join(["---", *["---:"] * (len(head) - 1)]) + "|",
    ]
    for cells, stands_out in zip(tables.plain(value), strong, strict=True):
        written = [escape(cell) for cell in cells]
        if stands_out:
            written[0] = f"**{written[0]}**"
        lines.append("| " + " | ".join(written) + " |")
    return "\n\n".join([f"{escape(value.caption)}.", "\n".join(lines), *map(escape, value.notes)])


def escape(text: str) -> str:
    """Makes text from outside plain: no markup, no HTML, no line breaks."""
    flat = re.sub(r"\s+", " ", text).strip()
    flat = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|#~])", r"\\\1", flat)


def _listed(title: str, sentences: list[str]) -> list[str]:
    if not sentences:
        return []
    return [f"## {title}", "\n".join(f"- {escape(sentence)}" for sentence in sentences)]
