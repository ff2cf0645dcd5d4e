"""What a run learnt of a model's answers, and which of them look wrong. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tfdistill.report.document import ReportSection, part
from tfdistill.report.run_analysis import RunAnalysis
from tfdistill.results import tables
from tfdistill.results.tables import Cell

_SHOWN = 10  # suspects


def sections(run: RunAnalysis) -> Iterator[ReportSection]:
    """Yields the section of the answers, where the data have any."""
    notes, suspects = run.results.answer_notes, run.results.suspects
    if not notes:
        return
    rows = [
        {
            "Text": " | ".join(texts),
            "Answer": answer,
            "Other answer": other,
            "Probability": Cell(f"{float(p):.1%}", value=float(p)),
        }
        for *texts, answer, other, p in suspects[:_SHOWN]
    ]
    caption = (
        f"The first {len(rows)} of {len(suspects)} training answers in suspects.csv that models "
        "fitted without them find least likely"
    )
    table = tables.of_rows("suspects", caption, rows)
    parts = part("suspects", "Answers that look wrong", table if rows else None)
    intro = "; ".join(notes)
    yield ReportSection("model-answers", "The model’s answers", "Model", intro, tuple(parts))
