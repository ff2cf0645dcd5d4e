"""The built-in tasks: GLUE, as its official files spell them, IMDb, NER and SQuAD.

Labels are in the order of Hugging Face.
"""

from __future__ import annotations

from collections.abc import Mapping

from tfdistill import errors
from tfdistill.tasks.spec import SpanRules, TaskSpec


def _glue(name: str, text: str, pair: str | None, label: str, **fields) -> TaskSpec:
    return TaskSpec(name, text, label, pair, **fields)


_ENTAILMENT = ("entailment", "not_entailment")
_F1 = {"metrics": ("accuracy", "f1"), "primary_metric": "f1", "label_values": ("0", "1")}

GLUE: Mapping[str, TaskSpec] = {
    "sst2": _glue(
        "sst2",
        "sentence",
        None,
        "label",
        labels=("negative", "positive"),
        label_values=("0", "1"),
    ),
    "cola": _glue(
        "cola",
        "sentence",
        None,
        "label",
        labels=("unacceptable", "acceptable"),
        label_values=("0", "1"),
        metrics=("matthews", "accuracy"),
        primary_metric="matthews",
        header=("source", "label", "mark", "sentence"),
    ),
    "mrpc": _glue(
        "mrpc",
        "#1 String",
        "#2 String",
        "Quality",
        labels=("not_equivalent", "equivalent"),
        positive_label="equivalent",
        **_F1,
    ),
    "stsb": _glue(
        "stsb",
        "sentence1",
        "sentence2",
        "score",
        kind="regression",
        metrics=("pearson", "spearman"),
        primary_metric="pearson",
    ),
    "rte": _glue("rte", "sentence1", "sentence2", "label", labels=_ENTAILMENT),
    "qnli": _glue("qnli", "question", "sentence", "label", labels=_ENTAILMENT),
    "qqp": _glue(
        "qqp",
        "question1",
        "question2",
        "is_duplicate",
        labels=("not_duplicate", "duplicate"),
        positive_label="duplicate",
        # The official train.tsv holds a few rows that a line break tore apart.
        skip_short_rows=True,
        **_F1,
    ),
    "mnli": _glue(
        "mnli",
        "sentence1",
        "sentence2",
        "gold_label",
        labels=("entailment", "neutral", "contradiction"),
    ),
    "wnli": _glue(
        "wnli",
        "sentence1",
        "sentence2",
        "label",
        labels=("not_entailment", "entailment"),
        label_values=("0", "1"),
    ),
}

# Other tasks. "ner" takes its tags from its files.
_OTHERS: Mapping[str, TaskSpec] = {
    "imdb": TaskSpec(
        "imdb",
        "text",
        "label",
        labels=("negative", "positive"),
        label_values=("neg", "pos"),
        layout="folders",
        dev_split="test",
    ),
    "ner": TaskSpec("ner", "0", "-1", kind="token"),
    "squad": TaskSpec("squad", "question", "answers", "context", kind="span"),
    "squadv2": TaskSpec(
        "squad_v2",
        "question",
        "answers",
        "context",
        kind="span",
        spans=SpanRules(unanswerable=True),
    ),
}
_TASKS = {**GLUE, **_OTHERS}


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
