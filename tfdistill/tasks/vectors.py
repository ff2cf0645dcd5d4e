"""A vector for each text, measured on pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfdistill import errors
from tfdistill.tasks import pair_metrics
from tfdistill.tasks.kind import TaskKind, check_finite, register
from tfdistill.tasks.texts import numbers

if TYPE_CHECKING:
    from tfdistill.tasks.encoded import EncodedExamples
    from tfdistill.tasks.spec import TaskSpec

_WITHOUT_GOLD = ("mrr", "recall_at_1", "recall_at_10", "ndcg_at_10")


class Vectors(TaskKind):
    """A vector for each text; of pairs the similarity is the label, or all pairs match."""

    name = "embedding"
    head = "embedding"
    metrics = (*pair_metrics.SIMILARITY, *pair_metrics.RETRIEVAL)
    usual_metrics = ("spearman", "pearson")
    column = "regression"
    nameless = "similarities, no names"
    vectors = True
    pipeline = "sentence-similarity"

    def default_metrics(self, spec: TaskSpec) -> tuple[str, ...]:
        """The default metrics: of retrieval where all pairs match."""
        return self.usual_metrics if spec.label_column else _WITHOUT_GOLD

    def faults(self, spec: TaskSpec) -> Iterator[tuple[str, str]]:
        """See `TaskKind.faults`."""
        if not spec.label_column and not set(spec.metrics) <= set(pair_metrics.RETRIEVAL):
            yield "metrics", f"{', '.join(pair_metrics.RETRIEVAL)} without a label_column"
        if spec.pair_column is None:
            yield (
                "pair_column",
                "the column of second texts for an embedding, which is measured on pairs",
            )

    def parse(self, spec: TaskSpec, values: Sequence[str], where: Sequence[str]) -> np.ndarray:
        """See `TaskKind.parse`; float32 (n,), similarities."""
        return numbers(values, where)

    def score(
        self, spec: TaskSpec, outputs: np.ndarray, encoded: EncodedExamples
    ) -> dict[str, float]:
        """See `pair_metrics.score_pairs`."""
        if encoded.labels is None:
            raise errors.DataError("evaluation", "labelled examples", "examples without labels")
        count = len(encoded)
        if outputs.ndim != 2 or outputs.shape[0] != count or count % 2 or not count:
            raise errors.ShapeError(
                f"vectors of task {spec.name!r}",
                f"shape ({count}, width), two rows for each pair, at least one pair",
                outputs.shape,
            )
        if isinstance(outputs, np.ndarray):
            check_finite(outputs)
        # Not by tokens alone: other texts may be cut to the same ones, or have unknown words.
        texts = np.zeros(count, np.int64) if encoded.same_texts is None else encoded.same_texts
        keys = [texts[index].tobytes() + encoded.row(index).tobytes() for index in range(count)]
        similarities = encoded.labels[0::2].astype(np.float64)
        return pair_metrics.score_pairs(spec.metrics, outputs, similarities, keys)

    def chance(self, spec: TaskSpec, labels: np.ndarray) -> float:
        """Of the accuracy the majority's share, of the AUC 0.5, of all others 0."""
        if spec.primary_metric == "accuracy":
            share = float(np.mean(labels == labels.max()))
            return max(share, 1 - share)
        return 0.5 if spec.primary_metric == "auc" else 0.0


register(Vectors())
