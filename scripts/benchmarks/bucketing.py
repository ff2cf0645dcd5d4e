"""Bucketing: an epoch over the lengths of SST-2, bucketed against padded to 64.

A whole epoch of the larger pair takes an hour, so a small one stands for it: of all examples in
the order of their lengths, cut into batches, every n-th batch. The small epoch has the lengths of
the whole one, and both ways to batch it train on the same examples.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import record
import turns

LENGTHS_FILE = pathlib.Path(__file__).with_name("sst2_lengths.json")
BATCH_SIZE = 32
_PAIRS = (("bert_base", "tinybert_4l_312d"), ("minilm_6l_384d", "tinybert_3l_192d"))
_TARGET = 4.0


def measure(*, quick: bool) -> record.Outcome:
    """Measures both ways to batch, for two pairs of teacher and student."""
    import steps

    from tfdistill import models
    from tfdistill.data import batches as batching

    counted = json.loads(LENGTHS_FILE.read_text(encoding="utf-8"))
    lengths = lengths_of(counted)
    pad_to = counted["max_length"]
    pairs, num_batches, rounds, warmup = _PAIRS, 12, 4, 1
    if quick:
        pairs, num_batches, rounds, warmup = (("bert_tiny", "bert_tiny"),), 3, 2, 1
    chosen = every_nth_batch(lengths, num_batches, BATCH_SIZE)
    examples = steps.random_examples(chosen)
    ways = {
        "bucketed": batching.Batches(examples, batch_size=BATCH_SIZE, max_length=pad_to),
        "padded": batching.Batches(
            examples, batch_size=BATCH_SIZE, max_length=pad_to, bucketing=False
        ),
    }
    figures: list[record.Figure] = []
    details: list[tuple[str, str]] = []
    samples: dict[str, Any] = {}
    for teacher_name, student_name in pairs:
        teacher = models.build_classifier(teacher_name, 2)
        measured = turns.take_turns(
            {
                way: steps.intermediate_stage(teacher, student_name, batches)
                for way, batches in ways.items()
            },
            rounds=rounds,
            warmup=warmup,
        )
        pair = f"{student_name} from {teacher_name}"
        samples[pair] = measured
        seconds = turns.medians(measured["seconds"])
        busy = turns.medians(measured["processor_seconds"])
        figures.append(
            record.Figure(
                pair,
                seconds["padded"] / seconds["bucketed"],
                None if figures else _TARGET,
                unit="x",
            )
        )
        scale = len(lengths) / len(examples)
        details += [
            (f"{pair}, whole epoch, {way}", f"{scale * seconds[way] / 60:.1f} min, estimated")
            for way in ways
        ]
        ratio = f"{busy['padded'] / busy['bucketed']:.2f}x"
        details.append((f"{pair}, by processor time", ratio))
        others = turns.describe_others(measured)
        details.append((f"{pair}, machine taken by other processes", others))
    whole = padded_ratio(lengths, BATCH_SIZE, pad_to)
    small = ways["padded"].padded_tokens() / ways["bucketed"].padded_tokens()
    return record.Outcome(
        title=f"bucketing: an epoch of SST-2 lengths, bucketed against padded to {pad_to}, "
        f"batch {BATCH_SIZE}",
        figures=figures,
        details=details,
        settings={
            "pairs": pairs,
            "batch_size": BATCH_SIZE,
            "pad_to": pad_to,
            "num_examples": len(lengths),
            "sampled_examples": len(examples),
            "sampled_batches": num_batches,
            "rounds": rounds,
            "warmup": warmup,
            "token_ratio_of_the_whole_epoch": whole,
            "token_ratio_of_the_sample": small,
        },
        samples=samples,
        notes=[
            f"timed: {num_batches} of {-(-len(lengths) // BATCH_SIZE)} batches, spread evenly over "
            f"the lengths; padded / bucketed tokens {small:.2f} in them, {whole:.2f} in all"
        ],
    )


def lengths_of(counted: dict[str, Any]) -> np.ndarray:
    """Returns the length of each example, ascending, int64 (n,)."""
    by_length = {int(length): count for length, count in counted["count_by_length"].items()}
    return np.repeat(list(by_length), list(by_length.values()))


def every_nth_batch(lengths: np.ndarray, num_batches: int, batch_size: int) -> np.ndarray:
    """Cuts ascending lengths into full batches and takes `num_batches`, evenly spread."""
    batches = lengths[: len(lengths) // batch_size * batch_size].reshape(-1, batch_size)
    places = (np.arange(num_batches) + 0.5) / num_batches * len(batches)
    return batches[places.astype(int)].reshape(-1)


def padded_ratio(lengths: np.ndarray, batch_size: int, pad_to: int) -> float:
    """Divides the tokens of an epoch padded to `pad_to` by those of a bucketed one."""
    starts = np.arange(0, len(lengths), batch_size)
    longest = np.maximum.reduceat(lengths, starts)
    sizes = np.diff(np.append(starts, len(lengths)))
    return float(pad_to * len(lengths) / (longest * sizes).sum())
