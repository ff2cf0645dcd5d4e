#!/usr/bin/env python3
"""Few rows of each label: a head over the frozen encoder, and what it is compared with.

Draws 8, 16 and 30 rows of each label three times, fits each model to them, and prints its accuracy
on the test file: the head of `quickstart` over the encoder fine-tuned on pairs of rows and over the
encoder as it is, logistic regression of scikit-learn over the vectors of the latter, the nearest
rows as in an index, a static student, and TF-IDF. The static student is the mean of word vectors as
model2vec makes them: the encoder's vector of each word alone, less of frequent words, and the head
of `quickstart` over it.

Coverage is the share of the test texts with a sure answer, error the share of these that is wrong:
at the threshold of a promise of 5% that 300 further rows showed (0 without one); of the index at
its own thresholds. "at best" is the coverage at the lowest threshold with an error of at most 5%
on the test file itself, which no program can know.

`--write DIR` keeps the draws as DIR/<rows>-<draw>/train.csv.
"""

from __future__ import annotations

import argparse
import csv
import pathlib
import tempfile
from collections.abc import Iterator

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

import tfdistill
from tfdistill import analysis, config, models, training, weights
from tfdistill.commands import quickstart_recipe
from tfdistill.data import batches, text_index, tokenize
from tfdistill.data.routes import decide, rows_by_label
from tfdistill.run import index_checks
from tfdistill.tasks import KINDS, tables
from tfdistill.tasks.encoded import EncodedExamples

_DRAWS = 3
_MAX_ERROR = 0.05
_PROMISING = 300  # further rows that show a promise
_FREQUENCY = 1e-4  # of a word whose vector counts half


def parser() -> argparse.ArgumentParser:
    """Builds the parser."""
    built = argparse.ArgumentParser(description=__doc__)
    built.add_argument("teacher", help="a folder of sentence-transformers")
    built.add_argument("train", help="a table that rows are drawn from")
    built.add_argument("test", help="a table with the same columns")
    built.add_argument("--text-column", default="text")
    built.add_argument("--label-column", default="label")
    built.add_argument("--rows", type=int, nargs="+", default=[8, 16, 30])
    built.add_argument("--write", metavar="DIR", help="keep the draws here")
    return built


def draws(labels: np.ndarray, rows: int) -> Iterator[np.ndarray]:
    """Yields the indices of each draw, so many of each label."""
    for draw in range(_DRAWS):
        random = np.random.default_rng(draw)
        of_label = [random.permutation(np.flatnonzero(labels == x)) for x in np.unique(labels)]
        yield random.permutation(np.concatenate([part[:rows] for part in of_label]))


class Embedder:
    """An encoder, and the static student that is made of it."""

    def __init__(self, teacher: str) -> None:
        """Opens a folder of sentence-transformers."""
        loaded = weights.load_embedder(teacher)
        assert loaded.vocab_file is not None
        self._model = loaded.model
        self._tokenizer = tokenize.Tokenizer(loaded.vocab_file, lower_case=loaded.lower_case)

    def __call__(self, texts: list[str]) -> np.ndarray:
        """The vectors of texts, of at most 64 tokens."""
        encoded = self._tokenizer.encode_batch(texts, None, 64)
        return models.predict_logits(self._model, batches.Batches(encoded, shuffle=False))

    def static(self, texts: list[str]) -> np.ndarray:
        """The means of the vectors that each word has alone; frequent words count less.

        By Zipf's law a word's rank in the vocabulary gives its frequency f, and a / (a + f) its
        weight.
        """
        encoded = self._tokenizer.encode_batch(texts, None, 64)
        used, place = np.unique(encoded.ids, return_inverse=True)
        ids = np.stack(
            [
                np.full(len(used), self._tokenizer.cls_id),
                used,
                np.full(len(used), self._tokenizer.sep_id),
            ],
            axis=1,
        )
        alone = EncodedExamples(
            ids.astype(np.int32).ravel(), 3 * np.arange(len(used) + 1), np.zeros(ids.size, np.uint8)
        )
        table = models.predict_logits(self._model, batches.Batches(alone, shuffle=False))
        frequency = 1 / (used + 1) / np.log(len(self._tokenizer.vocab))
        table *= (_FREQUENCY / (_FREQUENCY + frequency))[:, None]
        special = np.isin(used, (self._tokenizer.cls_id, self._tokenizer.sep_id))
        table[special] = 0
        rows = np.repeat(np.arange(len(texts)), encoded.lengths)
        sums = np.zeros((len(texts), table.shape[1]))
        np.add.at(sums, rows, table[place])
        return sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)


