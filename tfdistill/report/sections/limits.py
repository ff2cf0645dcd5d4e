"""The limits of a run's numbers: what they do not show. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tfdistill.report.answer_sides import TEST
from tfdistill.report.run_analysis import RunAnalysis

_DEVICES = {
    "host": "Latency is that of this host ({}), not of a phone, where other cores, clocks and heat "
    "decide; ratios change too.",
    "emulator": "Latency is that of an emulated device ({}): it shows that the files run there, "
    "not how fast they are on a phone.",
    "phone": "Latency is that of one phone ({}); others differ widely.",
}


def limits(run: RunAnalysis) -> Iterator[str]:
    """Yields a sentence for each limit."""
    metrics, benchmark = run.results.metrics, run.results.benchmark
    if metrics is not None and metrics.synthetic_data:
        yield (
            "The data is synthetic: the figures show that the pipeline works, not how well it does "
            "on text that people wrote."
        )
    yield from metrics.caveats if metrics is not None else ()
    if metrics is not None and metrics.vocabulary is not None:
        pieces, *texts = metrics.vocabulary.lines
        yield f"The {pieces.replace(':', ' was cut to', 1)}."
        yield from (f"In the cut vocabulary, {line.strip()}." for line in texts)
    if run.teacher_part:
        answered, whole = run.teacher_part
        yield (
            f"The teacher’s files answered {answered} of the {whole} development examples: its "
            "metric is of other examples than the student’s, and the two are not compared."
        )
    if benchmark is not None:
        yield _DEVICES[benchmark.kind].format(benchmark.device.name)
        if any(row.throttled for row in benchmark.summary):
            yield "The device slowed down in a part of the measurement: see the latency table."
    yield from _of_formats(run)
    yield from _of_examples(run)
    for name, card in run.results.manifests.items():
        if card.parity is None:
            yield f"The {name} file was not compared with its model."
        elif card.parity.inputs == "random":
            yield f"The {name} file was checked on random token ids, not on sentences."
    for name in run.stale():
        yield (
            f"The benchmark measured another {name} file (its checksum differs), so its latency is "
            "left out. Measure again."
        )
    for note in benchmark.notes if benchmark is not None else ():
        yield note if note.endswith(".") else f"{note}."


def _of_formats(run: RunAnalysis) -> Iterator[str]:
    teacher, student = run.manifest_of(run.teacher), run.manifest_of(run.student)
    wanted, size_mb = (run.results.recipe_export.get(name) for name in ("quantize", "size_mb"))
    if student and wanted and (student.quantization != wanted or student.quantized_layers):
        layers = ", ".join(f"{layer} in {name}" for layer, name in student.quantized_layers.items())
        but = f" with {layers}" if layers else ""
        why = f"as {wanted} it lost too much, and was not written. Such a file is slower or larger."
        if size_mb is not None:
            why = f"it had to fit {size_mb} MB."
        yield f"The student’s file is {student.quantization}{but}: {why}"
    if run.speeds and teacher and student and teacher.quantization != student.quantization:
        yield (
            f"Size and speed compare {student.quantization} with {teacher.quantization}: a part of "
            "both comes from the quantization. To measure like against like: tfdistill run RECIPE "
            f"--out RUN --resume --set export.also_quantize=[{student.quantization}]"
        )


def _of_examples(run: RunAnalysis) -> Iterator[str]:
    scored = any(
        card.parity and card.parity.file_metrics for card in run.results.manifests.values()
    )
    metrics, student = run.results.metrics, run.student
    if not scored and (metrics is None or not metrics.models):
        return
    if run.results.cross_fitted:
        yield (
            "All metrics are cross-validated: each row was answered by a head that was fitted "
            "without it. The file holds a head that was fitted to all rows, and was not measured."
        )
    elif run.split == TEST:
        yield (
            "Checkpoints may have been chosen on the development set. The test set chose none; it "
            "may have set the thresholds of sure answers, which are then tested on no other texts."
        )
    else:
        yield (
            "All metrics are of the development set, on which checkpoints may have been chosen; an "
            "independent test set would be a little lower."
        )
    if student is not None and len(student.models) == 1:
        yield "One seed: how much another seed would differ is unknown."
