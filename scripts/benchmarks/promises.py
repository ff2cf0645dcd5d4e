#!/usr/bin/env python3
"""Holds what files promise against what they keep, on labelled texts that a run has not seen.

Teacher, student and file of a run answer its development set, which gives each a temperature, and
held-out texts, which are split in two halves many times: one gives the promises, the other shows
which share of the answers they cover, and how many of these are wrong. Texts of another kind show
how many of them would pass as sure, by the confidence alone and behind a second threshold: on the
energy ``log sum exp(z / T)`` or on the largest logit of the file, on the mean log probability of
the text's pieces, each after the one before it, in the training texts, or on the score of an export
(`tfdistill.manifest.familiarity`).
"""

from __future__ import annotations

import argparse
import collections
import csv
import itertools
import json
import pathlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.special

from tfdistill import analysis, config, errors, tasks
from tfdistill.data import from_config, promise_rows
from tfdistill.data.batches import Batches
from tfdistill.manifest.familiarity import fit_familiarity
from tfdistill.run import inputs
from tfdistill.tasks.encoded import EncodedExamples
from tfdistill.tokenization.reading import read_vocab

_KEPT = 0.95  # of the held-out texts above a second threshold
_PRIOR = 2.0  # pairs of pieces that the single pieces count for


def parser() -> argparse.ArgumentParser:
    """Builds the parser."""
    built = argparse.ArgumentParser(
        prog="promises.py",
        description=__doc__,
        epilog="example:\n  scripts/benchmarks/promises.py runs/trec --held test.csv "
        "--other sst2.csv:sentence --out trec.json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    built.add_argument("run", help="a run folder with a teacher, a student and a file")
    built.add_argument(
        "--held", nargs="+", required=True, metavar="FILE", help="labelled texts, as its task has"
    )
    built.add_argument(
        "--other",
        nargs="*",
        default=(),
        metavar="FILE:COLUMN",
        help="texts of another kind, in a column of a CSV file",
    )
    built.add_argument("--resplits", type=int, default=200, metavar="N", help="default: 200")
    built.add_argument("--out", metavar="FILE", help="write the figures as JSON")
    return built


def main() -> int:
    """Answers the texts, splits them, and shows the figures."""
    args = parser().parse_args()
    try:
        value = measure(args.run, args.held, args.other, args.resplits)
    except errors.TfdistillError as error:
        print(f"promises.py: {error}", file=sys.stderr)
        return 1
    text = json.dumps(value, indent=1) + "\n"
    if args.out is not None:
        pathlib.Path(args.out).write_text(text, "utf-8")
    print(text, end="")
    return 0


def measure(run: str, held: Sequence[str], other: Sequence[str], resplits: int) -> dict[str, Any]:
    """The figures of a run."""
    recipe = config.saved_recipe(run)
    if recipe is None:
        raise errors.ConfigError("run", "a run folder", run)
    task, train = from_config.labelled(recipe.data, "train")
    _, dev = from_config.labelled(recipe.data, "dev")
    left = [promise_rows.promise_examples(path, task, (train, dev)) for path in held]
    parts = [part for part in left if part is not None]
    teacher, student = (config.model_folder(f"{run}/teacher"), config.model_folder(run))
    models = {
        name: inputs.open_answerer(path, task)
        for name, path in (("teacher", teacher), ("student", student), ("file", f"{run}/export"))
    }

    def answers(model: Any, examples: tasks.Examples) -> tuple[np.ndarray, EncodedExamples]:
        rows = Batches(model.encode(examples, recipe.data), batch_size=64, shuffle=False)
        outputs = model.outputs(rows, task)
        is_file = isinstance(model, inputs.ExportedSource)
        return model.logits(outputs, task) if is_file else outputs, rows.encoded

    figures: dict[str, Any] = {"dev": len(dev), "held": sum(map(len, parts)), "models": {}}
    for name, model in models.items():
        chosen, gold = answers(model, dev)
        temperature = analysis.temperature_of(chosen, gold)
        pairs = [answers(model, part) for part in parts]
        logits = np.concatenate([rows for rows, _ in pairs])
        labels = np.concatenate([np.asarray(encoded.labels) for _, encoded in pairs])
        judged = analysis.judge_rows(task.traits, logits, labels, temperature)
        scaled = {"before": logits, "after": logits / temperature}
        figures["models"][name] = {
            "temperature": temperature,
            "error": float(np.mean(~judged.right)),
            "promises": resplit(judged, resplits),
            "calibration": {
                when: {
                    key: score._asdict()
                    for key, score in analysis.calibration_scores(rows, labels).items()
                }
                for when, rows in scaled.items()
            },
            "ece_noise": analysis.calibration_noise(scaled["after"]),
        }
        if name == "file":
            trained_on = model.encode(train, recipe.data)
            parts_of = [encoded for _, encoded in pairs]
            held_rows = (logits / temperature, parts_of)
            tokens = read_vocab(f"{run}/export/vocab.txt")
            familiarity = fit_familiarity(trained_on, parts_of[0], tokens)
            of_pieces = {"pairs of pieces": likelihood([trained_on])}
            if familiarity is not None:
                of_pieces["pairs against rank"] = familiarity.scores
            figures["other"] = {}
            for place in other:
                texts = texts_of(place, task)
                rows, encoded = answers(model, texts)
                foreign = (rows / temperature, [encoded])
                figures["other"][pathlib.Path(place).name] = strangers(
                    judged, held_rows, foreign, of_pieces
                )
    return figures


def resplit(judged: analysis.JudgedTexts, resplits: int) -> dict[str, Any]:
    """What promises from one half of the texts come to on the other half, and on all of them."""
    random = np.random.default_rng(0)
    rows: dict[str, list[tuple[float, ...]]] = collections.defaultdict(list)
    for _ in range(resplits):
        order = random.permutation(len(judged.right))
        one, other = order[: len(order) // 2], order[len(order) // 2 :]
        for max_error in (0.01, 0.02, 0.05, 0.1):
            promise = analysis.find_promise(judged.confidence[one], judged.right[one], max_error)
            # Without a threshold nothing is sure.
            threshold = np.inf if promise.threshold is None else promise.threshold
            sure = judged.confidence > threshold
            wrong = [_share(~judged.right[part][sure[part]]) for part in (other, order)]
            figures = float(promise.threshold is not None), float(sure[other].mean()), *wrong
            rows[f"{max_error:g}"].append(figures)
    outcomes = {}
    for name, values in rows.items():
        promised, coverage, wrong, wrong_of_all = np.array(values).T
        outcomes[name] = {
            "promised": float(promised.mean()),
            "coverage": float(coverage.mean()),
            "error": float(wrong[promised > 0].mean()) if promised.any() else None,
            "missed": float(np.mean(wrong > float(name))),
            "missed_of_all": float(np.mean(wrong_of_all > float(name))),
            "worst": float(wrong.max()),
        }
    return outcomes


def _share(answers: np.ndarray) -> float:
    return float(answers.mean()) if len(answers) else 0.0


def texts_of(place: str, task: tasks.TaskSpec) -> tasks.Examples:
    """The texts of FILE:COLUMN."""
    path, _, column = place.rpartition(":")
    with open(path, encoding="utf-8", newline="") as file:
        texts = [row[column] for row in csv.DictReader(file)]
    return tasks.Examples(task, texts, None, None)


Texts = tuple[np.ndarray, list[EncodedExamples]]  # logits over the temperature, and the texts


def strangers(
    judged: analysis.JudgedTexts,
    held: Texts,
    foreign: Texts,
    of_pieces: Mapping[str, Callable[[EncodedExamples], np.ndarray]],
) -> dict[str, Any]:
    """Which share of held-out and of foreign texts is sure, with a second threshold and without."""
    measures: Mapping[str, Callable[[Texts], np.ndarray]] = {
        "confidence alone": lambda texts: np.zeros(len(texts[0])),
        "energy": lambda texts: scipy.special.logsumexp(texts[0], axis=1),
        "largest logit": lambda texts: texts[0].max(axis=1),
    }
    scored = {name: (score(held), score(foreign)) for name, score in measures.items()}
    for name, of_part in of_pieces.items():
        familiar, strange = (
            np.concatenate(list(map(of_part, texts[1]))) for texts in (held, foreign)
        )
        scored[name] = familiar, strange
    figures: dict[str, Any] = {"texts": len(foreign[0])}
    confidence = scipy.special.softmax(foreign[0], axis=1).max(axis=1)
    for max_error in (0.05, 0.1):
        threshold = analysis.find_promise(*judged, max_error).threshold
        if threshold is None:
            continue
        for name, (familiar, strange) in scored.items():
            lowest = np.quantile(familiar, 1 - _KEPT)
            figures[f"{name} at {max_error:g}"] = {
                "held": float(np.mean((judged.confidence > threshold) & (familiar >= lowest))),
                "foreign": float(np.mean((confidence > threshold) & (strange >= lowest))),
            }
    return figures


def likelihood(parts: Sequence[EncodedExamples]) -> Callable[[EncodedExamples], np.ndarray]:
    """The mean log probability of each piece after the one before it, counted in texts."""
    rows = [part.row(i).tolist() for part in parts for i in range(len(part))]
    single = collections.Counter(piece for row in rows for piece in row[1:])
    before = collections.Counter(piece for row in rows for piece in row[:-1])
    pairs = collections.Counter(pair for row in rows for pair in itertools.pairwise(row))
    total = sum(single.values()) + 0.5 * 30_000  # so many pieces, half of one each

    def score(encoded: EncodedExamples) -> np.ndarray:
        means = []
        for i in range(len(encoded)):
            row = encoded.row(i).tolist()
            logs = [
                np.log((pairs[a, b] + _PRIOR * (single[b] + 0.5) / total) / (before[a] + _PRIOR))
                for a, b in itertools.pairwise(row)
            ]
            means.append(np.mean(logs))
        return np.array(means)

    return score


if __name__ == "__main__":
    raise SystemExit(main())
