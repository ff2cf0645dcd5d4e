"""Students of one teacher, each distilled for a few updates: what a search ranks."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping, Sequence

import numpy as np

from tfdistill import analysis, results
from tfdistill.data import answers
from tfdistill.io import files
from tfdistill.run import records
from tfdistill.run.folder import RunContext, RunFolder


def compare(
    context: RunContext,
    teacher: results.ModelResult,
    baselines: Sequence[results.BaselineResult],
    students: Mapping[str, str],
) -> results.CandidateMetrics:
    """Distils each student as the recipe says, unless that is done; only figures are kept.

    The recipe has the short stages and any student; `students` are name -> `student.preset`.
    Returns what they reach on the development set, and which are within chance of the best.
    """
    data, metric = context.task_data, context.task_data.task.primary_metric
    variant, seed = list(context.recipe.variants)[-1], context.recipe.seeds[0]
    trained: dict[str, results.ModelResult] = {}
    for name, preset in students.items():
        student = context.recipe.student.model_copy(update={"preset": preset})
        candidate_run = dataclasses.replace(
            context,
            recipe=context.recipe.model_copy(update={"student": student}),
            folder=RunFolder(context.root / "candidates" / name),
        )
        trained[name] = records.train_student(candidate_run, variant, seed, save=False)
        # The weights, after the result.
        shutil.rmtree(candidate_run.root / "stages", ignore_errors=True)
    values = {name: model.metrics.get(metric) for name, model in trained.items()}
    scored = {name: value for name, value in values.items() if value is not None}
    best = max(scored, key=lambda name: scored[name], default=None)
    return results.CandidateMetrics(
        task=data.task.name,
        metric=metric,
        num_examples=data.dev.num_examples,
        teacher=teacher.metrics.get(metric),
        baselines=tuple(baselines),
        students=scored,
        within_chance=tuple(n for n in scored if best and _is_equal(context, trained, best, n)),
    )


def _is_equal(
    context: RunContext, trained: Mapping[str, results.ModelResult], best: str, other: str
) -> bool:
    """Whether a paired test cannot tell a student from the best one; without answers, equality."""
    task = context.task_data.task
    logits = [_logits(context, name, trained[name]) for name in (best, other)]
    if logits[0] is None or logits[1] is None:
        metric = task.primary_metric
        return trained[other].metrics.get(metric) == trained[best].metrics.get(metric)
    gold = context.task_data.dev_examples.labels
    assert gold is not None
    return not analysis.paired_difference(task, gold, logits[0], logits[1]).is_clear


def _logits(context: RunContext, name: str, model: results.ModelResult) -> np.ndarray | None:
    path = context.root / "candidates" / name / str(model.folder) / answers.FILE_NAME
    return answers.read(path).logits["model"] if files.is_there(path) else None
