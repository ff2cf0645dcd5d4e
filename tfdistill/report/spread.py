"""How durations are spread: one row a file, its shape from all samples. Pure."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from tfdistill.benchmark import schema
from tfdistill.report import charts, labels, scatter, svg
from tfdistill.report import format as fmt

_WIDTH, _ROW, _LEFT, _RIGHT = 350.0, 56.0, 4.0, 4.0
_BINS = 110
_BLOCKS = 30  # of a row; more are thinned
_FARTHEST = 2.5  # times the median; what lies beyond is counted, not drawn
_ONE_AXIS = 2.0  # medians within this factor share an axis of milliseconds


@dataclasses.dataclass(frozen=True)
class Row:
    """What is drawn of a file.

    Attributes:
      label: Its name.
      written: What stands at the other end: the median and a tail.
      repetitions: Samples of each repetition that counts, in milliseconds.
      blocks: Bursts, where the tool gives no samples.
      series: Number of its colour.
      p50_ms: Median.
    """

    label: str
    written: str
    repetitions: tuple[tuple[float, ...], ...]
    blocks: tuple[schema.Block, ...]
    series: int
    p50_ms: float

    def over(self, unit: float) -> Row:
        """The row with its durations divided by a unit."""
        return dataclasses.replace(
            self,
            repetitions=tuple(tuple(v / unit for v in part) for part in self.repetitions),
            blocks=tuple(_scaled(block, unit) for block in self.blocks),
            p50_ms=self.p50_ms / unit,
        )


def is_relative(rows: Sequence[Row]) -> bool:
    """Whether medians are too far apart for one axis of milliseconds to show any shape."""
    medians = [row.p50_ms for row in rows]
    return max(medians) > _ONE_AXIS * min(medians)


def distributions(key: str, title: str, rows: Sequence[Row]) -> Markup:
    """Draws a row for each file: how often each duration came up, on one common axis.

    The axis is in milliseconds, or, where the medians are far apart, in shares of each file's own
    median. It ends a little beyond the largest 99th percentile, at 2.5 times the median at most;
    how many lie beyond is written there.

    Args:
      key: Unique in the page.
      title: What it is.
      rows: The files, each with samples or blocks; at least one.

    Returns:
      The chart.
    """
    relative = is_relative(rows)
    drawn = [row.over(row.p50_ms) for row in rows] if relative else list(rows)
    low, high = svg.padded([*map(_low, drawn), *map(_high, drawn)], 0.03)
    across = svg.Scale(max(low, 0.0), high, _LEFT, _WIDTH - _RIGHT)
    bottom = _ROW * len(rows) + 2
    parts: list[Markup] = []
    for tick in across.ticks(4):
        x, written = across(tick), _tick(tick, relative)
        half = labels.width_of(written) / 2 + 3
        parts.append(svg.element("line", x1=x, x2=x, y1=4, y2=bottom, class_="grid"))
        x = min(max(x, half), _WIDTH - half)
        parts.append(svg.text(x, bottom + 16, written, class_="tick", anchor="middle"))
    for i, (row, shown) in enumerate(zip(rows, drawn, strict=True)):
        y = _ROW * i + 38
        parts += _blocks(shown, across, y) if row.blocks else _shape(shown, across, y, row)
        room = _WIDTH - labels.width_of(row.written, labels.PLAIN) - 14
        parts.append(svg.text(_LEFT, y - 21, labels.fitted(row.label, room), class_="value named"))
        parts.append(svg.text(_WIDTH - _RIGHT, y - 21, row.written, class_="value", anchor="end"))
    said = "; ".join(f"{row.label}: {row.written}" for row in rows)
    return svg.picture(key, _WIDTH, bottom + 22, title, said, parts)


def _shape(row: Row, across: svg.Scale, y: float, original: Row) -> list[Markup]:
    """A histogram, mirrored; strokes at the medians of the repetitions and of all."""
    samples = np.concatenate([np.asarray(part, dtype=np.float64) for part in row.repetitions])
    inside = samples[samples <= across.high]
    beyond = samples.size - inside.size
    edges = np.linspace(across.low, across.high, _BINS + 1)
    counts, _ = np.histogram(inside, edges)
    tallest = max(int(counts.max(initial=0)), 1)
    filled = np.flatnonzero(counts)
    parts = [svg.element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, class_="track")]
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
        for repetition in row.repetitions[:_BLOCKS]:
            x = across(min(float(np.median(repetition)), across.high))
            parts.append(svg.element("line", x1=x, x2=x, y1=y + 9, y2=y + 14, class_="repetition"))
    parts.append(_middle(row, across, y))
    if beyond:
        most = max(max(part) for part in original.repetitions)
        words = f"{beyond:,} beyond, up to {fmt.milliseconds(most)} →"
        parts.append(svg.text(_WIDTH - _RIGHT, y - 5, words, class_="tick", anchor="end"))
    return parts


def _blocks(row: Row, across: svg.Scale, y: float) -> list[Markup]:
    """A thin line from the least to the greatest of each burst, a dot at its median or mean."""
    step = max(1, math.ceil(len(row.blocks) / _BLOCKS))
    blocks = row.blocks[::step]
    style = charts.style(row.series)
    parts = []
    for i, block in enumerate(blocks):
        height = y - 11 + 22 * (i + 0.5) / len(blocks)
        start, end = (across(_within(v, across)) for v in (block.min_ms, block.max_ms))
        parts.append(
            svg.element("line", x1=start, x2=end, y1=height, y2=height, class_=f"burst {style}")
        )
        x = across(_within(block.median_ms or block.mean_ms, across))
        parts.append(svg.element("circle", cx=x, cy=height, r=1.8, class_=f"mark {style}"))
    return [*parts, _middle(row, across, y)]


def _middle(row: Row, across: svg.Scale, y: float) -> Markup:
    x = across(_within(row.p50_ms, across))
    return svg.element("line", x1=x, x2=x, y1=y - 12, y2=y + 12, class_="median")


def _within(value: float, across: svg.Scale) -> float:
    return min(max(value, across.low), across.high)


def _low(row: Row) -> float:
    samples = [min(part) for part in row.repetitions]
    return min([*samples, *(block.min_ms for block in row.blocks), row.p50_ms])


def _high(row: Row) -> float:
    """A little beyond the 99th percentile, so that a few stragglers do not press all together."""
    if row.blocks:
        greatest = max(block.max_ms for block in row.blocks)
    else:
        samples = np.concatenate([np.asarray(part, dtype=np.float64) for part in row.repetitions])
        greatest = 1.02 * float(np.percentile(samples, 99))
    return max(row.p50_ms, min(greatest, _FARTHEST * row.p50_ms))


def _scaled(block: schema.Block, unit: float) -> schema.Block:
    known = {
        name: value / unit
        for name in ("mean_ms", "min_ms", "max_ms", "std_ms", "first_ms", "median_ms", "p95_ms")
        if (value := getattr(block, name)) is not None
    }
    return block.model_copy(update=known)


def _tick(value: float, relative: bool) -> str:
    if not relative:
        return scatter.tick_words(fmt.milliseconds, value) if value else "0"
    share = round(100 * (value - 1))
    return "median" if share == 0 else f"{share:+d}%".replace("-", "−")
