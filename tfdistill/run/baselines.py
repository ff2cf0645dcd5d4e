"""What a student has to beat: linear models on the run's own data."""

from __future__ import annotations

import time

from tfdistill import analysis, results
from tfdistill.data import metrics
from tfdistill.run.context import RunContext

_MOST_EXAMPLES = 20_000  # training texts; more change a linear model little and cost minutes


def measure_baselines(context: RunContext) -> tuple[results.BaselineResult, ...]:
    """Scores baselines on the development set, unless that is done.

    "majority" answers the most frequent class, "tfidf" is a logistic regression over words and
    pairs of words, "word_vectors" one over the mean of the teacher's word vectors. Numbers are
    regressed. Tasks over words or spans have no baseline here.

    Args:
      context: The run.

    Returns:
      One result each, in that order.
    """
    data = context.task_data
    if not context.recipe.baselines or data.task.head not in ("sequence", "multi_label"):
        return ()

    def work() -> results.Baselines:
        train = data.train_examples.select(range(min(len(data.train_examples), _MOST_EXAMPLES)))
        assert train.labels is not None
        encoded = data.train.select(range(len(train)))
        (table,) = context.teachers.task.get_layer("word_embeddings").get_weights()[:1]
        special = (data.tokenizer.cls_id, data.tokenizer.sep_id)
        rows = []
        for name in ("majority", "tfidf", "word_vectors"):
            started = time.monotonic()
            if name == "majority":
                logits = analysis.majority_logits(data.task, train.labels, len(data.dev_examples))
            else:
                if name == "tfidf":
                    features = analysis.text_features(train, data.dev_examples)
                else:
                    features = tuple(
                        analysis.embedding_features(table, rows_of, special_ids=special)
                        for rows_of in (encoded, data.dev.encoded)
                    )
                logits = analysis.fit_linear(data.task, features[0], train.labels, features[1])
            found = metrics.score(data.task, logits, data.dev.encoded)
            seconds = time.monotonic() - started
            rows.append(results.BaselineResult(name=name, metrics=found, seconds=seconds))
        return results.Baselines(rows=tuple(rows))

    return context.folder.step("results/baselines.json", results.Baselines, work).rows
