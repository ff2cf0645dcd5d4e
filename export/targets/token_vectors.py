"""tokens.jsonl: thousands of texts with the ids that any tokenizer of the model has to give.

The first line describes the file, each other line is a case::

    {"format_version": 1, "lower_case": true, "vocab_size": 30522, "num_cases": 4211}
    {"text": "hello, world", "max_length": 128, "input_ids": [101, 7592, 1010, 2088, 102]}
    {"text": "a b", "pair": "c", "max_length": 6, "input_ids": [...], "token_type_ids": [...]}

Without "pair" all token types are 0. The file is ASCII: what is beyond is escaped as JSON does.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfdistill.tasks import Examples
from tfdistill.tokenization.edge_cases import tokenizer_edge_cases
from tfdistill.tokenization.tokenizer import Tokenizer

FORMAT_VERSION = 1
NUM_REAL = 4000  # texts of the task, the first ones
_NUM_PAIRS = 400
_PAIR_LENGTHS = (5, 8, 9, 16, 17, 32)  # so few tokens that most pairs are cut, odd ones too


def token_vectors(tokenizer: Tokenizer, examples: Examples | None, max_length: int) -> bytes:
    """Makes tokens.jsonl of the texts of a task and the tokenizer's edge cases, cut to a length.

    Pairs are encoded as pairs; the questions and words of other tasks are encoded as plain texts.
    """
    texts = [] if examples is None else list(examples.texts[:NUM_REAL])
    cases = _cases(tokenizer, texts, None, max_length)
    paired = examples is not None and examples.pairs is not None and examples.questions is None
    if examples is not None and paired:
        pairs = list((examples.pairs or [])[:NUM_REAL])
        cases = _cases(tokenizer, texts, pairs, max_length)
    edge_cases = tokenizer_edge_cases()
    cases += _cases(tokenizer, edge_cases, None, max_length)
    random = np.random.default_rng(0)
    pool = [*texts, *edge_cases]
    for length in (*_PAIR_LENGTHS, max_length):
        count = -(-_NUM_PAIRS // (len(_PAIR_LENGTHS) + 1))
        chosen = random.integers(0, len(pool), (2, count))
        first, second = ([pool[index] for index in row] for row in chosen)
        cases += _cases(tokenizer, first, second, max(length, 2 + tokenizer.template.separators))
    header = {
        "format_version": FORMAT_VERSION,
        "lower_case": tokenizer.lower_case,
        "vocab_size": tokenizer.vocab_size,
        "num_cases": len(cases),
    }
    return "".join(json.dumps(line) + "\n" for line in [header, *cases]).encode("ascii")


def _cases(
    tokenizer: Tokenizer, texts: Sequence[str], pairs: Sequence[str] | None, max_length: int
) -> list[dict[str, Any]]:
    rows = tokenizer.encode_batch(texts, pairs, max_length)
    cases = []
    for index, text in enumerate(texts):
        case: dict[str, Any] = {"text": text}
        if pairs is not None:
            case["pair"] = pairs[index]
        case["max_length"] = max_length
        case["input_ids"] = rows.row(index).tolist()
        if "pair" in case:
            case["token_type_ids"] = rows.row_types(index).tolist()
        cases.append(case)
    return cases
