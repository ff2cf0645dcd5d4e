"""Counts the lengths of texts in tokens: how sst2_lengths.json and dev_lengths.json were made.

usage: python scripts/benchmarks/count_lengths.py GLUE/SST-2 VOCAB.TXT > sst2_lengths.json
       python scripts/benchmarks/count_lengths.py DATA VOCAB.TXT --dev > dev_lengths.json

The benchmarks need lengths, not texts: the counts lie beside them, so that they run without the
data. DATA holds glue/SST-2, glue/STS-B and trec/dev.tsv (a column "question").
"""

from __future__ import annotations

import argparse
import json
import pathlib
from typing import Any

from tfdistill import files, lengths, tasks
from tfdistill.data import batches, tokenize

MAX_LENGTH = 64  # of SST-2 in TinyBERT's experiments
DEV_LENGTH = 128  # the default of a file


def main() -> None:
    """Prints the counts as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "data", help="the folder of SST-2 in GLUE's format; with --dev, of all sets"
    )
    parser.add_argument("vocab", help="vocab.txt of bert-base-uncased")
    parser.add_argument("--dev", action="store_true", help="development texts of three sets")
    args = parser.parse_args()
    tokenizer = tokenize.Tokenizer(args.vocab)
    data = pathlib.Path(args.data)
    record = of_dev_sets(data, tokenizer) if args.dev else of_training_set(data, tokenizer)
    record = {"format_version": 1, "vocab_sha256": files.sha256_of(args.vocab), **record}
    print(json.dumps(record, indent=2))


def of_training_set(data: pathlib.Path, tokenizer: tokenize.Tokenizer) -> dict[str, Any]:
    """Counts the training examples of SST-2."""
    examples = tasks.load_examples(tasks.task("sst2"), data, "train")
    counts = lengths.counted(batches.encode_examples(examples, tokenizer, MAX_LENGTH).lengths)
    return {
        "note": "Training examples of SST-2 (GLUE) by length: tokens of bert-base-uncased with "
        f"[CLS] and [SEP], at most {MAX_LENGTH}. Made by count_lengths.py.",
        "max_length": MAX_LENGTH,
        "num_examples": sum(counts.values()),
        "num_tokens": sum(length * count for length, count in counts.items()),
        "count_by_length": counts,
    }


def of_dev_sets(data: pathlib.Path, tokenizer: tokenize.Tokenizer) -> dict[str, Any]:
    """Counts the development texts of SST-2, STS-B and trec."""
    glue = {"SST-2": tasks.task("sst2"), "STS-B": tasks.task("stsb")}
    sets = {
        name: tasks.load_examples(task, data / "glue" / name, "dev") for name, task in glue.items()
    }
    rows = (data / "trec" / "dev.tsv").read_text(encoding="utf-8").splitlines()
    column = rows[0].split("\t").index("question")
    questions = [row.split("\t")[column] for row in rows[1:]]
    sets["trec"] = tasks.Examples(glue["SST-2"], questions, None, None)
    return {
        "note": "Development texts by length: tokens of bert-base-uncased with [CLS] and [SEP], at "
        f"most {DEV_LENGTH}. Made by count_lengths.py --dev.",
        "max_length": DEV_LENGTH,
        "count_by_length": {
            name: lengths.counted(batches.encode_examples(examples, tokenizer, DEV_LENGTH).lengths)
            for name, examples in sets.items()
        },
    }


if __name__ == "__main__":
    main()
