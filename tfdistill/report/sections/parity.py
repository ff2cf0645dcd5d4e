"""The tables of exported files: agreement with their models, and with accelerators. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tfdistill import manifest
from tfdistill.report import cells
from tfdistill.report import format as fmt
from tfdistill.report.cells import Cell, Table, row
from tfdistill.report.run_analysis import RunAnalysis

_INPUTS = {"real": "real inputs", "random": "random ids"}


def _files(run: RunAnalysis) -> Iterator[tuple[str, manifest.Manifest]]:
    """Yields every exported file by name, variants for other devices after their own."""
    for name, found in run.results.manifests.items():
        for own in found.each_file():
            yield name if own.device == found.device else f"{name} for {own.device}", own


def accelerators(run: RunAnalysis) -> Table | None:
    """What the accelerators took of the files that are for them, and how they answered."""
    rows = []
    for name, own in _files(run):
        for found in own.accelerators:
            answered = found.verdict in ("whole", "partial")
            for signature in found.operators or (fmt.ABSENT,):
                taken, error = found.delegated.get(signature), found.sqnr_db.get(signature)
                share = f"{taken} of {found.operators.get(signature)}"
                rows.append(
                    row(
                        Cell(name, own.quantization),
                        found.title,
                        found.verdict,
                        signature,
                        fmt.ABSENT if taken is None else share,
                        cells.decibels(error) if answered else Cell(fmt.ABSENT),
                    )
                )
    columns = ("File", "Accelerator", "Verdict", "Signature", "Operators taken", "Signal to noise")
    note = "Compiled by LiteRT on the exporting computer: it says nothing about a phone’s speed."
    caption = "The files on the accelerators that they are for"
    return cells.table("accelerators", caption, columns, rows, (note,)) if rows else None


def parity(run: RunAnalysis) -> Table | None:
    """How far each file agrees with the model that it came from."""
    rows, bounds = [], []
    for name, found in _files(run):
        checked = found.parity
        if checked is None:
            continue
        rows.append(
            row(
                Cell(name, found.quantization),
                cells.number(checked.num_examples, _INPUTS[checked.inputs]),
                _error(checked.max_abs_error, checked),
                _error(checked.mean_abs_error, checked),
                cells.decibels(checked.sqnr_db),
                cells.share(checked.argmax_agreement),
                cells.metric(run.metric, checked.model_metrics.get(run.metric)),
                cells.metric(run.metric, checked.file_metrics.get(run.metric)),
                cells.size(found.model.size_bytes, found.model.sha256[:12]),
            )
        )
        if checked.bounds:
            listed = ", ".join(f"{key} {value:g}" for key, value in checked.bounds.items())
            bounds.append(f"Bounds that the {name} file had to meet: {listed}.")
    title = fmt.metric_title(run.metric)
    columns = (
        "File",
        "Examples",
        "Largest error",
        "Mean error",
        "Signal to noise",
        "Same answer",
        f"{title} (model)",
        f"{title} (file)",
        "Size, sha256",
    )
    note = "Errors are those of the outputs; rms is the root mean square of the model’s outputs."
    caption = "The files against the models that they were made from"
    return cells.table("parity", caption, columns, rows, (note, *bounds))


def _error(value: float, checked: manifest.Parity) -> Cell:
    """An error, and its share of the size of the outputs."""
    rms = checked.output_rms
    return Cell(fmt.error(value), f"{fmt.error(100 * value / rms)}% of rms" if rms else "", value)
