"""The built-in tasks: GLUE, as its official files spell them, IMDb, NER and SQuAD.

Labels are in the order of Hugging Face.
"""

from __future__ import annotations

from tfdistill import errors
from tfdistill.tasks.spec import SpanRules, TaskSpec

_BINARY = ("0", "1")
_ENTAILMENT = ("entailment", "not_entailment")
_F1 = {"metrics": ("accuracy", "f1"), "primary_metric": "f1", "label_values": _BINARY}
# Name, column of the text, of the label, and of the second text.
_SPECS = (
    TaskSpec("sst2", "sentence", "label", labels=("negative", "positive"), label_values=_BINARY),
    TaskSpec(
        "cola",
        "sentence",
        "label",
        labels=("unacceptable", "acceptable"),
        label_values=_BINARY,
        metrics=("matthews", "accuracy"),
        primary_metric="matthews",
        header=("source", "label", "mark", "sentence"),
    ),
    TaskSpec(
        "mrpc",
        "#1 String",
        "Quality",
        "#2 String",
        labels=("not_equivalent", "equivalent"),
        positive_label="equivalent",
        **_F1,
    ),
    TaskSpec(
        "stsb",
        "sentence1",
        "score",
        "sentence2",
        kind="regression",
        metrics=("pearson", "spearman"),
        primary_metric="pearson",
    ),
    TaskSpec("rte", "sentence1", "label", "sentence2", labels=_ENTAILMENT),
    TaskSpec("qnli", "question", "label", "sentence", labels=_ENTAILMENT),
    TaskSpec(
        "qqp",
        "question1",
        "is_duplicate",
        "question2",
        labels=("not_duplicate", "duplicate"),
        positive_label="duplicate",
        # The official train.tsv holds a few rows that a line break tore apart.
        skip_short_rows=True,
        **_F1,
    ),
    TaskSpec(
        "mnli",
        "sentence1",
        "gold_label",
        "sentence2",
        labels=("entailment", "neutral", "contradiction"),
    ),
    TaskSpec(
        "wnli",
        "sentence1",
        "label",
        "sentence2",
        labels=("not_entailment", "entailment"),
        label_values=_BINARY,
    ),
    TaskSpec(
        "imdb",
        "text",
        "label",
        labels=("negative", "positive"),
        label_values=("neg", "pos"),
        layout="folders",
        dev_split="test",
    ),
    TaskSpec("ner", "0", "-1", kind="token"),  # its tags are those of its files
    TaskSpec("squad", "question", "answers", "context", kind="span"),
    TaskSpec(
        "squad_v2",
        "question",
        "answers",
        "context",
        kind="span",
        spans=SpanRules(unanswerable=True),
    ),
)
_TASKS = {spec.name.replace("_", ""): spec for spec in _SPECS}


def task(name: str) -> TaskSpec:
    """Returns a task by its name.

    Args:
      name: sst2, cola, mrpc, stsb, rte, qnli, qqp, mnli, wnli, imdb, ner, squad or squad_v2; case,
        hyphens and underscores do not matter.

    Returns:
      The task, GLUE's with the labels in the order of Hugging Face.

    Raises:
      ConfigError: If there is no such task.
    """
    key = name.lower().replace("-", "").replace("_", "")
    if key not in _TASKS:
        raise errors.ConfigError(
            "task",
            "a built-in task, or columns of your own files",
            repr(name),
            errors.nearest(key, [spec.name for spec in _TASKS.values()]),
        )
    return _TASKS[key]


def tasks() -> list[str]:
    """Returns the names that `task` accepts."""
    return [spec.name for spec in _TASKS.values()]
