"""What a file costs against what it is worth: the points of a device, by task. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tfdistill.report import cells, device_tables, devices, pareto
from tfdistill.report import format as fmt
from tfdistill.report.cells import Cell, Row, Table
from tfdistill.report.devices import Bench, File, Timing
from tfdistill.report.pareto import Point
from tfdistill.report.schema import Sweep

_LISTED = 5  # points of the front that are named in the sentence


@dataclasses.dataclass(frozen=True)
class TradeOff:
    """The files of one task at one place.

    Attributes:
      task: Name of the task.
      metric: Name of the metric.
      place: Such as "128 tokens, 1 thread".
      checked: Where the accuracy comes from, a sentence.
      points: Of which nothing is missing.
      front: Which of them are on the Pareto front.
      left_out: A sentence for each file that is no point.
    """

    task: str
    metric: str
    place: str
    checked: str
    points: tuple[Point, ...]
    front: tuple[bool, ...]
    left_out: tuple[str, ...] = ()


def of_bench(bench: Bench) -> list[TradeOff]:
    """Gathers the points of a device: tasks and metrics are never mixed.

    Args:
      bench: The device.

    Returns:
      One for each task and metric that a file was checked on, in order of appearance; none where
      no accuracy is known.
    """
    timings: dict[tuple[str, str], list[Timing]] = {}
    nameless: list[str] = []
    here = bench.here()
    for timing in here:
        task = _task(timing.file)
        if task is None:
            nameless.append(f"{timing.label}: its accuracy is not known (no task was checked).")
        else:
            timings.setdefault(task, []).append(timing)
    absent: dict[tuple[str, str] | None, list[str]] = {}
    measured = {timing.file.label for timing in here}
    for file in bench.files:
        if file.label not in measured:
            said = f"{file.label}: not measured at {_place(bench)}."
            absent.setdefault(_task(file), []).append(said)
    nameless += absent.get(None, [])
    return [
        _of_task(bench, task, same, [*absent.get(task, []), *nameless])
        for task, same in timings.items()
    ]


def of_sweep(sweep: Sweep) -> TradeOff | None:
    """Gathers the points of a sweep of quantizations, at the longest length that was measured."""
    lengths = {int(length) for row in sweep.rows for length in row.p50_ms if length.isdigit()}
    metric = next((r.primary_metric for r in sweep.rows if r.file_metrics and r.primary_metric), "")
    if not lengths or not metric:
        return None
    length = str(max(lengths))
    points, left_out = [], []
    for number, row in enumerate(sweep.rows, start=1):
        point = Point(
            row.name,
            row.file_metrics.get(metric),
            row.p50_ms.get(length),
            None,
            row.size_bytes,
            number=number,
        )
        if row.verdict != "good":
            left_out.append(f"{row.name}: {row.verdict or 'without a verdict'}.")
        elif point.missing:
            left_out.append(f"{row.name}: {' and '.join(point.missing)} not known.")
        else:
            points.append(point)
    if not points:
        return None
    checked = "Accuracy is that of the files on the development set, on the host."
    found, on = tuple(points), pareto.front(points)
    return TradeOff("the sweep", metric, f"{length} tokens", checked, found, on, tuple(left_out))


def sentence(value: TradeOff) -> str:
    """Says how many files are on the front, and which."""
    number, whole = sum(value.front), len(value.points)
    if whole == 1:
        return "Only one has all three figures, so there is nothing to choose between."
    best = sorted(_on(value), key=lambda point: point.latency_ms or 0.0)
    named = "; ".join(
        f"{point.label} ({fmt.metric(value.metric, point.accuracy)}, "
        f"{fmt.milliseconds(point.latency_ms)}, {fmt.size(point.size_bytes)})"
        for point in best[:_LISTED]
    )
    more = f"; and {number - _LISTED} more" if number > _LISTED else ""
    verb = "is" if number == 1 else "are"
    said = f"{number} of {whole} choices {verb} on the Pareto front"
    return f"{said}. From the lowest latency up: {named}{more}."


def table(key: str, value: TradeOff) -> Table:
    """The points with their numbers in the charts, those of the front first."""
    order = sorted(
        range(len(value.points)),
        key=lambda i: (not value.front[i], value.points[i].latency_ms or 0.0),
    )
    rows = []
    for i in order:
        point = value.points[i]
        rows.append(
            Row(
                Cell(point.label, "throttled" if point.throttled else ""),
                (
                    cells.number(point.number),
                    cells.metric(value.metric, point.accuracy),
                    cells.milliseconds(point.latency_ms, point.interval_ms),
                    cells.size(point.size_bytes),
                    Cell("yes" if value.front[i] else "no"),
                ),
                strong=value.front[i],
            )
        )
    columns = ("File", "No.", fmt.metric_title(value.metric), "p50", "Size", "On the front")
    notes = (
        value.checked,
        "A file is on the front unless another one is as good in all three and better in one; a "
        "latency counts as better only where the 95% intervals do not touch.",
        *(f"Left out: {said}" for said in value.left_out),
    )
    caption = (
        f"{fmt.metric_title(value.metric)} on {value.task}, latency at {value.place}, and size"
    )
    return Table(key, caption, columns, tuple(rows), notes)


def _of_task(
    bench: Bench, task: tuple[str, str], timings: Sequence[Timing], left_out: list[str]
) -> TradeOff:
    name, metric = task
    answers = [_answers(timing, metric) for timing in timings]
    on_device = all(answers)
    order = bench.order
    points, examples = [], set()
    for timing, answer in zip(timings, answers, strict=True):
        card = timing.file.model.manifest
        assert card is not None and card.parity is not None
        if on_device and answer is not None:
            accuracy, number = answer
        else:
            accuracy, number = card.parity.file_metrics[metric], card.parity.num_examples
        examples.add(number)
        summary = timing.summary
        points.append(
            Point(
                timing.label,
                accuracy,
                summary.p50_ms,
                summary.p50_ci_ms,
                timing.file.model.size_bytes,
                timing.series,
                summary.throttled,
                order[timing.label],
            )
        )
    where = (
        f"answers of the {devices.kind_word(bench.kind)} itself"
        if on_device
        else "file on the host, as its model.json says"
    )
    checked = f"{fmt.metric_title(metric)} is that of the {where}"
    counted = f"{min(examples):,}" + (f" to {max(examples):,}" if len(examples) > 1 else "")
    checked += f", on {counted} examples" + (
        " (not the same for all)." if len(examples) > 1 else "."
    )
    return TradeOff(
        name, metric, _place(bench), checked, tuple(points), pareto.front(points), tuple(left_out)
    )


def _answers(timing: Timing, metric: str) -> tuple[float, int] | None:
    """The metric of the device's own answers at this delegate, and on how many examples."""
    for part in timing.file.source.result.answers:
        same = (part.model, part.delegate) == (timing.summary.model, timing.summary.delegate)
        if same and metric in part.metrics:
            return part.metrics[metric], part.num_examples
    return None


def _task(file: File) -> tuple[str, str] | None:
    metric = device_tables.primary_metric(file.model)
    if metric is None:
        return None
    card = file.model.manifest
    assert card is not None
    return card.task.name if card.task is not None else "a task without a name", metric


def _place(bench: Bench) -> str:
    if bench.place is None:
        return "any place"
    return f"{bench.place[0]} tokens, {devices.threads(bench.place[1])}"


def _on(value: TradeOff) -> list[Point]:
    return [point for point, on in zip(value.points, value.front, strict=True) if on]
