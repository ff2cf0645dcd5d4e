"""The latency card of a measured machine: a row a file, as vendors publish theirs.

A result has to say what machine it is of: a host is called one, and a phone's figures are those
that the app wrote on it.
"""

from __future__ import annotations

from tfdistill import errors
from tfdistill.benchmark import schema
from tfdistill.benchmark.terminal import milliseconds, origin, setting
from tfdistill.io import files
from tfdistill.results import quantities, tables

WORDS = (16, 80, 256)  # of the texts of a card

_TIMES = (
    "Load is opening the file. The first answer is the first inference at the longest length, "
    "memory allocation included. The others are the median and p90 from text to answer, tokenizer "
    "included. A text of so many words joins texts of the file's examples; spaces part words. Not "
    "measured are texts without a figure, or that the file would read in several parts."
)


def write(result: schema.Result, path: files.Path) -> None:
    """Writes the card of a result as Markdown.

    Raises BenchmarkError if it is neither of a host nor of a phone, by the app.
    """
    from tfdistill.benchmark.adb import device_backend  # a worker on a host needs none

    device, source = result.device, (result.kind, result.backend)
    emulated = device_backend.is_emulator({"ro.build.fingerprint": device.fingerprint or "generic"})
    if source != ("host", "litert") and (source != ("phone", "app") or emulated):
        raise errors.BenchmarkError(
            f"--card of {device.name}",
            "a result of a host, or one that the app wrote on a phone with a build fingerprint",
            f"kind {result.kind}, backend {result.backend}, fingerprint {device.fingerprint}",
            "A simulated device gets no card: measure in the app on a phone, and use --adopt.",
        )
    notes = [_TIMES, *(f"{model.name}: SHA-256 {model.sha256}." for model in result.models)]
    notes += [*result.notes, *(f"NOT MEASURED: {f.what}: {f.error}" for f in result.failures)]
    starts = {(row.model, setting(row)): row for row in result.summary}  # the longest is last
    rows = [_row(result, start) for start in starts.values()]
    table = tables.of_rows("card", origin(result), rows, notes)
    body = "No file was measured." if table is None else table.markdown()
    files.atomic_write_text(path, f"# Latency on {tables.markdown(device.name)}\n\n{body}\n")


def _row(result: schema.Result, start: schema.Summary) -> tables.Line:
    """A file with one setting; `start` is at its longest length."""
    model = next(model for model in result.models if model.name == start.model)
    entries = model.manifest.signatures.values() if model.manifest is not None else ()
    longest = max((entry.sequence_length for entry in entries), default=start.sequence_length)
    row: dict[str, tables.Cell | str] = {
        "model": tables.Cell(model.name, setting(start)),
        "precision": model.quantization or "-",
        "size": quantities.size(model.size_bytes),
        "load": tables.Cell(milliseconds(start.init_ms), unit="ms"),
        "first answer": tables.Cell(milliseconds(start.first_inference_ms), unit="ms"),
        **{f"{words} words": tables.Cell("not measured", unit="ms") for words in WORDS},
    }
    for time in result.end_to_end:
        of_row = (time.model, setting(time)) == (start.model, setting(start))
        if of_row and time.tokens and f"{time.words} words" in row:
            cut = f", cut at {longest}" * (time.tokens > longest)
            busy = f"; {tables.BUSY}" * time.busy
            detail = f"p90 {milliseconds(time.p90_ms)}; {time.tokens} tokens{cut}{busy}"
            row[f"{time.words} words"] = tables.Cell(milliseconds(time.p50_ms), detail, unit="ms")
    return row
