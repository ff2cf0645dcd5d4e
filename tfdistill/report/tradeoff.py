"""Accuracy against latency against size: the files of a device, by task. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from tfdistill.report import cells, devices
from tfdistill.report import format as fmt
from tfdistill.report.devices import DeviceFile, DeviceResults, Timing
from tfdistill.report.plot import charts
from tfdistill.results import SweepResults, tables
from tfdistill.results.tables import Cell, Table, row

Cost = tuple[float, float]  # the interval of a cost, lower is better; both ends equal if exact
NAMED = 10  # with more points only those on the front are named in a chart, others numbered


@dataclasses.dataclass(frozen=True)
class Point:
    """The accuracy of a file and its costs."""

    label: str  # unique in its chart
    accuracy: float  # the task's metric, higher is better
    latency_ms: float  # median of one inference
    interval_ms: tuple[float, float] | None  # its 95% interval; None where there is none
    size_bytes: int  # of the file
    marks: str = ""  # what disturbed the measurement, see `devices.marks`
    series: int = charts.OTHERS  # number of its colour, see `plot.charts`
    number: int = 0  # its name in charts where the label does not fit
    on_front: bool = True  # whether no other point is as good in all three and better in one


@dataclasses.dataclass(frozen=True)
class TradeOff:
    """The files of one task at one length and number of threads."""

    task: str  # name of the task
    metric: str  # name of the metric
    case: str  # such as "128 tokens, 1 thread"
    checked: str  # where the accuracy comes from, a sentence
    points: tuple[Point, ...]  # the files with all three figures
    left_out: tuple[str, ...] = ()  # A sentence for each other file

    @property
    def front(self) -> list[Point]:
        """The points on the Pareto front, the fastest first."""
        on = (point for point in self.points if point.on_front)
        return sorted(on, key=lambda point: point.latency_ms)


def front(choices: Sequence[Sequence[Cost]]) -> list[bool]:
    """Says of each choice whether no other dominates it: nowhere worse, somewhere better.

    All have the same number of costs. A cost is better or worse only where the intervals do not
    touch. Equal choices are on the front together.
    """
    costs = (
        np.asarray(choices, dtype=np.float64).reshape(len(choices), -1, 2)
        if choices
        else np.empty((0, 0, 2))
    )
    lows, highs = costs[..., 0], costs[..., 1]
    return [
        not ((lows <= high).all(axis=1) & (highs < low).any(axis=1)).any()
        for low, high in zip(lows, highs, strict=True)
    ]


def with_front(points: Sequence[Point]) -> tuple[Point, ...]:
    """Marks the points on the Pareto front.

    A latency is better or worse only where the intervals do not touch; without intervals, where
    the medians differ.
    """
    costs = [
        [
            (-point.accuracy, -point.accuracy),
            point.interval_ms or (point.latency_ms, point.latency_ms),
            (point.size_bytes, point.size_bytes),
        ]
        for point in points
    ]
    return tuple(
        dataclasses.replace(point, on_front=on)
        for point, on in zip(points, front(costs), strict=True)
    )


def of_device(device: DeviceResults) -> list[TradeOff]:
    """Gathers the points of a device; tasks and metrics are never mixed."""
    timings: dict[tuple[str, str], list[Timing]] = {}
    unknown: list[str] = []
    compared = device.compared_timings()
    for timing in compared:
        task = _task(timing.file)
        if task is None:
            unknown.append(f"{timing.label}: its accuracy is not known (no task was checked).")
        else:
            timings.setdefault(task, []).append(timing)
    absent: dict[tuple[str, str] | None, list[str]] = {}
    measured = {timing.file.label for timing in compared}
    for file in device.files:
        if file.label not in measured:
            sentence = f"{file.label}: not measured at {_case(device)}."
            absent.setdefault(_task(file), []).append(sentence)
    unknown += absent.get(None, [])
    return [
        _of_task(device, task, same, [*absent.get(task, []), *unknown])
        for task, same in timings.items()
    ]


def of_sweep(sweep: SweepResults) -> TradeOff | None:
    """Gathers the points of a sweep of quantizations, at the longest length that was measured."""
    length = max((length for trial in sweep.rows for length in trial.p50_ms), default=None)
    metric = next((r.primary_metric for r in sweep.rows if r.file_metrics and r.primary_metric), "")
    if length is None or not metric:
        return None
    points, left_out = [], []
    for number, trial in enumerate(sweep.rows, start=1):
        accuracy, latency = trial.file_metrics.get(metric), trial.p50_ms.get(length)
        figures = {"accuracy": accuracy, "latency": latency, "size": trial.size_bytes}
        missing = [name for name, value in figures.items() if value is None]
        if trial.verdict != "good":
            left_out.append(f"{trial.name}: {trial.verdict}.")
        elif accuracy is None or latency is None or trial.size_bytes is None:
            left_out.append(f"{trial.name}: {' and '.join(missing)} not known.")
        else:
            points.append(
                Point(
                    trial.name,
                    accuracy,
                    latency,
                    None,
                    trial.size_bytes,
                    tables.BUSY if length in trial.busy_lengths else "",
                    series=charts.OTHERS + len(points),
                    number=number,
                )
            )
    if not points:
        return None
    checked = "Accuracy of the files on the development set, on the host."
    case = f"{length} tokens"
    return TradeOff("the sweep", metric, case, checked, with_front(points), tuple(left_out))


def table(key: str, value: TradeOff) -> Table:
    """The points with their numbers in the charts, those of the front first."""
    numbered = len(value.points) > NAMED
    metric, rows = fmt.metric_title(value.metric), []
    for point in sorted(value.points, key=lambda p: (not p.on_front, p.latency_ms)):
        line = {
            "File": Cell(point.label, point.marks),
            "No.": cells.number(point.number if numbered else None),
            metric: cells.metric(value.metric, point.accuracy),
            "p50": cells.milliseconds(point.latency_ms, point.interval_ms),
            "Size": cells.size(point.size_bytes),
            "On the front": "yes" if point.on_front else "no",
        }
        rows.append(row(line, strong=point.on_front))
    notes = (
        value.checked,
        "On the front: no other file is as good in all three and better in one. A latency is "
        "better where the 95% intervals do not touch.",
        *(f"Left out: {reason}" for reason in value.left_out),
    )
    caption = f"{metric} on {value.task}, latency at {value.case}, and size"
    return Table(key, caption, rows[0].titles, tuple(rows), notes).without_empty()


def _of_task(
    device: DeviceResults, task: tuple[str, str], timings: Sequence[Timing], left_out: list[str]
) -> TradeOff:
    name, metric = task
    answers = [_answers(timing, metric) for timing in timings]
    on_device = all(answers)
    points, examples = [], set()
    for timing, answer in zip(timings, answers, strict=True):
        manifest = timing.file.model.manifest
        assert manifest is not None and manifest.parity is not None
        parity, summary = manifest.parity, timing.summary
        if on_device and answer is not None:
            accuracy, number = answer
        else:
            accuracy = parity.file_metrics[metric]
            number = parity.num_scored or parity.num_examples
        examples.add(number)
        points.append(
            Point(
                timing.label,
                accuracy,
                summary.p50_ms,
                summary.p50_ci_ms,
                timing.file.model.size_bytes,
                devices.marks(summary),
                timing.series,
                device.order[timing.label],
            )
        )
    source = "of the files on the host (model.json)"
    if on_device:
        source = f"of the answers of the {devices.kind_word(device.kind)} itself"
    counted = " to ".join(f"{number:,}" for number in sorted({min(examples), max(examples)}))
    counted += " development examples"
    counted += " (not the same for all)" if len(examples) > 1 else ""
    checked = f"{fmt.metric_title(metric)} {source} on {counted}."
    return TradeOff(name, metric, _case(device), checked, with_front(points), tuple(left_out))


def _answers(timing: Timing, metric: str) -> tuple[float, int] | None:
    """The metric of the device's own answers at this delegate, and on how many examples."""
    for part in timing.file.source.result.answers:
        same = (part.model, part.delegate) == (timing.summary.model, timing.summary.delegate)
        if same and metric in part.metrics:
            return part.metrics[metric], part.num_examples
    return None


def _task(file: DeviceFile) -> tuple[str, str] | None:
    metric = devices.primary_metric(file.model)
    manifest = file.model.manifest
    if metric is None or manifest is None:
        return None
    return manifest.task.name if manifest.task is not None else "a task without a name", metric


def _case(device: DeviceResults) -> str:
    return fmt.case(*device.common_case) if device.common_case else "any length"
