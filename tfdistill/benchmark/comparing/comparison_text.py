"""Changes between results, as text for a terminal and as a value for JSON."""

from __future__ import annotations

from typing import Any

from tfdistill.benchmark import schema, terminal
from tfdistill.benchmark.comparing import changes
from tfdistill.results import quantities, tables

_ORIGIN = ("created", "kind", "backend")
_ROW = (
    *("baseline", "old_p50_ms", "new_p50_ms", "speedup", "speedup_ci", "slowdown", "slowdown_ci"),
    *("faster", "throttled", "busy", "verdict"),
)


def as_dict(comparison: changes.Changes) -> dict[str, Any]:
    """Gives the changes as a value for JSON; durations in ms, 0.05 is 5%."""

    def origin(result: schema.Result) -> dict[str, Any]:
        return {
            **{name: getattr(result, name) for name in _ORIGIN},
            "device": result.device.name,
            "device_id": result.device.id,
            "tfdistill_version": result.tfdistill_version,
        }

    return {
        "format_version": 1,
        "interleaved": comparison.old is comparison.new,
        "old": origin(comparison.old),
        "new": origin(comparison.new),
        "rows": [
            {**row.case.model_dump(), **{name: getattr(row, name) for name in _ROW}}
            for row in comparison.rows
        ],
        "files": [
            {
                "baseline": pair.old.name,
                "model": pair.new.name,
                "old_sha256": pair.old.sha256,
                "new_sha256": pair.new.sha256,
                "old_size_bytes": pair.old.size_bytes,
                "new_size_bytes": pair.new.size_bytes,
                "old_metrics": pair.old_metrics,
                "new_metrics": pair.new_metrics,
            }
            for pair in comparison.pairs
        ],
        "text_times": [
            {
                **new.model_dump(include={"model", "threads", "delegate", "affinity"}),
                "baseline": old.model,
                "old_expected_ms": old.expected_ms,
                "new_expected_ms": new.expected_ms,
            }
            for old, new in _text_times(comparison)
        ],
        "only_old": [case.model_dump() for case in comparison.only_old],
        "only_new": [case.model_dump() for case in comparison.only_new],
        "notes": list(comparison.notes),
    }


def format_text(comparison: changes.Changes) -> str:
    """Shows the changes as text for a terminal."""
    lines = [f"old: {terminal.origin(comparison.old)}"]
    if comparison.new is comparison.old:
        lines = [f"{terminal.origin(comparison.old)}; the files took turns"]
    else:
        lines.append(f"new: {terminal.origin(comparison.new)}")
    rows = []
    for row in comparison.rows:
        both = row.case.model == row.baseline
        mark = "; throttled" if row.throttled else ""
        mark += f"; {tables.BUSY}" if row.busy and not row.reason else ""
        cells = {
            "file": row.case.model if both else f"{row.case.model} for {row.baseline}",
            **terminal.setting_cells(row.case, [other.case for other in comparison.rows]),
            "old ms": terminal.milliseconds(row.old_p50_ms),
            "new ms": terminal.milliseconds(row.new_p50_ms),
            "speed-up": f"{row.speedup:.2f}x",
            "95%": "[{:.2f}, {:.2f}]".format(*row.speedup_ci) if row.speedup_ci else "",
            "verdict": row.verdict + mark,
        }
        rows.append(cells)
    lines += ["", *tables.lines(rows), ""]
    for old, new in _text_times(comparison):
        times = [terminal.milliseconds(row.expected_ms) for row in (old, new)]
        lines.append(
            f"{new.model}, {terminal.setting(new)}: a text takes {times[0]} ms -> {times[1]} ms "
            f"({old.expected_ms / new.expected_ms:.2f}x), each file at its own lengths"
        )
    for pair in comparison.pairs:
        lines.append(_size_line(pair))
    for what, cases in (("old", comparison.only_old), ("new", comparison.only_new)):
        for case in cases:
            lines.append(f"only in the {what} result: {terminal.describe(case)}")
    return "\n".join([*lines, *comparison.notes])


def _text_times(comparison: changes.Changes) -> list[tuple[schema.TextTime, schema.TextTime]]:
    """The expected time of a text before and after, where both are known on the same texts."""
    return [
        (old, new)
        for pair in comparison.pairs
        for new in comparison.new.text_times
        for old in comparison.old.text_times
        if (old.model, new.model) == (pair.old.name, pair.new.name)
        and old.setting == new.setting
        and old.num_texts == new.num_texts
    ]


def _size_line(pair: changes.FilePair) -> str:
    change = pair.new.size_bytes / pair.old.size_bytes - 1 if pair.old.size_bytes else 0.0
    line = (
        f"{pair.new.name}: {quantities.size(pair.old.size_bytes)} -> "
        f"{quantities.size(pair.new.size_bytes)} ({change:+.1%})"
    )
    for name in (name for name in pair.old_metrics if name in pair.new_metrics):
        line += f"; {name} {pair.old_metrics[name]:.4f} -> {pair.new_metrics[name]:.4f}"
    return line
