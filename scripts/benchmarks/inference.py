"""Inference: the exported student against its teacher's shape in float32, on one thread.

Weights are random, and none is zero or one, which a converter would leave out: apart from that time
does not depend on them.
"""

from __future__ import annotations

import pathlib
import tempfile
from typing import Any

import record

from tfdistill.benchmark.settings import Settings
from tfdistill.results import tables

_STUDENT_LENGTHS = (32, 64, 128)
_TEACHER_LENGTHS = (128,)


def measure(*, quick: bool) -> record.Outcome:
    """Exports both and compares the files, interleaved."""
    from tfdistill.benchmark import host

    teacher_name, student_name = "bert_base", "tinybert_4l_312d"
    settings: dict[str, Any] = {"threads": (1,), "min_seconds": 3.0, "repetitions": 3}
    if quick:
        teacher_name, student_name = "bert_mini", "bert_tiny"
        settings = {"threads": (1,), "min_seconds": 0.0, "repetitions": 1, "runs": 10}
    with tempfile.TemporaryDirectory(prefix="tfdistill-bench-") as folder:
        teacher = export(teacher_name, "float32", _TEACHER_LENGTHS, folder, quick=quick)
        student = export(student_name, "dynamic_wi8_afp32", _STUDENT_LENGTHS, folder, quick=quick)
        compared = host.compare([teacher, student], progress=True, settings=Settings(**settings))
    baseline, candidate = teacher.stem, student.stem
    p50_ms = {(row.model, row.sequence_length): row.p50_ms for row in compared.summary}
    (against_teacher,) = compared.comparisons
    note = tables.BUSY if against_teacher.busy else ""
    if against_teacher.speedup_ci is not None:
        low, high = against_teacher.speedup_ci
        note = ", ".join(filter(None, (f"95% interval {low:.1f} to {high:.1f}", note)))
    return record.Outcome(
        title=f"inference: {candidate} against {baseline}, one thread",
        figures=[
            record.Figure(
                f"faster than {baseline} at 128 tokens",
                against_teacher.speedup,
                35.0,
                unit="x",
                note=note,
            ),
            record.Figure(
                "32 tokens faster than 128",
                p50_ms[candidate, 128] / p50_ms[candidate, 32],
                4.0,
                unit="x",
            ),
            record.Figure(
                "64 tokens faster than 128",
                p50_ms[candidate, 128] / p50_ms[candidate, 64],
                unit="x",
            ),
        ],
        details=[
            (f"{model}, {length} tokens", f"p50 {value:.3f} ms")
            for (model, length), value in p50_ms.items()
        ],
        settings=compared.settings,
        samples=compared.model_dump(mode="json"),
        notes=compared.notes,
    )


def export(
    preset: str, quantize: str, lengths: tuple[int, ...], folder: str, *, quick: bool
) -> pathlib.Path:
    """Exports a random classifier of a preset, of one layer if `quick`, and returns the file."""
    import export as exporter
    from tfdistill import models

    path = pathlib.Path(folder) / f"{preset}_{quantize}" / f"{preset}_{quantize}.tflite"
    shape = models.preset(preset)
    if quick:
        shape = shape.replace(num_layers=1, vocab_size=1000)
    model = models.build_random(shape, models.Head("sequence", 2))
    exporter.to_tflite(model, path, quantize=quantize, lengths=lengths)
    return path