def fine_tuned(teacher: str, rows: pathlib.Path, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """What `quickstart` trains on rows: its logits of those left out, and of other texts."""
    data = tfdistill.load_data(
        rows.parent,
        tokenizer=teacher,
        task="rows",
        text_column="text",
        label_column="label",
        dev_split=rows.stem,
        cross_fitted=True,
        max_length=64,
    )
    loaded = weights.load_model(
        teacher, "sequence", num_labels=data.task.num_labels, new_head=True, pooled=True
    )
    width, num_labels = loaded.config.hidden_size, data.task.num_labels
    settings = config.FineTuneConfig(**quickstart_recipe.training_on_pairs(width, num_labels))
    place = rows.parent
    training.fit_linear_head(loaded.model, data, settings, place, seed=1, description=place.name)
    encoded = data.tokenizer.encode_batch(texts, None, 64)
    logits = models.predict_logits(loaded.model, batches.Batches(encoded, shuffle=False))
    return training.read_unseen(place), logits


def at_best(judged: analysis.JudgedTexts) -> float:
    """The largest coverage with an error of at most 5%, chosen on the texts themselves."""
    curve = analysis.error_by_coverage(judged)
    return max(curve[curve[:, 1] <= _MAX_ERROR, 0], default=0.0)


def scores_of(
    logits: np.ndarray, gold: np.ndarray, promising: np.ndarray, promising_gold: np.ndarray
) -> dict[str, float]:
    """Accuracy, and coverage and error at the threshold that other rows promise."""
    kind = KINDS["classification"]
    judged = analysis.judge_rows(kind, logits, gold)
    shown = analysis.judge_rows(kind, promising, promising_gold)
    promise = analysis.find_promise(shown.confidence, shown.right, _MAX_ERROR)
    sure = judged.confidence > (2.0 if promise.threshold is None else promise.threshold)
    scores = {"accuracy": float(judged.right.mean()), "coverage": float(sure.mean())}
    if sure.any():
        scores["error"] = float(1 - judged.right[sure].mean())
    return {**scores, "at best": at_best(judged)}


def index_scores(
    rows: np.ndarray, labels: np.ndarray, names: np.ndarray, tested: np.ndarray, gold: np.ndarray
) -> dict[str, float]:
    """The same of an index of the rows, at its own thresholds."""
    int8 = text_index.quantize(rows)
    named = [str(names[label]) for label in labels]
    routes, rows_of = index_checks.fit_routes(int8, named), rows_by_label(named)
    assert routes is not None
    _, spreads = index_checks.measure(rows, int8, labels)
    least = index_checks.threshold_of(spreads.others, len(rows))
    scores_of_texts = text_index.scores_of(text_index.quantize(tested), int8)
    routed = [decide(scores, rows_of, routes, least) for scores in scores_of_texts]
    right = np.array([route.label == name for route, name in zip(routed, names[gold], strict=True)])
    sure = np.array([route.sure for route in routed])
    margins = np.array([route.margin for route in routed])
    scores = {"accuracy": float(right.mean()), "coverage": float(sure.mean())}
    if sure.any():
        scores["error"] = float(1 - right[sure].mean())
    return {**scores, "at best": at_best(analysis.JudgedTexts(margins, right))}


def main() -> None:
    """Prints the table of each number of rows."""
    args = parser().parse_args()
    columns = [args.text_column, args.label_column]
    train, test = (
        tables.read_table(pathlib.Path(p), columns).columns for p in (args.train, args.test)
    )
    names, labels = np.unique(train[args.label_column], return_inverse=True)
    gold = np.searchsorted(names, test[args.label_column])
    drawn = {rows: list(draws(labels, rows)) for rows in args.rows}
    used = np.unique(np.concatenate([part for parts in drawn.values() for part in parts]))
    others = np.setdiff1d(np.arange(len(labels)), used)
    promising = np.random.default_rng(_DRAWS).permutation(others)[:_PROMISING]
    texts, test_texts = train[args.text_column], test[args.text_column]
    every = [*(texts[row] for row in used), *(texts[row] for row in promising), *test_texts]
    folder = pathlib.Path(args.write or tempfile.mkdtemp(prefix="few-rows-"))
    folder.mkdir(parents=True, exist_ok=True)
    embedder = Embedder(args.teacher)
    parts_of = [len(used), len(used) + len(promising)]
    vectors, promised, tested = np.split(embedder(every), parts_of)
    static, static_promised, static_tested = np.split(embedder.static(every), parts_of)
    for rows, parts in drawn.items():
        scores: dict[str, list[dict[str, float]]] = {}
        for draw, part in enumerate(parts):
            places, gold_of_draw = np.searchsorted(used, part), labels[part]
            chosen = [texts[row] for row in part]
            place = folder / f"{rows}-{draw}" / "train.csv"
            place.parent.mkdir(exist_ok=True)
            with open(place, "w", encoding="utf-8", newline="") as file:
                pairs = zip(chosen, names[gold_of_draw], strict=True)
                csv.writer(file).writerows([("text", "label"), *pairs])
            unseen, logits = fine_tuned(args.teacher, place, every[len(used) :])
            promised_logits, tested_logits = np.split(logits, [len(promising)])
            head = analysis.fit_head(vectors[places], gold_of_draw, len(names))
            small = analysis.fit_head(static[places], gold_of_draw, len(names))
            words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True).fit(chosen)

            def of_words(texts: list[str], words: TfidfVectorizer = words) -> np.ndarray:
                return words.transform(texts)

            regression = LogisticRegression(max_iter=1000)
            regression.fit(vectors[places], gold_of_draw)
            answers = {
                "fine-tuned on pairs (quickstart)": [tested_logits, promised_logits],
                "head over the frozen encoder": [
                    x @ head.kernel + head.bias for x in (tested, promised)
                ],
                "scikit-learn": [regression.predict_log_proba(x) for x in (tested, promised)],
                "static student": [
                    x @ small.kernel + small.bias for x in (static_tested, static_promised)
                ],
            }
            regression = LogisticRegression(max_iter=1000).fit(of_words(chosen), gold_of_draw)
            answers["TF-IDF"] = [
                regression.predict_log_proba(of_words(x))
                for x in (test_texts, [texts[row] for row in promising])
            ]
            for name, (answered, shown) in answers.items():
                of_name = scores_of(answered, gold, shown, labels[promising])
                scores.setdefault(name, []).append(of_name)
            of_index = index_scores(vectors[places], gold_of_draw, names, tested, gold)
            scores.setdefault("index", []).append(of_index)
            for name, logits in (("fine-tuned", unseen), ("frozen", head.unseen)):
                right = np.mean(logits.argmax(axis=1) == gold_of_draw)
                of_name = {"accuracy": float(right)}
                scores.setdefault(f"cross-validated, {name}", []).append(of_name)
        print(f"{len(names)} labels x {rows}", flush=True)
        for name, of_draws in scores.items():
            print(f"  {name}: {', '.join(summaries(of_draws))}", flush=True)


def summaries(of_draws: list[dict[str, float]]) -> Iterator[str]:
    """Yields each figure as mean (smallest to largest) over the draws that have it."""
    for what in dict.fromkeys(name for figures in of_draws for name in figures):
        values = [figures[what] for figures in of_draws if what in figures]
        yield f"{what} {np.mean(values):.3f} ({min(values):.3f} to {max(values):.3f})"


if __name__ == "__main__":
    main()
