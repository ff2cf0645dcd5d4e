#!/usr/bin/env python3
"""Few rows of each label: a head over the frozen encoder, and what it is compared with.

Draws 8, 16 and 30 rows of each label three times, fits each model to them, and prints its accuracy
on the test file: the head of `quickstart`, logistic regression of scikit-learn over the vectors of
the same encoder, and TF-IDF. `--quickstart DIR` names run folders of quickstart on the same draws,
DIR/<rows>-<draw>, whose exported file answers the test file, too; `--write DIR` writes the draws.
"""

from __future__ import annotations

import argparse
import csv
import pathlib
from collections.abc import Iterator

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from tfdistill import analysis, models, weights
from tfdistill.data import batches, tokenize
from tfdistill.predictor import Predictor
from tfdistill.tasks import tables

_DRAWS = 3


def parser() -> argparse.ArgumentParser:
    """Builds the parser."""
    built = argparse.ArgumentParser(description=__doc__)
    built.add_argument("teacher", help="a folder of sentence-transformers")
    built.add_argument("train", help="a table that rows are drawn from")
    built.add_argument("test", help="a table with the same columns")
    built.add_argument("--text-column", default="text")
    built.add_argument("--label-column", default="label")
    built.add_argument("--rows", type=int, nargs="+", default=[8, 16, 30])
    built.add_argument("--write", metavar="DIR", help="write the draws as DIR/<rows>-<draw>.csv")
    built.add_argument("--quickstart", metavar="DIR", help="run folders of quickstart")
    return built


def draws(labels: np.ndarray, rows: int) -> Iterator[np.ndarray]:
    """Yields the indices of each draw, so many of each label."""
    for draw in range(_DRAWS):
        random = np.random.default_rng(draw)
        of_label = [random.permutation(np.flatnonzero(labels == x)) for x in np.unique(labels)]
        yield random.permutation(np.concatenate([part[:rows] for part in of_label]))


def embed(teacher: str, texts: list[str]) -> np.ndarray:
    """The vectors of texts, of at most 64 tokens."""
    loaded = weights.load_embedder(teacher)
    assert loaded.vocab_file is not None
    tokenizer = tokenize.Tokenizer(loaded.vocab_file, lower_case=loaded.lower_case)
    encoded = tokenizer.encode_batch(texts, None, 64)
    return models.predict_logits(loaded.model, batches.Batches(encoded, shuffle=False))


def answer_file(run: pathlib.Path, texts: list[str]) -> list[str]:
    """The labels that the exported file of a run gives."""
    with Predictor(run / "export") as predictor:
        return [str(predictor.predict(text).label) for text in texts]


def main() -> None:
    """Prints a line for each number of rows."""
    args = parser().parse_args()
    columns = [args.text_column, args.label_column]
    train, test = (
        tables.read_table(pathlib.Path(p), columns).columns for p in (args.train, args.test)
    )
    names, labels = np.unique(train[args.label_column], return_inverse=True)
    gold = np.searchsorted(names, test[args.label_column])
    drawn = {rows: list(draws(labels, rows)) for rows in args.rows}
    used = np.unique(np.concatenate([part for parts in drawn.values() for part in parts]))
    texts, test_texts = train[args.text_column], test[args.text_column]
    vectors = embed(args.teacher, [*(texts[row] for row in used), *test_texts])
    tested = vectors[len(used) :]
    for rows, parts in drawn.items():
        scores: dict[str, list[float]] = {}
        for draw, part in enumerate(parts):
            rows_of_draw, gold_of_draw = vectors[np.searchsorted(used, part)], labels[part]
            chosen = [texts[row] for row in part]
            if args.write:
                place = pathlib.Path(args.write) / f"{rows}-{draw}.csv"
                with open(place, "w", encoding="utf-8", newline="") as file:
                    pairs = zip(chosen, names[gold_of_draw], strict=True)
                    csv.writer(file).writerows([columns, *pairs])
            head = analysis.fit_head(rows_of_draw, gold_of_draw, len(names))
            words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True).fit(chosen)
            regression = LogisticRegression(max_iter=1000)
            answers = {
                "head of quickstart": (tested @ head.kernel + head.bias).argmax(axis=1),
                "scikit-learn": regression.fit(rows_of_draw, gold_of_draw).predict(tested),
                "TF-IDF": regression.fit(words.transform(chosen), gold_of_draw).predict(
                    words.transform(test_texts)
                ),
            }
            for name, answered in answers.items():
                scores.setdefault(name, []).append(float(np.mean(answered == gold)))
            unseen = np.mean(head.unseen.argmax(axis=1) == gold_of_draw)
            scores.setdefault("cross-validated", []).append(float(unseen))
            if args.quickstart:
                answered = answer_file(pathlib.Path(args.quickstart) / f"{rows}-{draw}", test_texts)
                right = np.mean(np.array(answered) == test[args.label_column])
                scores.setdefault("file of quickstart", []).append(float(right))
        shown = ", ".join(
            f"{name} {np.mean(values):.3f} ({min(values):.3f} to {max(values):.3f})"
            for name, values in scores.items()
        )
        print(f"{len(names)} labels x {rows}: {shown}", flush=True)


if __name__ == "__main__":
    main()
