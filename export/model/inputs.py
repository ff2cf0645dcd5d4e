"""The examples that a model and its file are compared on: collected, drawn, chosen, padded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tfdistill import errors
from tfdistill.data.batches import Batches
from tfdistill.models import EncoderConfig
from tfdistill.tasks.encoded import EncodedExamples

NUM_RANDOM = 32  # examples drawn where none are given
NUM_PROBES = 32  # examples that go through every signature, and into golden.json
NUM_FILLING = 4  # probes of a signature that fill it, and as many that do not
_FIRST_ORDINARY_ID = 5  # below it vocabularies hold special tokens


def collect(check_on: Any, name: str = "check_on") -> EncodedExamples:
    """Collects the examples to check on, which errors call `name`, without padding.

    They are `EncodedExamples`, `Batches`, any iterable of batches (features by name, optionally
    followed by labels) such as a tf.data.Dataset, or a function that returns one.
    """
    if callable(check_on):
        check_on = check_on()
    if isinstance(check_on, Batches):
        encoded = check_on.encoded
    elif isinstance(check_on, EncodedExamples):
        encoded = check_on
    else:
        encoded = _unpadded(check_on, name)
    if not len(encoded):
        raise errors.DataError(name, "at least one example", "none")
    return encoded


def draw(config: EncoderConfig, lengths: Sequence[int], seed: int = 0) -> EncodedExamples:
    """Draws `NUM_RANDOM` random examples that fill between half and all of each length in turn."""
    random = np.random.default_rng(seed)
    sizes = [
        int(random.integers(max(2, length // 2), length + 1))
        for length, _ in zip(np.resize(lengths, NUM_RANDOM), range(NUM_RANDOM), strict=True)
    ]
    lowest = min(_FIRST_ORDINARY_ID, config.vocab_size - 1)
    ids = random.integers(lowest, config.vocab_size, sum(sizes)).astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    types = np.zeros(len(ids), np.uint8)
    return EncodedExamples(ids, offsets, types, pad_id=config.pad_token_id)


def probes_of(config: EncoderConfig, length: int) -> EncodedExamples:
    """Draws 2 x `NUM_FILLING` inputs that reach all of a signature, whatever real examples hold.

    Half of them fill it, so that every position counts; the ids are of the whole vocabulary, its
    ends among them; the token types are as of two texts in one half, any in the other.
    """
    random = np.random.default_rng((0, length))
    shorter = random.integers(min(2, length), length, NUM_FILLING, endpoint=True)
    sizes = np.concatenate([np.full(NUM_FILLING, length), shorter])
    num_types = max(1, config.type_vocab_size)
    types = []
    for number, size in enumerate(sizes.tolist()):
        mixed = random.integers(0, num_types, size)
        mixed[0] = 0  # a first text is never empty
        second = np.arange(size) >= random.integers(1, size, endpoint=True)
        types.append(mixed if number % 2 else np.minimum(second, num_types - 1))
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    ids = random.integers(0, config.vocab_size, offsets[-1]).astype(np.int32)
    ids[:2] = config.vocab_size - 1, 0
    joined = np.concatenate(types).astype(np.uint8)
    return EncodedExamples(ids, offsets, joined, pad_id=config.pad_token_id)


def joined(first: EncodedExamples, second: EncodedExamples) -> EncodedExamples:
    """Returns the inputs of both, without labels."""
    return EncodedExamples(
        np.concatenate([first.ids, second.ids]),
        np.concatenate([first.offsets, first.offsets[-1] + second.offsets[1:]]),
        np.concatenate([first.types, second.types]),
        pad_id=first.pad_id,
    )


def check_examples(
    encoded: EncodedExamples,
    config: EncoderConfig,
    lengths: Sequence[int],
    name: str = "check_on",
) -> None:
    """Checks that every example of `name` fits the longest signature and the vocabulary."""
    longest = int(encoded.lengths.max())
    if longest > max(lengths):
        raise errors.DataError(
            name,
            f"at most {max(lengths)} tokens, the longest of lengths",
            f"{longest} in example {int(encoded.lengths.argmax())}",
            f"Encode it with max_length={max(lengths)}, or export with a longer length.",
        )
    worst = int(encoded.ids.max())
    if worst >= config.vocab_size or int(encoded.ids.min()) < 0:
        raise errors.DataError(
            name,
            f"token ids from 0 to {config.vocab_size - 1}, the model's vocabulary",
            worst if worst >= config.vocab_size else int(encoded.ids.min()),
            "Encode it with the vocabulary of the model.",
        )


def probes(encoded: EncodedExamples, lengths: Sequence[int], count: int = NUM_PROBES) -> np.ndarray:
    """Chooses examples that cover the signatures and, within each, short and long inputs.

    Returns ascending indices, int64; of all examples where there are no more than `count`.
    """
    if len(encoded) <= count:
        return np.arange(len(encoded))
    bucket = np.searchsorted(lengths, encoded.lengths)  # the shortest signature that fits
    groups = [np.flatnonzero(bucket == i) for i in range(len(lengths))]
    chosen: list[int] = []
    # Smallest group first, so that what it cannot fill goes to the others.
    for left, group in enumerate(sorted(groups, key=len)):
        share = min(len(group), max(1, (count - len(chosen)) // (len(groups) - left)))
        by_length = group[np.argsort(encoded.lengths[group], kind="stable")]
        ranks = np.linspace(0, len(group) - 1, share).round().astype(int)
        chosen.extend(int(index) for index in by_length[ranks])
    return np.array(sorted(chosen))


def whole_texts(encoded: EncodedExamples, chosen: np.ndarray) -> np.ndarray:
    """Completes a choice of examples, ascending, so that every text in it has all its examples.

    Texts that would exceed `NUM_PROBES` examples are left out, but never that of the shortest
    example. Ascending indices, int64.
    """
    if encoded.sources is None:
        return chosen
    indices: list[int] = []
    shortest_first = chosen[np.argsort(encoded.lengths[chosen], kind="stable")]
    for source in dict.fromkeys(encoded.sources[shortest_first].tolist()):
        of_source = np.flatnonzero(encoded.sources == source).tolist()
        if not indices or len(indices) + len(of_source) <= NUM_PROBES:
            indices += of_source
    return np.array(sorted(indices))


def _unpadded(batches: Iterable[Any], name: str) -> EncodedExamples:
    ids, types, sizes, labels = [], [], [], []
    of_tokens = False
    for batch in batches:
        features, *targets = batch if isinstance(batch, tuple | list) else (batch,)
        try:
            arrays = {key: np.asarray(features[key]) for key in ("input_ids", "attention_mask")}
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise errors.DataError(
                name,
                "Batches, EncodedExamples or batches of features by name",
                f"{type(features).__name__} ({error!r})",
            ) from error
        kinds = arrays["input_ids"].dtype, arrays["attention_mask"].dtype
        if any(kind.kind not in "iub" for kind in kinds):
            raise errors.DataError(
                f"{name}, input_ids and attention_mask",
                "whole numbers (int32)",
                " and ".join(str(kind) for kind in kinds),
                "Batches of `tfdistill.data` have them.",
            )
        mask = arrays["attention_mask"] > 0
        token_types = np.asarray(features.get("token_type_ids", np.zeros_like(mask)))
        ids.append(arrays["input_ids"][mask])
        types.append(token_types[mask])
        sizes.append(mask.sum(axis=1))
        if targets and targets[0] is not None:
            gold = np.asarray(targets[0])
            of_tokens = gold.shape == mask.shape and gold.dtype.kind == "i"  # a label a position
            labels.append(gold[mask] if of_tokens else gold)
    if not ids:
        raise errors.DataError(name, "at least one batch", "none")
    return EncodedExamples(
        ids=np.concatenate(ids).astype(np.int32),
        offsets=np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.int64),
        types=np.concatenate(types).astype(np.uint8),
        labels=np.concatenate(labels) if labels else None,
        token_labels=of_tokens,
    )
