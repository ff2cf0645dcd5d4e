"""The exported files: agreement with their models. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tfdistill import manifest
from tfdistill.manifest.confidence import moved_coverage
from tfdistill.report import cells
from tfdistill.report import format as fmt
from tfdistill.report.document import ReportSection, part
from tfdistill.report.run_analysis import RunAnalysis
from tfdistill.results import tables
from tfdistill.results.tables import Cell, Table

_INPUTS = {"real": "real inputs", "random": "random ids"}


def sections(run: RunAnalysis) -> Iterator[ReportSection]:
    """Yields the folded section of checks."""
    if parts := part("parity", "", parity(run), promises(run), agreements(run), recall(run)):
        title = "Checks of the exported files"
        yield ReportSection("parity", title, "Checks", parts=tuple(parts), folds=True)


def promises(run: RunAnalysis) -> Table | None:
    """The share of the texts that each file answers at an error that it promises."""
    rows = []
    records = {name: card.confidence for name, card in _files(run)}
    for name, card in _files(run):
        for promise in card.confidence.by_error if card.confidence is not None else ():
            above = fmt.ABSENT if promise.threshold is None else f"{promise.threshold:.4f}"
            line = {
                "File": Cell(name, card.quantization),
                "Wrong at most": cells.share(promise.max_error, 0),
                "Answered": cells.share(promise.coverage, 1),
                "Wrong of these": cells.share(promise.error, 1),
                "Confidence above": above,
                "Texts": cells.number(promise.rows),
                "Texts needed": cells.number(promise.rows_needed),
                "Other texts sure": cells.share(promise.others_sure, 1),
            }
            rows.append(line)
    notes = ["Each promise holds with 90% confidence, for texts like the held-out ones."]
    if moved := moved_coverage(records):
        notes.append(f"Share of answers against that of the first file: {'; '.join(moved)}.")
    caption = "Answers that are sure enough to be right as often as promised"
    return tables.of_rows("promises", caption, rows, notes)


def agreements(run: RunAnalysis) -> Table | None:
    """What each file saves of a large model's calls at a disagreement that it promises."""
    rows, case = [], run.headline_case()
    for name, card in _files(run):
        timed = (row for row in run.summary if (row.sequence_length, row.threads) == case)
        latency = next((row.p50_ms for row in timed if row.model == name), None)
        for promise in card.confidence.agreements if card.confidence is not None else ():
            share, of = promise.share, promise.counted if promise.share is not None else ""
            line = {
                "File": Cell(name, card.quantization),
                "Sure and unlike at most": cells.share(promise.max_disagreement, 0),
                "Found": cells.share(promise.disagreement, 1),
                "Stays here": Cell(fmt.ABSENT if share is None else f"{share:.1%}", of, share),
                "Calls left of 1,000": cells.number(promise.calls_left),
                "Texts": cells.number(promise.rows),
                "Texts needed": cells.number(promise.rows_needed),
                "Size": cells.size(card.model.size_bytes),
                "Latency": cells.milliseconds(latency),
            }
            rows.append(line)
    notes = ["Shares of all requests that are drawn like the held-out texts, 90% confidence."]
    notes += ["Each level holds singly: an app follows one of them, or one promise of errors."]
    caption = "How often the file may speak for the model that answered, and what that saves"
    return tables.of_rows("agreements", caption, rows, notes)


def recall(run: RunAnalysis) -> Table | None:
    """How many of the entities each file's mask finds, and what it takes besides."""
    rows = []
    for name, card in _files(run):
        figures = card.confidence and card.confidence.recall
        if not figures:
            continue
        above = fmt.ABSENT if figures.threshold is None else f"{figures.threshold:.3g}"
        line = {
            "File": Cell(name, card.quantization),
            "Masked at least": cells.share(figures.min_recall, 1),
            "1 - P(O) above": above,
            "Entities masked": cells.share(figures.recall, 1),
            "Other words masked": cells.share(figures.needless, 2),
            "Entities, no threshold": cells.share(figures.recall_of_path, 1),
            "Other words, no threshold": cells.share(figures.needless_of_path, 2),
            "Texts": cells.number(figures.rows),
            "Texts needed": cells.number(figures.rows_needed),
            "These show": cells.share(figures.possible, 1),
        }
        rows.append(line)
    notes = ["It holds with 90% confidence, for texts like the held-out ones with entities."]
    return tables.of_rows("recall", "Entities that the mask of each file finds", rows, notes)


def parity(run: RunAnalysis) -> Table | None:
    """The agreement of each file with the model that it came from."""
    rows, bounds = [], []
    checks = [(name, card, card.parity) for name, card in _files(run) if card.parity is not None]
    same = f"Same {' or '.join(sorted({parity.answer_word for *_, parity in checks}))}"
    title = fmt.metric_title(run.metric)
    for name, card, checked in checks:
        line = {
            "File": Cell(name, card.quantization),
            "Examples": cells.number(checked.num_examples, _INPUTS[checked.inputs]),
            "Largest error": _error(checked.max_abs_error, checked),
            "Mean error": _error(checked.mean_abs_error, checked),
            "Signal to noise": cells.decibels(checked.sqnr_db),
            same: cells.share(checked.argmax_agreement),
            f"{title} (model)": cells.metric(run.metric, checked.model_metrics.get(run.metric)),
            f"{title} (file)": cells.metric(run.metric, checked.file_metrics.get(run.metric)),
            "sha256": card.model.sha256[:12],
        }
        rows.append(line)
        if checked.bounds:
            listed = ", ".join(f"{key} {value:g}" for key, value in checked.bounds.items())
            bounds.append(f"{name}: {listed}")
    notes = ["Errors of the outputs; rms is the root mean square of the model’s outputs."]
    notes += [f"Bounds that had to be met. {'; '.join(bounds)}."] if bounds else []
    caption = "Each file against the model that it was made from, on the same inputs"
    return tables.of_rows("parity", caption, rows, notes)


def _files(run: RunAnalysis) -> Iterator[tuple[str, manifest.Manifest]]:
    """Yields every exported file by name, variants for other devices after their own."""
    for name, card in run.results.manifests.items():
        for file in card.each_file():
            yield name if file.device == card.device else f"{name} for {file.device}", file


def _error(value: float, checked: manifest.Parity) -> Cell:
    """An error, and its share of the size of the outputs."""
    rms = checked.output_rms
    return Cell(fmt.error(value), f"{fmt.error(100 * value / rms)}% of rms" if rms else "", value)
