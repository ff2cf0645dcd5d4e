"""Why a model that answers near chance may do so: computed from what its training left."""

from __future__ import annotations

import pathlib

import numpy as np

from tfdistill import analysis, results
from tfdistill.data import answers
from tfdistill.training import callbacks

_FEW_STEPS = 500
_ONE_ANSWER = 0.9  # share of the examples that get the same answer
_LEAST_FALL = 0.05  # of the loss, from the first epoch to the last


def likely_causes(
    root: pathlib.Path,
    model: results.ModelResult,
    *,
    initialise: str = "",
) -> list[str]:
    """Lists what may have made a model weak, the most likely first, each with what to try.

    Args:
      root: The run folder.
      model: The model, with its histories.
      initialise: How it started, where it is a student.

    Returns:
      Clauses; empty where nothing stands out.
    """
    part = f"stages.{model.stages[-1]}" if model.role == "student" else "teacher.finetune"
    rows = [callbacks.read_history(root / part.csv) for part in model.history]
    rows = [part for part in rows if part]
    found = []
    teacher = _logits(root / "teacher") if model.role == "student" else None
    if teacher is not None and teacher.shape[1] > 1 and model.stages != ("labels",):
        share = analysis.entropy_share(teacher)
        if share >= analysis.NEARLY_UNIFORM:
            found.append(
                f"the teacher's answers are nearly uniform (entropy {share:.2f} of the largest): "
                f"add gold labels (--set {part}.loss_weights.label=1)"
            )
    if initialise == "random":
        found.append("it started from random weights: student.initialise=auto starts it pruned")
    steps = sum(int(_last(part, "step") or 0) for part in rows)
    if rows and steps < _FEW_STEPS:
        found.append(f"it had {steps} updates: give it more, with --set {part}.epochs=N")
    found += _of_loss(rows[-1] if rows else [], part)
    own = _logits(root / str(model.folder))
    if own is not None and own.shape[1] > 1:
        share = np.bincount(own.argmax(axis=1)).max() / len(own)
        if share >= _ONE_ANSWER:
            found.append(
                f"it gives one answer to {100 * share:.0f}% of the examples: where other labels "
                "are rare, weigh them with data.class_weights=balanced"
            )
    return found


def _of_loss(rows: list[dict[str, str]], part: str) -> list[str]:
    losses = [float(row["loss"]) for row in rows if row.get("loss")]
    rates = [float(row["learning_rate"]) for row in rows if row.get("learning_rate")]
    if len(losses) < 2:
        return []
    first, last = losses[0], losses[-1]
    rate = f" at a learning rate of {max(rates):.1e}" if rates else ""
    key = f"--set {part}.learning_rate="
    fell = f"its loss went from {first:.3g} to {last:.3g}{rate}"
    if not last < first:
        return [f"{fell}: try a lower rate, {key}{max(rates, default=1e-4) / 3:.1e}"]
    if first - last < _LEAST_FALL * abs(first):
        return [f"{fell}: try a higher rate, {key}{max(rates, default=1e-5) * 3:.1e}"]
    return []


def _last(rows: list[dict[str, str]], column: str) -> float | None:
    value = rows[-1].get(column)
    return float(value) if value else None


def _logits(folder: pathlib.Path) -> np.ndarray | None:
    path = folder / answers.FILE_NAME
    return answers.read(path).logits["model"] if path.is_file() else None
