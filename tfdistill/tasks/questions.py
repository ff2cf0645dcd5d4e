"""An answer inside a text to each question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfdistill import errors
from tfdistill.tasks import spans
from tfdistill.tasks.kind import TaskKind, register

if TYPE_CHECKING:
    from tfdistill.tasks.encoded import EncodedExamples
    from tfdistill.tasks.spec import TaskSpec


class AnswerSpans(TaskKind):
    """The start and the end of a question's answer in its text."""

    name = "span"
    head = "span"
    metrics = ("f1", "exact_match")
    layouts = ("squad",)
    nameless = "answers, no names"
    over_tokens = decodes_spans = True
    usual_columns = ("question", "answers")
    pair_column = "context"
    pipeline = "question-answering"
    pipeline_input = 'question="...", context="..."'

    def num_labels(self, labels: Sequence[str]) -> int:
        """Two: of being the start, and of being the end."""
        return 2

    def parse(self, spec: TaskSpec, values: Sequence[str], where: Sequence[str]) -> np.ndarray:
        """Refuses: answers are no cells of a table."""
        raise errors.ConfigError(f"labels of task {spec.name!r}", "a file of questions", "cells")

    def score(
        self, spec: TaskSpec, outputs: np.ndarray, encoded: EncodedExamples
    ) -> dict[str, float]:
        """See `spans.score`."""
        values = spans.score(outputs, encoded, spec.spans)
        return {name: values[name] for name in spec.metrics}

    def chance(self, spec: TaskSpec, labels: np.ndarray) -> float:
        """The share of questions without an answer, where there are such."""
        return float(np.mean(labels)) if spec.spans.unanswerable else 0.0


register(AnswerSpans())
