"""A student beside its teacher and the baselines, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from tfdistill.results import UNDERTRAINED, BaselineResult


def compared(
    metric: str,
    student: float | None,
    teacher: float | None,
    baselines: Sequence[BaselineResult],
    *,
    answered: tuple[int, int] | None = None,
) -> list[str]:
    """The teacher and the baselines beside a student, a line each, and who is below one.

    `answered` is of a teacher that was scored on a part of the examples, see `results.part_of`; it
    is then compared with nothing.
    """
    measured = [(row, row.metrics.get(metric)) for row in baselines]
    rows = [(row, value) for row, value in measured if value is not None]
    part = f" (of the {answered[0]} of {answered[1]} examples that it answered)" if answered else ""
    lines = [] if teacher is None else [f"  teacher: {teacher:.4f}{part}"]
    for row, value in rows:
        lines.append(f"  {row.name}: {value:.4f}" + (f" ({row.note})" if row.note else ""))
    if not lines:
        return []
    lines.insert(0, f"compared with, {metric}")
    for model, model_value in (
        ("student", student or 0.0),
        ("teacher", None if answered else teacher),
    ):
        others = [(row.name, value) for row, value in rows if row.is_alternative]
        better = [name for name, value in others if model_value is not None and model_value < value]
        if better:
            lines.append(f"WARNING: the {model} is below the baseline {' and '.join(better)}.")
        if model == "teacher" and "frozen_teacher" in better:
            lines.append(UNDERTRAINED)
    return lines
