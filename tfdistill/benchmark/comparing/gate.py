"""The gate of a change: a program that builds an app asks it before it takes a new file.

A case is too slow if the new file takes more than the limit longer by the estimate, and the
joint interval of all cases excludes that it is equally fast. So a build without any change fails
in at most 1 of 40 cases, however many cases were measured and however noisy they were, and far
less often on a quiet device; a build that is clearly beyond the limit fails as soon as its
slow-down is no noise. (To ask that the whole interval be beyond the limit would let a file through
that is 10% slower unless it was measured to within 5%.)

That holds as far as the intervals do. They know nothing of a device that is another one on another
day: both files belong into one run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from tfdistill.benchmark import terminal
from tfdistill.benchmark.comparing import changes
from tfdistill.results import tables

_ROUNDING = 1e-9  # of a difference of decimal fractions


@dataclasses.dataclass(frozen=True)
class Limits:
    """The most that a change may cost; None for no limit."""

    slower: float | None = None  # of the median latency of any case: 0.05 is 5%
    larger: float | None = None  # of the size of any file: 0.01 is 1%
    # of the task's primary metric, in points: 0.005 is half a point of 100
    less_accurate: float | None = None
    allow_throttled: bool = False  # whether measurements on a throttled device may pass
    refuse_undecided: bool = False  # whether measurements too noisy to see the limit fail

    def __bool__(self) -> bool:
        """Whether there is any limit."""
        return any(limit is not None for limit in (self.slower, self.larger, self.less_accurate))


@dataclasses.dataclass(frozen=True)
class Ruling:
    """The verdict on a change."""

    reasons: tuple[str, ...] = ()  # why it failed; empty if it passed
    warnings: tuple[str, ...] = ()  # what it passed without being looked at closely enough

    @property
    def passed(self) -> bool:
        """Whether nothing speaks against the change."""
        return not self.reasons


def judge(comparison: changes.Changes, limits: Limits) -> Ruling:
    """Holds a change against limits. Pure.

    A file that the new result lacks is a warning, and for a limit of latency each case that only
    the old file was measured at. Metrics of other data fail a limit of accuracy. A limit of latency
    also fails a change of which a part was not measured (the new result lists failures), that has
    cases without an interval (one repetition), and one measured on a device that throttled, unless
    that is allowed.
    """
    reasons: list[str] = []
    warnings: list[str] = []
    if limits.slower is not None:
        reasons += _not_measured(comparison, limits)
        reasons += _too_slow(comparison, limits.slower)
        warnings += [
            f"{terminal.describe(case)}: the new file was not measured there."
            for case in comparison.only_old
        ]
        blurred = list(_undecided(comparison, limits.slower))
        (reasons if limits.refuse_undecided else warnings).extend(blurred)
    if limits.larger is not None:
        reasons += _too_large(comparison, limits.larger)
    if limits.less_accurate is not None:
        reasons += _less_accurate(comparison, limits.less_accurate)
    if limits and limits.slower is None:
        warnings += _not_replaced(comparison)
    return Ruling(tuple(reasons), tuple(warnings))


def format_text(ruling: Ruling) -> str:
    """Shows a ruling as text."""
    lines = [f"warning: {warning}" for warning in ruling.warnings]
    lines += [f"FAILED: {reason}" for reason in ruling.reasons]
    return "\n".join([*lines, *(["passed"] if ruling.passed else [])])


def _not_measured(comparison: changes.Changes, limits: Limits) -> Iterator[str]:
    for failure in comparison.new.failures:
        yield f"{failure.what} was not measured: {failure.error}"
    for row in comparison.rows:
        where = terminal.describe(row.case)
        if row.speedup_ci is None:
            remedy = "measure again on a quiet one" if row.busy else "measure 2 or more in either"
            yield f"{where}: {row.reason}; {remedy}."
        if row.throttled and not limits.allow_throttled:
            yield (
                f"{where}: measured on a device that throttled. Cool it down and measure again, "
                "or use --allow-throttled."
            )


def _not_replaced(comparison: changes.Changes) -> Iterator[str]:
    paired = {pair.old.name for pair in comparison.pairs}
    for name in dict.fromkeys(case.model for case in comparison.only_old):
        if name not in paired:
            yield f"{name}: the new result lacks this file."


def _too_slow(comparison: changes.Changes, limit: float) -> Iterator[str]:
    for row in comparison.rows:
        if row.joint_ci is not None and row.slowdown > limit and row.joint_ci[1] < 1:
            low, high = 1 / row.joint_ci[1] - 1, 1 / row.joint_ci[0] - 1
            yield (
                f"{terminal.describe(row.case)}: {row.slowdown:.1%} slower "
                f"[{low:+.1%}, {high:+.1%}], more than {_percent(limit)}"
            )


def _undecided(comparison: changes.Changes, limit: float) -> Iterator[str]:
    remedy = "Measure more repetitions on a quiet device."
    if comparison.old is not comparison.new:
        remedy = "Measure both files in one run, or more repetitions on a quiet device."
    for row in comparison.rows:
        if row.joint_ci is None:
            continue
        low, high = row.joint_ci
        reach = (high / low) ** 0.5 - 1
        failed = row.slowdown > limit and high < 1
        if reach > limit and not failed:
            cause = f"{tables.BUSY}, too noisy" if row.busy else "too noisy"
            yield (
                f"{terminal.describe(row.case)}: {cause} for a limit of {_percent(limit)}: "
                f"only slow-downs beyond some {reach:.0%} would be seen. {remedy}"
            )


def _too_large(comparison: changes.Changes, limit: float) -> Iterator[str]:
    for pair in comparison.pairs:
        growth = pair.new.size_bytes / max(pair.old.size_bytes, 1) - 1
        if growth - limit > _ROUNDING:
            yield (
                f"{pair.new.name}: {pair.new.size_bytes} bytes against {pair.old.size_bytes}, "
                f"{growth:.1%} larger, more than {_percent(limit)}"
            )


def _less_accurate(comparison: changes.Changes, limit: float) -> Iterator[str]:
    for pair in comparison.pairs:
        name = pair.primary_metric
        before, after = pair.old_metrics.get(name or ""), pair.new_metrics.get(name or "")
        if before is None or after is None:
            yield (
                f"{pair.new.name}: the task's metric is not in both results; export "
                "with labelled examples, or benchmark with --task."
            )
        elif pair.other_data:
            yield (
                f"{pair.new.name}: {name} of other data cannot be compared ({pair.other_data}). "
                "Score both files on the same examples."
            )
        elif before - after - limit > _ROUNDING:
            yield (
                f"{pair.new.name}: {name} {after:.4f} against {before:.4f}, more than "
                f"{_percent(limit)} less"
            )


def _percent(value: float) -> str:
    return f"{value * 100:.4g}%"
