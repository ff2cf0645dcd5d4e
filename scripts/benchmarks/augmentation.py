"""Augmentation: sentences a second through the batched masked language model.

Generated sentences of SST-2's lengths, with as many words to mask as SST-2's have, go through
`augmentation.CandidateFinder` in batches; against that one masked word at a time, as the published
code does it: a call of the model for each, logits for all of its tokens, and a sort of the whole
vocabulary.
"""

from __future__ import annotations

import itertools
import json
import pathlib
import string
import tempfile
from collections.abc import Sequence
from typing import Any

import bucketing
import numpy as np
import record
import turns

_TARGET = 8.0
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
# Of the 762,341 tokens of SST-2's training sentences (without [CLS] and [SEP]) 273,305 are words of
# one piece, purely a to z and no stop words, counted with bert-base-uncased: those are masked.
_MASKED_SHARE = 273_305 / 762_341
_NUM_CANDIDATES = 15


def measure(*, quick: bool) -> record.Outcome:
    """Measures the batches in float32 and bfloat16, and two ways of one word at a time."""
    from tfdistill import augmentation, models
    from tfdistill.data import tokenize

    preset, num_sentences, rounds, warmup = "minilm_6l_384d", 64, 5, 1
    if quick:
        preset, num_sentences, rounds, warmup = "bert_tiny", 4, 2, 1
    shape = models.preset(preset)
    counted = json.loads(bucketing.LENGTHS_FILE.read_text(encoding="utf-8"))
    lengths = quantiles(bucketing.lengths_of(counted), num_sentences)
    stop_words = sorted(augmentation.STOP_WORDS)
    tokens = vocabulary(stop_words, shape.vocab_size)
    texts = sentences(lengths - 2, tokens[len(_SPECIAL) + len(stop_words) :], stop_words)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "vocab.txt"
        file.write_text("\n".join(tokens) + "\n", encoding="utf-8")
        tokenizer = tokenize.Tokenizer(file)
    model = models.build_masked_lm(shape)

    def finder(masked_lm: Any = model, **options: Any) -> augmentation.CandidateFinder:
        return augmentation.CandidateFinder(
            masked_lm,
            tokenizer,
            None,
            num_candidates=_NUM_CANDIDATES,
            stop_words=augmentation.STOP_WORDS,
            **options,
        )

    batched = finder()
    single = finder(token_budget=1)
    half = finder(models.with_policy(model, "bfloat16"))
    samples = turns.take_turns(
        {
            "batched": lambda: batched.find(texts),
            "bfloat16": lambda: half.find(texts),
            "one_in_the_graph": lambda: single.find(texts),
            "one_at_a_time": lambda: one_at_a_time(model, tokenizer, texts, stop_words),
        },
        rounds=rounds,
        warmup=warmup,
    )
    seconds = turns.medians(samples["seconds"])
    busy = turns.medians(samples["processor_seconds"])
    masked = sum(len(text.candidates) for text in batched.find(texts))
    by_processor = ", ".join(f"{busy[way] / busy['batched']:.2f}x" for way in _SINGLE)
    return record.Outcome(
        title=f"augmentation: {preset} as masked language model, {num_sentences} sentences of "
        f"SST-2's lengths, {masked} masked words",
        figures=figures(seconds),
        details=[
            *((way, f"{num_sentences / seconds[way]:.1f} sentences/s") for way in seconds),
            ("one word at a time / batched, both ways, by processor time", by_processor),
            ("machine taken by other processes", turns.describe_others(samples)),
        ],
        settings={
            "masked_lm": preset,
            "num_sentences": num_sentences,
            "num_masked_words": masked,
            "num_tokens": int(lengths.sum()),
            "num_candidates": _NUM_CANDIDATES,
            "rounds": rounds,
            "warmup": warmup,
        },
        samples=samples,
        notes=[
            "one_at_a_time: a call of the model for each masked word, logits of all tokens, the "
            "whole vocabulary sorted; one_in_the_graph: our compiled graph, which answers for the "
            "masked token alone, with batches of one",
        ],
    )


_SINGLE = ("one_at_a_time", "one_in_the_graph")


def figures(seconds: dict[str, float]) -> list[record.Figure]:
    """Returns the ratios of seconds for the same sentences."""
    published, in_graph = (seconds[way] / seconds["batched"] for way in _SINGLE)
    return [
        record.Figure("batched against one masked word at a time", published, _TARGET, unit="x"),
        record.Figure("batched against batches of one in the same graph", in_graph, unit="x"),
        record.Figure(
            "bfloat16 against float32, batched", seconds["batched"] / seconds["bfloat16"], unit="x"
        ),
    ]


def quantiles(lengths: np.ndarray, count: int) -> np.ndarray:
    """Takes `count` lengths, evenly spread over ascending ones."""
    places = (np.arange(count) + 0.5) / count * len(lengths)
    return lengths[places.astype(int)]


def vocabulary(stop_words: Sequence[str], size: int) -> list[str]:
    """Makes `size` tokens: the special ones, the stop words, then words of four letters."""
    four_letters = (
        "".join(letters) for letters in itertools.product(string.ascii_lowercase, repeat=4)
    )
    fixed = [*_SPECIAL, *stop_words]
    fresh = (word for word in four_letters if word not in stop_words)
    return [*fixed, *itertools.islice(fresh, size - len(fixed))]


def sentences(
    lengths: np.ndarray, words: Sequence[str], stop_words: Sequence[str], seed: int = 0
) -> list[str]:
    """Draws sentences of given lengths, each word from `words` with the share of masked ones."""
    random = np.random.default_rng(seed)

    def word() -> str:
        source = words if random.random() < _MASKED_SHARE else stop_words
        return source[int(random.integers(len(source)))]

    return [" ".join(word() for _ in range(length)) for length in lengths]


def one_at_a_time(
    model: Any, tokenizer: Any, texts: Sequence[str], unmasked: Sequence[str]
) -> list[list[int]]:
    """Returns the best tokens of each masked word, with a call of the model for each."""
    import tensorflow as tf

    stop_words = set(unmasked)
    ids_of = {token: index for index, token in enumerate(tokenizer.vocab)}
    best = []
    for text in texts:
        words = text.split()
        ids = [ids_of[word] for word in words]
        length = 2 * len(ids) + 3
        types = [0] * (len(ids) + 2) + [1] * (len(ids) + 1)
        for place, word in enumerate(words):
            if word in stop_words:
                continue
            masked = [*ids[:place], tokenizer.mask_id, *ids[place + 1 :]]
            row = [tokenizer.cls_id, *masked, tokenizer.sep_id, *ids, tokenizer.sep_id]
            features = {
                "input_ids": tf.constant([row]),
                "attention_mask": tf.ones((1, length), tf.int32),
                "token_type_ids": tf.constant([types]),
                "prediction_mask": tf.ones((1, length), tf.int32),
            }
            logits = model(features, training=False)["mlm_logits"].numpy()  # (tokens, V)
            best.append(np.argsort(-logits[place + 1])[:_NUM_CANDIDATES].tolist())
    return best
