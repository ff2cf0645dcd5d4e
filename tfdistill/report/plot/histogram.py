"""Distributions of durations: one row for each file, its shape from all samples. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from tfdistill.report import format as fmt
from tfdistill.report.plot import charts, labels, svg

_WIDTH, _ROW, _LEFT, _RIGHT = 350.0, 66.0, 4.0, 4.0
_BINS = 110
_REPETITIONS = 30  # of a row
_FARTHEST = 2.5  # times the median; durations beyond are counted, not drawn
_ONE_AXIS = 2.0  # medians within this factor share an axis of milliseconds


@dataclasses.dataclass(frozen=True)
class DistributionRow:
    """The durations of a file.

    Attributes:
      label: Its name.
      written: The text at the other end: the median and a tail.
      repetitions: Samples of each repetition that counts, in milliseconds.
      series: Number of its colour.
      p50_ms: Median.
    """

    label: str
    written: str
    repetitions: tuple[tuple[float, ...], ...]
    series: int
    p50_ms: float

    def over(self, unit: float) -> DistributionRow:
        """The row with its durations divided by a unit."""
        return dataclasses.replace(
            self,
            repetitions=tuple(tuple(v / unit for v in part) for part in self.repetitions),
            p50_ms=self.p50_ms / unit,
        )


def is_relative(rows: Sequence[DistributionRow]) -> bool:
    """Whether medians differ too much for one axis of milliseconds to show any shape."""
    medians = [row.p50_ms for row in rows]
    return max(medians) > _ONE_AXIS * min(medians)


def distributions(key: str, title: str, rows: Sequence[DistributionRow]) -> Markup:
    """Draws a row for each file: how often each duration occurred, on one common axis.

    The axis is in milliseconds, or, where the medians differ much, in shares of each file's own
    median. It ends a little beyond the largest 99th percentile, at 2.5 times the median at most;
    the number of durations beyond is written there.
    """
    relative = is_relative(rows)
    drawn = [row.over(row.p50_ms) for row in rows] if relative else list(rows)
    low, high = svg.padded([*map(_low, drawn), *map(_high, drawn)], 0.03)
    across = svg.Scale(max(low, 0.0), high, _LEFT, _WIDTH - _RIGHT)
    bottom = _ROW * len(rows) + 2
    parts: list[Markup] = []
    for tick in across.ticks(4):
        x = across(tick)
        parts.append(svg.line(x, 4, x, bottom, "grid"))
        parts.append(labels.centred(x, bottom + 16, _tick(tick, relative), _WIDTH))
    for i, (row, shown) in enumerate(zip(rows, drawn, strict=True)):
        y = _ROW * i + 38
        parts += _shape(shown, across, y, row)
        room = _WIDTH - labels.width_of(row.written, labels.PLAIN) - 14
        parts.append(svg.text(_LEFT, y - 21, labels.fitted(row.label, room), class_="value named"))
        parts.append(svg.text(_WIDTH - _RIGHT, y - 21, row.written, class_="value", anchor="end"))
    description = "; ".join(f"{row.label}: {row.written}" for row in rows)
    return svg.picture(key, _WIDTH, bottom + 22, title, description, parts)


def _shape(
    row: DistributionRow, across: svg.Scale, y: float, original: DistributionRow
) -> list[Markup]:
    """A histogram, mirrored; strokes at the medians of the repetitions and of all."""
    samples = np.concatenate([np.asarray(part, dtype=np.float64) for part in row.repetitions])
    inside = samples[samples <= across.high]
    beyond = samples.size - inside.size
    edges = np.linspace(across.low, across.high, _BINS + 1)
    counts, _ = np.histogram(inside, edges)
    tallest = max(int(counts.max(initial=0)), 1)
    filled = np.flatnonzero(counts)
    parts = [svg.line(_LEFT, y, _WIDTH - _RIGHT, y, "track")]
    if filled.size:
        first, last = int(filled[0]), int(filled[-1])
        xs = [across(float(edge)) for edge in edges[first : last + 2]]
        tall = [11 * counts[i] / tallest for i in range(first, last + 1)]
        over = "".join(f"V{y - t:.1f}H{x:.1f}" for t, x in zip(tall, xs[1:], strict=True))
        under = "".join(
            f"V{y + t:.1f}H{x:.1f}" for t, x in zip(reversed(tall), reversed(xs[:-1]), strict=True)
        )
        d = f"M{xs[0]:.1f} {y:.1f}{over}{under}Z"
        parts.append(svg.element("path", d=d, class_=f"shape {charts.style(row.series)}"))
    if len(row.repetitions) > 1:
        for repetition in row.repetitions[:_REPETITIONS]:
            x = across(min(float(np.median(repetition)), across.high))
            parts.append(svg.line(x, y + 9, x, y + 14, "repetition"))
    parts.append(_middle(row, across, y))
    if beyond:
        most = max(max(part) for part in original.repetitions)
        words = f"{beyond:,} beyond, up to {fmt.milliseconds(most)} →"
        parts.append(svg.text(_WIDTH - _RIGHT, y + 25, words, class_="tick", anchor="end"))
    return parts


def _middle(row: DistributionRow, across: svg.Scale, y: float) -> Markup:
    x = across(_within(row.p50_ms, across))
    return svg.line(x, y - 12, x, y + 12, "median")


def _within(value: float, across: svg.Scale) -> float:
    return min(max(value, across.low), across.high)


def _low(row: DistributionRow) -> float:
    return min([*(min(part) for part in row.repetitions), row.p50_ms])


def _high(row: DistributionRow) -> float:
    """A little beyond the 99th percentile, so that a few outliers do not narrow the rest."""
    samples = np.concatenate([np.asarray(part, dtype=np.float64) for part in row.repetitions])
    greatest = 1.02 * float(np.percentile(samples, 99))
    return max(row.p50_ms, min(greatest, _FARTHEST * row.p50_ms))


def _tick(value: float, relative: bool) -> str:
    if not relative:
        return svg.tick_words(fmt.milliseconds, value) if value else "0"
    share = round(100 * (value - 1))
    return "median" if share == 0 else f"{share:+d}%".replace("-", "−")
