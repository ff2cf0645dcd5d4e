"""Cells of the figures that a report shows. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tfdistill.report import format as fmt
from tfdistill.results import quantities
from tfdistill.results.tables import Cell


def name(text: str, detail: str = "", longest: int = 60) -> Cell:
    """A name that others chose, such as a label: shortened in its middle where it is too long."""
    shown = fmt.shortened(text, longest)
    return Cell(shown, detail, whole="" if shown == text else text)


def quantity(value: float | None, unit: str, detail: str = "") -> Cell:
    """A number with three digits and the unit of its column."""
    return Cell(fmt.ABSENT if value is None else quantities.digits(value), detail, value, unit)


def milliseconds(value: float | None, interval: Sequence[float] | None = None) -> Cell:
    """A duration, with its 95% interval where there is one."""
    ends = (interval[0], interval[1]) if interval else None
    cell = quantity(value, "ms", fmt.interval(*ends) if ends else "")
    return dataclasses.replace(cell, interval=ends)


def ratio(value: float | None, interval: Sequence[float] | None = None) -> Cell:
    """A factor, with its 95% interval where there is one."""
    ends = (interval[0], interval[1]) if interval else None
    return Cell(fmt.ratio(value), fmt.interval(*ends) if ends else "", value, interval=ends)


def size(value: float | None, detail: str = "") -> Cell:
    """A number of bytes, in megabytes."""
    return quantity(None if value is None else value / 1e6, "MB", detail)


def millions(value: float | None) -> Cell:
    """A number of weights or operations, in millions."""
    return quantity(None if value is None else value / 1e6, "M")


def number(value: float | None, detail: str = "") -> Cell:
    """A count."""
    return Cell(fmt.ABSENT if value is None else f"{value:,}", detail, value)


def metric(name: str, value: float | None, detail: str = "") -> Cell:
    """A metric of a task."""
    return Cell(fmt.metric(name, value), detail, value)


def share(value: float | None, digits: int = 2) -> Cell:
    """A share of a whole, in percent."""
    return Cell(fmt.ABSENT if value is None else f"{100 * value:.{digits}f}%", value=value)


def seconds(value: float | None) -> Cell:
    """A duration of seconds to hours."""
    return quantity(value, "s")


def decibels(value: float | None) -> Cell:
    """A ratio of signal to noise; None where two things are equal bit for bit."""
    return Cell("equal" if value is None else f"{value:.1f}", value=value, unit="dB")
