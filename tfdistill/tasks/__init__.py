"""What a task is, and what its files hold: kinds, labels, examples, metrics. NumPy only."""

from __future__ import annotations

from tfdistill.tasks.builtin import task, tasks
from tfdistill.tasks.examples import SPLITS, Examples, load_examples, parse_labels
from tfdistill.tasks.spec import KINDS, METRICS, SpanRules, TaskSpec
from tfdistill.tasks.tables import split_file

__all__ = [
    "KINDS",
    "METRICS",
    "SPLITS",
    "Examples",
    "SpanRules",
    "TaskSpec",
    "load_examples",
    "parse_labels",
    "split_file",
    "task",
    "tasks",
]
