"""Counts the lengths of a task's training examples, in tokens: how sst2_lengths.json was made.

usage: python scripts/benchmarks/count_lengths.py GLUE/SST-2 VOCAB.TXT > lengths.json

The bucketing benchmark needs lengths, not texts: the counts lie beside it, so that it runs without
the data.
"""

from __future__ import annotations

import argparse
import json

import numpy as np

from tfdistill import files, tasks
from tfdistill.data import batches, tokenize

MAX_LENGTH = 64  # of SST-2 in TinyBERT's experiments


def main() -> None:
    """Prints the counts as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", help="the folder of SST-2 in GLUE's format")
    parser.add_argument("vocab", help="vocab.txt of bert-base-uncased")
    args = parser.parse_args()
    examples = tasks.load_examples(tasks.task("sst2"), args.data, "train")
    tokenizer = tokenize.Tokenizer(args.vocab)
    encoded = batches.encode_examples(examples, tokenizer, MAX_LENGTH)
    lengths, counts = np.unique(encoded.lengths, return_counts=True)
    note = (
        "Training examples of SST-2 (GLUE) by length: tokens of bert-base-uncased with [CLS] and "
        f"[SEP], at most {MAX_LENGTH}. Made by count_lengths.py."
    )
    record = {
        "format_version": 1,
        "note": note,
        "vocab_sha256": files.sha256_of(args.vocab),
        "max_length": MAX_LENGTH,
        "num_examples": int(counts.sum()),
        "num_tokens": int((lengths * counts).sum()),
        "count_by_length": dict(zip(map(str, lengths.tolist()), counts.tolist(), strict=True)),
    }
    print(json.dumps(record, indent=2))


if __name__ == "__main__":
    main()
