#!/usr/bin/env python3
"""Texts longer than the model: what is kept of them, and what that changes.

Fits a linear head over the frozen encoder to texts that are cut at 64 tokens: at their end, in
their middle (half of the tokens are the first ones: `data.truncation: middle`), and in their middle
with a head of a quarter, as Sun et al. 2019 have it; and to the same texts cut at 128 and at 256
tokens. Prints the accuracy on texts that nothing was fitted to: the mean of three draws, the
smallest and the largest. The tasks:

- trec's questions of six kinds, real ones, behind a paragraph of SQuAD, before one, and between
  two: a mail whose request stands at its end, at its beginning, or in its middle;
- which of ten stretches of a Gutenberg corpus a passage of 200 words is from: every part tells.

Of SQuAD's questions the paragraph whose vector is nearest is looked up; nothing is fitted.
"""

from __future__ import annotations

import argparse
import csv
import json
import pathlib
import time
from collections.abc import Iterator, Sequence

import numpy as np

from tfdistill import analysis, models, weights
from tfdistill.data import batches, tokenize
from tfdistill.tasks.encoded import Runs, heads_of, join

_DRAWS = 3
_TRAIN, _TEST = 200, 250  # texts of a draw, and of the test
_STRETCHES, _WORDS = 10, 200
# How a text is cut -> the most tokens, and of those that are kept the share that is its head.
CUTS = {
    "end, 64": (64, 1.0),
    "middle, 64": (64, 0.5),
    "middle, a quarter head, 64": (64, 0.25),
    "end, 128": (128, 1.0),
    "end, 256": (256, 1.0),
}


def parser() -> argparse.ArgumentParser:
    """Builds the parser."""
    built = argparse.ArgumentParser(description=__doc__)
    built.add_argument("encoder", help="a folder of sentence-transformers")
    built.add_argument("data", help="a folder with trec, squad/xquad.en.json and corpora")
    return built


class Embedder:
    """A sentence encoder, and texts that are cut before it."""

    def __init__(self, folder: str) -> None:
        """Opens a folder of sentence-transformers."""
        loaded = weights.load_embedder(folder)
        assert loaded.vocab_file is not None
        self._predict = models.predictor(loaded.model)
        self.tokenizer = tokenize.Tokenizer(loaded.vocab_file, loaded.lower_case)
        self.seconds = dict.fromkeys(CUTS, 0.0)
        self._vectors: dict[tuple[str, str], np.ndarray] = {}

    def __call__(self, texts: Sequence[str], cut: str) -> np.ndarray:
        """The vectors of texts, float (n, width)."""
        new = [text for text in dict.fromkeys(texts) if (text, cut) not in self._vectors]
        if new:
            vectors = self._embed(new, cut)
            self._vectors.update(((text, cut), v) for text, v in zip(new, vectors, strict=True))
        return np.stack([self._vectors[text, cut] for text in texts])

    def _embed(self, texts: Sequence[str], cut: str) -> np.ndarray:
        length, share = CUTS[cut]
        ids, counts = self.tokenizer.pieces(texts)
        rows, starts = [], np.cumsum(counts) - counts
        for start, count in zip(starts, counts, strict=True):
            row = ids[start : start + count]
            size = min(int(count), length - 2)
            head = int(heads_of(size, "middle")) if share == 0.5 else round(size * share)
            rows.append(np.concatenate([row[:head], row[len(row) - (size - head) :]]))
        sizes = np.array([len(row) for row in rows], np.int64)
        flat = Runs(np.concatenate(rows), np.cumsum(sizes) - sizes, sizes)
        nothing = Runs(flat.ids, flat.starts, np.zeros_like(sizes))
        alone = np.zeros(len(sizes), bool)
        encoded = join(flat, nothing, self.tokenizer.special_ids, has_pair=alone)
        began = time.process_time()
        vectors = self._predict(batches.Batches(encoded, batch_size=64, shuffle=False))
        self.seconds[cut] += time.process_time() - began
        return vectors


def rows_of(path: pathlib.Path) -> list[dict[str, str]]:
    """A table of tab-separated columns."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def paragraphs_of(data: pathlib.Path) -> tuple[list[str], list[str], np.ndarray]:
    """SQuAD's paragraphs, its questions, and the paragraph of each."""
    articles = json.loads((data / "squad" / "xquad.en.json").read_text("utf-8"))["data"]
    parts = [part for article in articles for part in article["paragraphs"]]
    questions = [(entry["question"], i) for i, part in enumerate(parts) for entry in part["qas"]]
    texts, owners = zip(*questions, strict=True)
    return [part["context"] for part in parts], list(texts), np.array(owners)


