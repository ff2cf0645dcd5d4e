"""Tasks and the content of their files: kinds, labels, examples, metrics. NumPy only."""

from __future__ import annotations

from tfdistill.tasks import spans, tags, vectors  # noqa: F401  they register
from tfdistill.tasks.builtin import task, tasks
from tfdistill.tasks.examples import SPLITS, Examples, load_examples, parse_labels
from tfdistill.tasks.kind import KINDS, TaskKind, kind_named, register
from tfdistill.tasks.spec import SpanRules, TaskSpec
from tfdistill.tasks.tables import split_file

__all__ = [
    "KINDS",
    "SPLITS",
    "Examples",
    "SpanRules",
    "TaskKind",
    "TaskSpec",
    "kind_named",
    "load_examples",
    "parse_labels",
    "register",
    "split_file",
    "task",
    "tasks",
]