Draw = tuple[list[str], np.ndarray, list[str], np.ndarray]  # texts and labels, of training and test


def questions_in_text(data: pathlib.Path, place: str) -> list[Draw]:
    """Questions of trec with paragraphs around them; each draw has the same test."""
    paragraphs, _, _ = paragraphs_of(data)
    train, test = (rows_of(data / "trec" / f"{split}.tsv") for split in ("train", "test"))
    names = sorted({row["kind"] for row in train})

    def placed(question: str, random: np.random.Generator) -> str:
        first, second = random.choice(len(paragraphs), 2, replace=False)
        before = [paragraphs[first]] if place in ("end", "middle") else []
        after = [paragraphs[second]] if place in ("beginning", "middle") else []
        return " ".join([*before, question, *after])

    drawn: list[Draw] = []
    for draw in range(_DRAWS):
        random = np.random.default_rng(draw)
        chosen = [train[i] for i in random.permutation(len(train))[:_TRAIN]]
        parts: list = []
        for rows, seed in ((chosen, draw), (test[:_TEST], _DRAWS)):
            random = np.random.default_rng(seed)
            parts += [
                [placed(row["question"], random) for row in rows],
                np.array([names.index(row["kind"]) for row in rows]),
            ]
        drawn.append(tuple(parts))
    return drawn


def stretches(data: pathlib.Path) -> list[Draw]:
    """Passages of ten stretches of a corpus, those of the test further on in each."""
    words = (data / "corpora" / "gutenberg-16mb.txt").read_text("utf-8").split()
    drawn: list[Draw] = []
    for draw in range(_DRAWS):
        parts: list = []
        for first, count, seed in ((0, _TRAIN, draw), (30_000, _TEST, _DRAWS)):
            random = np.random.default_rng(seed)
            labels = np.arange(count) % _STRETCHES
            starts = labels * (len(words) // _STRETCHES) + first + random.integers(0, 20_000, count)
            parts += [[" ".join(words[i : i + _WORDS]) for i in starts], labels]
        drawn.append(tuple(parts))
    return drawn


def accuracies(drawn: list[Draw], embedder: Embedder, cut: str) -> Iterator[float]:
    """Yields the accuracy of each draw."""
    for texts, labels, others, gold in drawn:
        head = analysis.fit_head(embedder(texts, cut), labels, int(labels.max()) + 1)
        logits = embedder(others, cut) @ head.kernel + head.bias
        yield float((logits.argmax(axis=1) == gold).mean())


def main() -> None:
    """Prints a line for each task and cut."""
    args = parser().parse_args()
    data, embedder = pathlib.Path(args.data), Embedder(args.encoder)
    tasks = {
        f"trec, question at the {place}": questions_in_text(data, place)
        for place in ("end", "beginning", "middle")
    }
    tasks["ten stretches"] = stretches(data)
    for name, drawn in tasks.items():
        lengths = embedder.tokenizer.lengths(drawn[0][0])
        print(
            f"{name}: tokens, median {np.median(lengths):.0f}, longest {lengths.max()}", flush=True
        )
        for cut in CUTS:
            scores = list(accuracies(drawn, embedder, cut))
            shown = f"{np.mean(scores):.3f} ({min(scores):.3f} to {max(scores):.3f})"
            print(f"  {cut}: {shown}", flush=True)
    paragraphs, questions, owners = paragraphs_of(data)
    of_questions = embedder(questions, "end, 64")
    lengths = embedder.tokenizer.lengths(paragraphs)
    print(f"SQuAD's paragraphs: tokens, median {np.median(lengths):.0f}, longest {lengths.max()}")
    for cut in CUTS:
        scores = of_questions @ embedder(paragraphs, cut).T
        print(f"  {cut}: {(scores.argmax(axis=1) == owners).mean():.3f}", flush=True)
    usual = embedder.seconds["end, 64"]
    for cut, seconds in embedder.seconds.items():
        print(f"processor time, {cut}: {seconds / usual:.2f} of that of end, 64")


if __name__ == "__main__":
    main()
